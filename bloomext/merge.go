package bloomext

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/sievekv/sievekv/kv"
)

// Merge adds to the filter everything that the sources hold, as one commit: the
// union of their bits, layer by layer. A filter that is missing is made, unless it is
// one of the sources; a missing source is kv.ErrNotFound. All must be in one store
// and have been made with equal parameters, by a store of the same seed: else
// ErrUnequal. No layer of the union may be fuller than it was made to be, by its bits:
// else ErrRate, as there would be no error rate left for those that follow.
// Filters that hold so many items together as they were made for are not refused
// for having a few bits more than most: five standard deviations are let pass, which
// is an estimate of 12 % too many items for 100 at 0.01, of 1.2 % for 10,000.
// Neither is a union that is the same as one of the filters, however full. The
// number of items afterwards is an estimate from the bits, except for layers that
// are the same in one of the filters. The work is that of reading and writing all of them;
// writes to them wait meanwhile.
func (f *Filter) Merge(ctx context.Context, sources ...*Filter) error {
	if err := f.h.Outside(ctx); err != nil {
		return err
	}
	var keys [][]byte
	for i, s := range sources {
		if s == nil {
			return errNilSource(i)
		}
		keys = append(keys, s.h.Key)
	}
	return f.h.Write(f.level, func(w *kv.Writer) error { return f.MergeStaged(ctx, w, sources...) }, keys...)
}

func errNilSource(i int) error {
	return fmt.Errorf("bloomext: merge: source %d is nil: must be a filter", i)
}

// MergeStaged is Merge as part of a writer's commit. The writer was begun with the
// keys of the filter and the sources.
func (f *Filter) MergeStaged(ctx context.Context, w *kv.Writer, sources ...*Filter) error {
	var parts []*filter
	dest, err := f.h.Staged(w)
	switch {
	case err == nil:
		parts = append(parts, dest)
	case !errors.Is(err, kv.ErrNotFound):
		return err
	}
	for i, s := range sources {
		if s == nil {
			return errNilSource(i)
		}
		if s.h.DB != f.h.DB {
			return fmt.Errorf("%w: %q is in the store %s, %q in %s", ErrUnequal, f.h.Key, f.h.DB.Dir(), s.h.Key, s.h.DB.Dir())
		}
		c, err := s.h.Staged(w)
		if err != nil {
			return err
		}
		same := func(p *filter) bool { return p.object.ID() == c.object.ID() }
		if !slices.ContainsFunc(parts, same) {
			parts = append(parts, c)
		}
	}
	if len(parts) == 0 {
		return fmt.Errorf("%w: %q", kv.ErrNotFound, f.h.Key)
	}
	longest := parts[0]
	for _, p := range parts[1:] {
		if err := unequal(parts[0], p); err != nil {
			return err
		}
		if len(p.layers) > len(longest.layers) {
			longest = p
		}
	}
	spec := kv.Spec{Type: bloomType, Family: longest.object.Family(), Params: longest.object.Params()}
	if dest != nil {
		spec.Expiry = dest.object.Expiry()
	}
	for _, l := range longest.object.Layers() {
		spec.Layers = append(spec.Layers, l.Spec())
	}
	united, err := w.Build(ctx, f.h.Key, spec, func(b *kv.Builder) error { return unite(w, b, parts) })
	if err != nil || dest == nil {
		return err
	}
	return w.KeepAttributes(dest.object, united)
}

// unequal returns how two filters differ, or nil if they can be merged: layers of
// the same number have the same shape then.
func unequal(a, b *filter) error {
	p, q := a.chain.Params, b.chain.Params
	differ := func(name string, have, other any) error {
		return fmt.Errorf("%w: %s of %q is %v, of %q %v", ErrUnequal, name, a.object.Key(), have, b.object.Key(), other)
	}
	if why := p.UnequalHash(a.object.Key(), q, b.object.Key()); why != "" {
		return fmt.Errorf("%w: %s", ErrUnequal, why)
	}
	switch {
	case p.Capacity != q.Capacity:
		return differ("capacity", p.Capacity, q.Capacity)
	case p.ErrorRate != q.ErrorRate:
		return differ("error rate", p.ErrorRate, q.ErrorRate)
	case p.Expansion != q.Expansion:
		return differ("expansion", p.Expansion, q.Expansion)
	case p.Growth != q.Growth:
		return differ("growth rule", p.Growth, q.Growth)
	}
	for i := range min(len(a.layers), len(b.layers)) {
		l, m := a.layer(i), b.layer(i)
		if l.layout != m.layout {
			return differ(fmt.Sprintf("layout of layer %d", i), layoutText(l), layoutText(m))
		}
	}
	return nil
}

func layoutText(l *layer) string {
	return fmt.Sprintf("%d bits with %d hashes in %d lines", l.layout.Bits(), l.layout.Hashes, l.layout.LinesPerItem)
}

// layer returns layer i, 0 being the oldest.
func (f *filter) layer(i int) *layer { return &f.layers[len(f.layers)-1-i] }

// unite gives the filter being built the blocks of all parts, and counts.
func unite(w *kv.Writer, b *kv.Builder, parts []*filter) error {
	union, err := kv.As[*filter]([]byte(b.Object().Key()), b.Object())
	if err != nil {
		return err
	}
	for i := range union.layers {
		to := union.layer(i)
		var from []part
		for _, f := range parts {
			if i < len(f.layers) {
				from = append(from, part{f, f.layer(i)})
			}
		}
		same, ones, err := uniteLayer(w, b, to, from)
		if err != nil {
			return err
		}
		// As many bits as a full layer has set may be by chance more than the rate allows.
		rate := to.layout.SetRate(ones)
		if !same && ones > to.fullSet && rate > to.rate {
			return fmt.Errorf("%w: layer %d would have %.3g, is made for %.3g", ErrRate, i, rate, to.rate)
		}
	}
	return nil
}

// part is one layer to be united with others.
type part struct {
	f *filter
	l *layer
}

// uniteLayer returns how many bits the union has set, and whether it is the same as one of its parts.
func uniteLayer(w *kv.Writer, b *kv.Builder, to *layer, from []part) (same bool, ones uint64, err error) {
	words := make([]uint64, to.layout.BlockWords())
	more := make([]uint64, len(words))
	for blk := range to.layout.Blocks {
		clear(words)
		for _, p := range from {
			if err := w.ReadBlock(p.f.object, p.l.table, blk, more); err != nil {
				return false, 0, err
			}
			for i, word := range more {
				words[i] |= word
			}
		}
		for _, word := range words {
			ones += uint64(bits.OnesCount64(word))
		}
		if err := b.Put(to.table, blk, words); err != nil {
			return false, 0, err
		}
	}
	items, flags := uint64(math.Round(to.layout.DistinctItems(ones))), uint64(flagEstimated)
	// A part that has as many bits set as the union has all of them, and the others have none but those.
	for _, p := range from {
		if same = w.Counter(p.l.table, onesCounter) == ones; same {
			items, flags = w.Counter(p.l.table, itemsCounter), w.Counter(p.l.table, flagsCounter)
			break
		}
	}
	w.SetCounter(to.table, itemsCounter, items)
	w.SetCounter(to.table, onesCounter, ones)
	w.SetCounter(to.table, flagsCounter, flags)
	return same, ones, nil
}
