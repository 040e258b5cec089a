package kv

import (
	"context"
	"errors"
	"fmt"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/storage"
)

// KeyStats are what is known of a key.
type KeyStats struct {
	Key, Type string
	Bytes     uint64   // of the string, or the room that the layers have
	Disk      uint64   // bytes of blocks on disk, without what is in memtables
	Resident  uint64   // bytes of blocks in memory
	Expiry    int64    // Unix milliseconds, 0 for never
	Facts     FactList // that the type tells
}

// Stats returns what is known of a key, nil if it is missing.
func (r Reader) Stats(key []byte) (*KeyStats, error) {
	o, err := r.find(key)
	if o == nil || err != nil {
		return nil, err
	}
	s := &KeyStats{Key: o.key, Type: o.TypeName(), Expiry: o.Expiry()}
	if o.inline() {
		value, _, err := o.string()
		s.Bytes = uint64(len(value))
		return s, err
	}
	for _, l := range o.layers {
		s.Bytes += l.Spec().Bytes()
	}
	if s.Disk, s.Resident, err = r.db.ObjectBytes(o); err != nil {
		return nil, err
	}
	if o.typ != nil && o.typ.Describe != nil {
		d, err := o.typ.Describe(r, o)
		if err != nil {
			return nil, fmt.Errorf("describe %q: %w", key, err)
		}
		s.Bytes, s.Facts = d.Bytes, d.Facts
	}
	if o.Lossy() {
		s.Facts = append(FactList{NewFact("lossy", true)}, s.Facts...)
	}
	return s, nil
}

// StoredBytes returns the bytes of stored keys and values that belong to a key; false if the key is missing. In each
// layer it measures as many blocks as samples says, all for 0, and takes them for the others: items are spread evenly.
// A log does not count. Of a transaction's staged changes it counts the header alone.
func (r Reader) StoredBytes(ctx context.Context, key []byte, samples int64) (total uint64, there bool, err error) {
	o, err := r.find(key)
	if err != nil || o == nil {
		return 0, false, err
	}
	total, err = r.storedBytes(ctx, o, samples)
	return total, true, err
}

func (r Reader) storedBytes(ctx context.Context, o *Object, samples int64) (total uint64, err error) {
	h, key := o.header, []byte(o.key)
	total = uint64(format.HeaderKeyPrefix + len(key) + len(format.AppendHeader(nil, h)))
	if h.Expiry != 0 {
		total += uint64(len(format.AppendExpiryKey(nil, h.Expiry, key)) + len(format.ExpiryNoteValue(h)))
	}
	if o.inline() {
		return total, nil
	}
	if err := r.db.enter(); err != nil {
		return 0, err
	}
	defer r.db.exit()
	from := format.AppendObjectKey(nil, h.ID)
	to := format.AppendOrdered(format.AppendObjectKey(nil, h.ID), format.PartLayers)
	rest, _, err := r.measure(ctx, o, from, to, 0)
	total += rest
	for _, l := range h.Layers {
		if err != nil {
			return 0, err
		}
		from, to = to, format.AppendOrdered(format.AppendObjectKey(nil, h.ID), l.Number+format.PartLayers+1)
		if l.Layout == LayoutLog {
			continue
		}
		var n, blocks uint64
		n, blocks, err = r.measure(ctx, o, from, to, samples)
		if blocks != 0 {
			n = uint64(float64(n) / float64(blocks) * float64(l.Blocks))
		}
		total += n
	}
	return total, err
}

// measure returns the bytes stored of an object in a range of keys. It stops after most entries, and then also returns
// the number of the layer's blocks up to there.
func (r Reader) measure(ctx context.Context, o *Object, from, to []byte, most int64) (n, blocks uint64, err error) {
	it, err := r.source.disk().NewIterWithContext(ctx, &storage.IterOptions{LowerBound: from, UpperBound: to})
	if err == nil {
		n, blocks, err = storage.MeasureEntries(ctx, it, most)
		err = errors.Join(err, it.Close())
	}
	if err != nil {
		return 0, 0, storage.ReadError(err, "key %q: stored bytes", o.key)
	}
	return n, blocks, nil
}
