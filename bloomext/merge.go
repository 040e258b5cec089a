package bloomext

import (
	"context"
	"fmt"
	"math"
	"math/bits"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/scalableext"
)

// Merge adds the contents of the sources to the filter in one commit: layer by layer it forms the union of their
// bits. If the filter is missing, Merge makes it, without an expiry. A missing source is kv.ErrNotFound. The filter
// may be one of the sources, if it exists. All filters must be in one store and have equal parameters, including the
// hash; otherwise the error is ErrUnequal.
//
// If all have logs from which they grow (see Config.GrowthLog), and one log has room for all, the union has one, too, and what the logs
// cover is made from these, in the size that it needs, however the filters have grown; its number of items is counted anew. What
// they do not cover, the first layer of a filter that was made for more than 1,024 items, is united layer by layer.
//
// If not, the union has no log. Layers that are united must have equal sizes, and no layer of the union may be fuller than it
// was made to be; otherwise the error is ErrRate, because no error rate
// would be left for further layers. Filters with as many items together as they were made for may by chance have a
// few more bits than average: five standard deviations are allowed, which corresponds to 12 % too many items for 100
// at 0.01, and to 1.2 % for 10,000. A union that equals one of the filters is always allowed.
//
// The number of items afterwards is an estimate from the bits, except in layers that equal that layer of one filter.
// Merge reads and writes all the filters; meanwhile other writes to them wait.
func (f *Filter) Merge(ctx context.Context, sources ...*Filter) error {
	return f.h.Merge(ctx, f.level, scalableext.Each(sources, handleIn), merging)
}

// MergeStaged is Merge as part of a writer's commit. The writer must have been begun with the keys of the filter and
// the sources.
func (f *Filter) MergeStaged(ctx context.Context, w *kv.Writer, sources ...*Filter) error {
	return f.h.MergeStaged(ctx, w, scalableext.Each(sources, handleIn), merging)
}

var merging = &scalableext.Merging[filter]{
	Type: bloomType, Cells: cells, Unite: unite, Check: mergeable, Logs: uniteLogs,
	Shape: func(f *filter, i int) any {
		if l := f.layer(i).flat; l != nil {
			return l.flatParams
		}
		return f.layer(i).layout
	},
}

// mergeable refuses filters that forget, and filters with the foreign layout: their libraries do not agree on when a filter
// is full.
func mergeable(f *filter) error {
	if f.windowed {
		return fmt.Errorf("%w: %q has a window, and such filters cannot be merged", ErrUnequal, f.object.Key())
	}
	if f.layout() == scalableext.LayoutForeign {
		return fmt.Errorf("%w: %q has the %v layout, in which filters cannot be merged", ErrUnequal, f.object.Key(), f.layout())
	}
	return nil
}

func handleIn(f *Filter) *handle { return f.h }

// layer returns layer i, 0 being the oldest.
func (f *filter) layer(i int) *layer { return &f.layers[len(f.layers)-1-i] }

// unite fills the filter that is being built with the blocks of all parts, and counts.
func unite(w *kv.Writer, b *kv.Builder, union *filter, parts []*filter) error {
	for i := range union.layers {
		to := union.layer(i)
		var from []part
		for _, f := range parts {
			if i < len(f.layers) {
				from = append(from, part{f, f.layer(i)})
			}
		}
		if err := putUnion(w, b, to, from); err != nil {
			return err
		}
	}
	return nil
}

// putUnion fills a layer with the union of others.
func putUnion(w *kv.Writer, b *kv.Builder, to *layer, from []part) error {
	same, ones, err := uniteLayer(w, b, to, from)
	if err != nil {
		return err
	}
	// By chance a full layer may have more bits set than its rate allows.
	if rate := to.setRate(ones); !same && ones > to.fullSet && rate > to.rate {
		return fmt.Errorf("%w: layer %d would have %.3g, is made for %.3g", ErrRate, to.table.Spec().Number, rate, to.rate)
	}
	return nil
}

// part is one layer that is united with others.
type part struct {
	f *filter
	l *layer
}

// uniteLayer returns how many bits of the union are set, and whether the union equals one of its parts.
func uniteLayer(w *kv.Writer, b *kv.Builder, to *layer, from []part) (same bool, ones uint64, err error) {
	spec := to.table.Spec()
	words := make([]uint64, spec.Lines*block.LineWords)
	more := make([]uint64, len(words))
	for blk := range spec.Blocks {
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
	items, flags := uint64(math.Round(to.distinctItems(ones))), uint64(flagEstimated)
	// If a part has as many bits set as the union, it has all of them, and the other parts have no others.
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
