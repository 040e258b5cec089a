package bloomext

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// A filter is built again from logs, in one commit, when its log has many repeated hashes and when filters are merged:
// see scalableext.Log. The writer holds the lock of the key meanwhile.

// appendWholeLog appends the hashes of a filter's log.
func appendWholeLog(w *kv.Writer, f *filter, hashes []uint64) ([]uint64, error) {
	length, s := w.Counter(f.chain.Log, scalableext.LogLengthCounter), stager{w: w, c: f}
	return s.appendLog(slices.Grow(hashes, int(length)), 0, length)
}

// sorted sorts hashes, and keeps each once.
func sorted(hashes []uint64) []uint64 {
	slices.Sort(hashes)
	return slices.Compact(hashes)
}

// shorten builds a filter again whose log is long, because it has repeated hashes, or because many items seemed known
// when they were added. After that the log has each hash once, and the number of items is counted from it. If shorten
// cannot do that, it drops the log.
func shorten(w *kv.Writer, o *kv.Object, f *filter) error {
	s := stager{w: w, c: f}
	p := f.chain.Params
	if length := w.Counter(f.chain.Log, scalableext.LogLengthCounter); !p.Log.Long(length, s.items(f.covered())) {
		return nil
	}
	// The log of a lossy filter may lack items. A filter with a rate that Reserve refuses would be rebuilt all the
	// time, as it would count hardly any item.
	if o.Lossy() || p.ErrorRate > scalableext.MaxRate {
		return s.endLog()
	}
	hashes, err := appendWholeLog(w, f, nil)
	if err != nil {
		return err
	}
	hashes = sorted(hashes)
	built, err := rebuild(context.Background(), w, []byte(o.Key()), []*filter{f}, hashes, o.Expiry())
	if errors.Is(err, kv.ErrTooLarge) {
		return s.endLog()
	}
	if err != nil {
		return err
	}
	return w.KeepAttributes(o, built)
}

// rebuild stages a filter under a key with the layers of the parts that their logs do not cover, united, a log of these hashes, and
// one layer that has all of them. Hashes are sorted, each once. The parts have equal parameters, and equal such layers. If none has a
// log yet, neither has the result.
func rebuild(ctx context.Context, w *kv.Writer, key []byte, parts []*filter, hashes []uint64, expiry int64) (*kv.Object, error) {
	f := parts[0]
	p := f.chain.Params
	p.Log.Filling = 0
	typ := &kv.Type{Name: f.object.TypeName(), Version: f.object.Header().TypeVersion}
	spec := kv.Spec{Type: typ, Family: block.FamilyBits, Params: p.Append(nil), Expiry: expiry}
	base, stay := f.base(), uint64(0) // newest first
	for i := range slices.Backward(base) {
		spec.Layers = append(spec.Layers, base[i].table.Spec())
		stay += w.Counter(base[i].table, itemsCounter)
	}
	logged := slices.ContainsFunc(parts, func(f *filter) bool { return f.chain.Log != nil })
	if logged {
		items := uint64(len(hashes))
		if len(base) == 0 {
			items = max(items, p.Capacity-p.Capacity/5) // room for as many as were asked for
		}
		capacity, rate := p.FilledLayer(f.rates(false), stay, items, items)
		top, err := layerSpec(capacity, rate)
		if err != nil { // its rate is too low
			return nil, fmt.Errorf("%w: %w", kv.ErrTooLarge, err)
		}
		spec.Layers = append(spec.Layers, p.LogSpec(), top)
	}
	for i := range spec.Layers {
		spec.Layers[i].Number = uint64(i)
	}
	return w.Build(ctx, key, spec, func(b *kv.Builder) error {
		union, err := kv.As[*filter](key, b.Object())
		if err != nil {
			return err
		}
		for i, to := range union.base() {
			var from []part
			for _, f := range parts {
				from = append(from, part{f, &f.base()[i]})
			}
			if err := putUnion(w, b, &to, from, nil); err != nil {
				return err
			}
		}
		if !logged {
			return nil
		}
		if err := putLog(w, b, union.chain.Log, hashes); err != nil {
			return err
		}
		return putItems(w, b, &union.layers[0], hashes)
	})
}

// base returns the layers that the log does not cover, newest first: all of a filter that has no log yet.
func (f *filter) base() []layer { return f.layers[f.covered():] }

// uniteLogs makes a filter under a key of others that have logs, or will have. It returns nil unless they have equal layers that their
// logs do not cover, perhaps none, and one log has room for what the others have.
func uniteLogs(ctx context.Context, w *kv.Writer, key []byte, parts []*filter, expiry int64) (o *kv.Object, err error) {
	var hashes []uint64
	for _, f := range parts {
		equal := slices.EqualFunc(f.base(), parts[0].base(), func(a, b layer) bool { return a.layout == b.layout })
		if f.chain.Params.Log.Limit == 0 || f.object.Lossy() || !equal {
			return nil, nil
		}
		if f.chain.Log != nil {
			if hashes, err = appendWholeLog(w, f, hashes); err != nil {
				return nil, err
			}
		}
	}
	if hashes = sorted(hashes); !parts[0].chain.Params.Log.LogRoom(0, uint64(len(hashes)), uint64(len(hashes))) {
		return nil, nil
	}
	if o, err = rebuild(ctx, w, key, parts, hashes, expiry); errors.Is(err, kv.ErrTooLarge) {
		return nil, nil
	}
	return o, err
}

// putLog fills a log.
func putLog(w *kv.Writer, b *kv.Builder, log *kv.Layer, hashes []uint64) error {
	w.SetCounter(log, scalableext.LogLengthCounter, uint64(len(hashes)))
	words := make([]uint64, block.MaxWords)
	for blk := uint64(0); len(hashes) > 0; blk++ {
		n := copy(words, hashes)
		clear(words[n:])
		if err := b.Put(log, blk, words); err != nil {
			return err
		}
		hashes = hashes[n:]
	}
	return nil
}

// putItems fills a layer with the items of sorted hashes, which come block by block.
func putItems(w *kv.Writer, b *kv.Builder, to *layer, hashes []uint64) error {
	words := make([]uint64, to.layout.BlockWords())
	var items, ones uint64
	for len(hashes) > 0 {
		clear(words)
		blk, n := to.layout.SameBlock(hashes)
		items += setAll(words, &to.layout, hashes[:n])
		for _, word := range words {
			ones += uint64(bits.OnesCount64(word))
		}
		if err := b.Put(to.table, blk, words); err != nil {
			return err
		}
		hashes = hashes[n:]
	}
	w.SetCounter(to.table, itemsCounter, items)
	w.SetCounter(to.table, onesCounter, ones)
	return nil
}

// setAll sets the bits of items of one block, and returns for how many of them one was not set.
func setAll(words []uint64, layout *probe.Layout, hashes []uint64) (items uint64) {
	var positions [probe.MaxHashes]uint16
	for _, h := range hashes {
		isNew := uint64(0)
		for _, p := range layout.AppendPositions(positions[:0], h) {
			if bit := uint64(1) << (p % 64); words[p/64]&bit == 0 {
				words[p/64] |= bit
				isNew = 1
			}
		}
		items += isNew
	}
	return items
}
