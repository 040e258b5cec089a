package bloomext

import (
	"context"
	"fmt"
	"math"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// Merge adds the contents of the sources to the filter in one commit: layer by layer it forms the union of their
// bits. If the filter is missing, Merge makes it, without an expiry. A missing source is kv.ErrNotFound. The filter
// may be one of the sources, if it exists. All filters must be in one store and have equal parameters, including the
// hash; otherwise the error is ErrUnequal.
//
// If all have logs from which they grow (see Config.GrowthLog), and one log has room for all, the union has one, too, and what the logs
// cover is made from these, in the size that it needs, however the filters have grown; its items are counted again. What
// they do not cover, the first layer of a filter that was made for more than 1,024 items, is united layer by layer.
//
// If not, the union has no log. The items of filters whose logs have all of theirs are put into the newest layer of the others.
// Layers that are united must have equal sizes, and no layer of the union may have a higher rate than it was made for; otherwise
// the error is ErrRate, because no error rate would be left for further layers. That rate is computed twice: from the number of
// bits that are set, as Info does, and from where they are. Filters that together have as many items as one was made for are at
// the rate, give or take what chance does: a fifth (the standard deviation) for 100 items at 0.01, a fiftieth for 10,000. So the
// union of small ones may be refused. A union that equals one of the filters is always allowed.
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
	Type: bloomType, Cells: cells, Unite: unite, Check: mergeable, Logs: uniteLogs, InLog: inLog,
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
		return fmt.Errorf("%w: %q has a window, and such filters cannot be merged", scalableext.ErrUnequal, f.object.Key())
	}
	if f.layout() == scalableext.LayoutForeign {
		return fmt.Errorf("%w: %q has the %v layout, in which filters cannot be merged", scalableext.ErrUnequal, f.object.Key(), f.layout())
	}
	return nil
}

func handleIn(f *Filter) *handle { return f.h }

// layer returns layer i, 0 being the oldest.
func (f *filter) layer(i int) *layer { return &f.layers[len(f.layers)-1-i] }

// unite fills the filter that is being built with the blocks of parts and the items that logs have, and counts.
func unite(w *kv.Writer, b *kv.Builder, union *filter, parts, logged []*filter) error {
	var hashes []uint64
	for _, f := range logged {
		var err error
		if hashes, err = appendWholeLog(w, f, hashes); err != nil {
			return err
		}
	}
	hashes = sorted(hashes)
	for i := range union.layers {
		to := union.layer(i)
		var from []part
		for _, f := range parts {
			if i < len(f.layers) {
				from = append(from, part{f, f.layer(i)})
			}
		}
		var items []uint64
		if i == len(union.layers)-1 {
			items = hashes
		}
		if err := putUnion(w, b, to, from, items); err != nil {
			return err
		}
	}
	return nil
}

// inLog reports whether the log of a filter has all of its items.
func inLog(f *filter) bool {
	return f.chain.Log != nil && f.chain.Base == 0 && !f.object.Lossy()
}

// putUnion fills a layer with the union of others, and with items given by their sorted hashes, unless its rate is too high.
func putUnion(w *kv.Writer, b *kv.Builder, to *layer, from []part, items []uint64) error {
	union, err := uniteLayer(w, b, to, from, items)
	if err != nil {
		return err
	}
	// By chance a full layer may have more bits set than its rate allows.
	if !union.same && union.rate > to.rate {
		return fmt.Errorf("%w: layer %d would have %.3g, is made for %.3g", scalableext.ErrRate, to.table.Spec().Number, union.rate, to.rate)
	}
	return nil
}

// part is one layer that is united with others.
type part struct {
	f *filter
	l *layer
}

// united is what a layer has become.
type united struct {
	same bool    // it equals one of its parts
	rate float64 // the higher one of those by the number of its bits and by their places
}

// uniteLayer fills a layer with the union of others and of items.
func uniteLayer(w *kv.Writer, b *kv.Builder, to *layer, from []part, hashes []uint64) (u united, err error) {
	spec := to.table.Spec()
	words := make([]uint64, spec.Lines*block.LineWords)
	more := make([]uint64, len(words))
	var ones uint64
	var places *probe.FillRate // with another layout an item's bits may be anywhere, and their number says all
	if to.flat == nil {
		places = to.layout.NewFillRate()
	}
	for blk := range spec.Blocks {
		clear(words)
		for _, p := range from {
			if err := w.ReadBlock(p.f.object, p.l.table, blk, more); err != nil {
				return u, err
			}
			for i, word := range more {
				words[i] |= word
			}
		}
		if len(hashes) > 0 {
			if at, n := to.layout.SameBlock(hashes); at == blk {
				setAll(words, &to.layout, hashes[:n])
				hashes = hashes[n:]
			}
		}
		ones += uint64(block.Count(words))
		if places != nil {
			places.Add(words)
		}
		if err := b.Put(to.table, blk, words); err != nil {
			return u, err
		}
	}
	distinct := to.distinctItems(ones)
	if u.rate = to.setRate(ones); places != nil {
		u.rate = max(u.rate, places.Rate(distinct))
	}
	items, flags := uint64(math.Round(distinct)), uint64(flagEstimated)
	// If a part has as many bits set as the union, it has all of them, and the other parts have no others.
	for _, p := range from {
		if u.same = w.Counter(p.l.table, onesCounter) == ones; u.same {
			items, flags = w.Counter(p.l.table, itemsCounter), w.Counter(p.l.table, flagsCounter)
			break
		}
	}
	w.SetCounter(to.table, itemsCounter, items)
	w.SetCounter(to.table, onesCounter, ones)
	w.SetCounter(to.table, flagsCounter, flags)
	return u, nil
}
