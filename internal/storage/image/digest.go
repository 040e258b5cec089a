package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
)

// parts is how many parts Digest divides a store into.
const parts = 256

// Digest returns a digest of a part of what the members of a group have in common: equal members have equal digests. A
// part has the keys whose hashes begin with its number, with everything of their objects. Part 0 also has what belongs
// to no key: the metadata, and the notes of expiries, wakes and reclaims. It leaves out the records of the log itself,
// which have hashes of their own, and objects without a key.
//
// Blocks count by their content, not their stored form: each member folds for itself. Iterate returns iterators over
// ranges of a snapshot. The digest reads as fast as the disk allows half of the time.
func Digest(ctx context.Context, iterate func(start, end []byte) (*pebble.Iterator, error), part uint8) (sum [sha256.Size]byte, err error) {
	d := &digester{ctx: ctx, iterate: iterate, sum: sha256.New(), words: make([]uint64, block.MaxWords), began: time.Now()}
	if part == 0 {
		err = errors.Join(d.records([]byte{format.TagMeta}, []byte{format.TagHeader}), d.records([]byte{format.TagDropped}, []byte{format.TagEnd}))
	}
	if err == nil {
		err = d.keys(part)
	}
	d.sum.Sum(sum[:0])
	return sum, err
}

type digester struct {
	ctx     context.Context
	iterate func(start, end []byte) (*pebble.Iterator, error)
	sum     hash.Hash
	words   []uint64
	block   []byte
	began   time.Time // of the work since the last pause
	read    int       // bytes since then
}

// add adds a key and what its value says.
func (d *digester) add(key, value []byte) error {
	head := binary.AppendUvarint(nil, uint64(len(key)))
	head = binary.AppendUvarint(append(head, key...), uint64(len(value)))
	d.sum.Write(head)
	d.sum.Write(value)
	return d.pause(len(key) + len(value))
}

// pause waits now and then for as long as it has worked.
func (d *digester) pause(read int) error {
	const most = 4 << 20
	if d.read += read; d.read < most {
		return nil
	}
	select {
	case <-d.ctx.Done():
		return context.Cause(d.ctx)
	case <-time.After(time.Since(d.began)):
	}
	d.read, d.began = 0, time.Now()
	return nil
}

// records adds the records of a range.
func (d *digester) records(start, end []byte) (err error) {
	it, err := d.iterate(start, end)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		if key := it.Key(); key[0] == format.TagMeta && (key[1] == format.MetaApplied || key[1] == format.MetaMembers) {
			continue
		}
		if err := d.add(it.Key(), it.Value()); err != nil {
			return err
		}
	}
	return it.Error()
}

// keys adds the keys of a part, with their objects.
func (d *digester) keys(part uint8) (err error) {
	end := []byte{format.TagHeader, part + 1}
	if part == parts-1 {
		end = []byte{format.TagHeader + 1}
	}
	headers, err := d.iterate([]byte{format.TagHeader, part}, end)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, headers.Close()) }()
	objects, err := d.iterate([]byte{format.TagObject}, []byte{format.TagObject + 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, objects.Close()) }()
	for ok := headers.First(); ok; ok = headers.Next() {
		h, err := format.DecodeHeaderShared(headers.Value())
		if err == nil {
			err = d.add(headers.Key(), headers.Value())
		}
		if err == nil && h.ID != 0 {
			err = d.object(objects, h)
		}
		if err != nil {
			return err
		}
	}
	return headers.Error()
}

// object adds what is stored of an object.
func (d *digester) object(it *pebble.Iterator, h *format.Header) error {
	end := format.AppendObjectKey(nil, h.ID+1)
	for ok := it.SeekGE(format.AppendObjectKey(nil, h.ID)); ok && bytes.Compare(it.Key(), end) < 0; ok = it.Next() {
		k, err := format.DecodeObjectKey(it.Key())
		if err == nil && k.Part >= format.PartLayers {
			err = d.addBlock(it, h, k)
		} else if err == nil {
			err = d.add(it.Key(), it.Value())
		}
		if err != nil {
			return err
		}
	}
	return it.Error()
}

// addBlock adds a block by what it says.
func (d *digester) addBlock(it *pebble.Iterator, h *format.Header, k format.ObjectKey) error {
	i := slices.IndexFunc(h.Layers, func(l format.LayerSpec) bool { return l.Number == k.Part-format.PartLayers })
	if i < 0 {
		return nil // of a layer that is being built
	}
	words := d.words[:h.Layers[i].Lines*block.LineWords]
	if _, err := block.Decode(words, h.Family, it.Value()); err != nil {
		return format.Corruptf("key %x: %v", it.Key(), err)
	}
	d.block = block.AppendBlock(d.block[:0], h.Family, words)
	return d.add(it.Key(), d.block)
}
