package bloomext

import (
	"context"
	"fmt"
	"math"
	"math/bits"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/probe"
	"github.com/sievekv/sievekv/scalableext"
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
	return f.h.Merge(ctx, f.level, scalableext.Each(sources, handleIn), merging)
}

// MergeStaged is Merge as part of a writer's commit. The writer was begun with the
// keys of the filter and the sources.
func (f *Filter) MergeStaged(ctx context.Context, w *kv.Writer, sources ...*Filter) error {
	return f.h.MergeStaged(ctx, w, scalableext.Each(sources, handleIn), merging)
}

var merging = &scalableext.Merging[filter]{
	Type: bloomType, Cells: cells, Unite: unite,
	Layout: func(f *filter, i int) probe.Layout { return f.layer(i).layout },
}

func handleIn(f *Filter) *handle { return f.h }

// layer returns layer i, 0 being the oldest.
func (f *filter) layer(i int) *layer { return &f.layers[len(f.layers)-1-i] }

// unite gives the filter being built the blocks of all parts, and counts.
func unite(w *kv.Writer, b *kv.Builder, union *filter, parts []*filter) error {
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
