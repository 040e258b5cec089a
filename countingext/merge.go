package countingext

import (
	"context"
	"fmt"
	"slices"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/probe"
	"github.com/sievekv/sievekv/scalableext"
)

// Merge adds to the filter everything that the sources hold, as one commit: the sum of
// their counters, layer by layer, at most 15 each. An item is there as often afterwards
// as in all of them together. Each filter counts once, however often it is named. A
// filter that is missing is made, unless it is one of the sources; a missing source is
// kv.ErrNotFound. All must be in one store and have been made with equal parameters, by
// a store of the same seed: else ErrUnequal. No layer of the union may be fuller than it
// was made to be, by its counters above 0, and than those it is made of: else
// ErrRate, as there would be no error rate left for those that follow. Filters that
// hold so many items together as they were made for are not refused for having a few
// counters more above 0 than most: five standard deviations are let pass. The work is that
// of reading and writing all of them; writes to them wait meanwhile.
func (f *Filter) Merge(ctx context.Context, sources ...*Filter) error {
	return f.h.Merge(ctx, f.level, scalableext.Each(sources, handleIn), merging)
}

// MergeStaged is Merge as part of a writer's commit. The writer was begun with the
// keys of the filter and the sources.
func (f *Filter) MergeStaged(ctx context.Context, w *kv.Writer, sources ...*Filter) error {
	return f.h.MergeStaged(ctx, w, scalableext.Each(sources, handleIn), merging)
}

var merging = &scalableext.Merging[filter]{
	Type: countingType, Cells: cells, Unite: unite,
	Layout: func(f *filter, i int) probe.Layout { return f.layer(i).layout },
}

func handleIn(f *Filter) *handle { return f.h }

// layer returns layer i, 0 being the oldest.
func (f *filter) layer(i int) *layer { return &f.layers[len(f.layers)-1-i] }

// unite gives the filter being built the counters of all parts, and the numbers that
// are kept with them.
func unite(w *kv.Writer, b *kv.Builder, union *filter, parts []*filter) error {
	for i := range union.layers {
		to := union.layer(i)
		var from []part
		for _, f := range parts {
			if i < len(f.layers) {
				from = append(from, part{f, f.layer(i)})
			}
		}
		above, err := uniteLayer(w, b, to, from)
		if err != nil {
			return err
		}
		// As many counters as a full layer has above 0 may be by chance more than the rate allows.
		fuller := !slices.ContainsFunc(from, func(p part) bool { return w.Counter(p.l.table, aboveCounter) >= above })
		rate := to.layout.SetRate(above)
		if fuller && above > to.fullSet && rate > to.rate {
			return fmt.Errorf("%w: layer %d would have %.3g, is made for %.3g", ErrRate, i, rate, to.rate)
		}
	}
	if len(union.layers) > 1 && !unionOrdered(w, parts) {
		w.SetCounter(union.secondOldest().table, mixedCounter, 1)
	}
	for _, counter := range []int{itemsCounter, keptCounter, deletedLatelyCounter, foundLatelyCounter} {
		total := uint64(0)
		for _, f := range parts {
			total += w.Counter(f.oldest().table, counter)
		}
		w.SetCounter(union.oldest().table, counter, total)
	}
	return nil
}

// unionOrdered reports whether the union of filters is ordered: items of one may seem to be in an older layer that another
// has filled.
func unionOrdered(w *kv.Writer, parts []*filter) bool {
	filled := 0
	for _, f := range parts {
		if !slices.ContainsFunc(f.layers, func(l layer) bool { return w.Counter(l.table, aboveCounter) > 0 }) {
			continue
		}
		if filled++; filled > 1 || !f.ordered(w) {
			return false
		}
	}
	return true
}

// part is one layer to be united with others.
type part struct {
	f *filter
	l *layer
}

// uniteLayer returns how many counters are above 0.
func uniteLayer(w *kv.Writer, b *kv.Builder, to *layer, from []part) (above uint64, err error) {
	words := make([]uint64, to.layout.BlockWords())
	more := make([]uint64, len(words))
	var found tally
	for blk := range to.layout.Blocks {
		clear(words)
		for _, p := range from {
			if err := w.ReadBlock(p.f.object, p.l.table, blk, more); err != nil {
				return 0, err
			}
			for i := range words {
				words[i] = addSaturating(words[i], more[i])
			}
		}
		found.add(words)
		if err := b.Put(to.table, blk, words); err != nil {
			return 0, err
		}
	}
	fill := uint64(0)
	for _, p := range from {
		fill += w.Counter(p.l.table, fillCounter)
	}
	w.SetCounter(to.table, fillCounter, fill)
	w.SetCounter(to.table, aboveCounter, found.above)
	w.SetCounter(to.table, stuckCounter, found.stuck)
	w.SetCounter(to.table, sumCounter, found.sum)
	return found.above, nil
}

// addSaturating adds the 16 counters of one word to those of another, to at most 15.
func addSaturating(x, y uint64) (sum uint64) {
	if x == 0 || y == 0 {
		return x | y
	}
	for shift := 0; shift < 64; shift += probe.CounterBits {
		sum |= min(x>>shift&MaxCount+y>>shift&MaxCount, MaxCount) << shift
	}
	return sum
}
