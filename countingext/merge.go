package countingext

import (
	"context"
	"fmt"
	"slices"

	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// Merge adds the contents of the sources to the filter in one commit: layer by layer it adds their counters, up to
// 15. Afterwards an item is in the filter as often as in all of them together. Each filter counts once, even if it is
// given several times. If the filter is missing, Merge makes it, without an expiry. A missing source is
// kv.ErrNotFound. The filter may be one of the sources, if it exists. All filters must be in one store and have equal
// parameters, including the hash; otherwise the error is ErrUnequal.
//
// No layer of the union may have a higher rate than it was made for, unless one of the filters has as many counters above
// 0 in it; otherwise the error is ErrRate, because no error rate would be left for further layers. That rate is computed
// twice: from the number of counters above 0, as Info does, and from where they are. Filters that together have as many
// items as one was made for are at the rate, give or take what chance does: so the union of small ones may be refused.
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
	Type: countingType, Cells: cells, Unite: unite,
	Shape: func(f *filter, i int) any { return f.layer(i).layout },
}

func handleIn(f *Filter) *handle { return f.h }

// layer returns layer i, 0 being the oldest.
func (f *filter) layer(i int) *layer { return &f.layers[len(f.layers)-1-i] }

// unite fills the filter that is being built with the counters of all parts, and sets its layers' own numbers.
func unite(w *kv.Writer, b *kv.Builder, union *filter, parts, _ []*filter) error {
	for i := range union.layers {
		to := union.layer(i)
		var from []part
		for _, f := range parts {
			if i < len(f.layers) {
				from = append(from, part{f, f.layer(i)})
			}
		}
		above, rate, err := uniteLayer(w, b, to, from)
		if err != nil {
			return err
		}
		// By chance a full layer may have more counters above 0 than its rate allows.
		fuller := !slices.ContainsFunc(from, func(p part) bool { return w.Counter(p.l.table, aboveCounter) >= above })
		if fuller && rate > to.rate {
			return fmt.Errorf("%w: layer %d would have %.3g, is made for %.3g", scalableext.ErrRate, i, rate, to.rate)
		}
	}
	if len(union.layers) > 1 && !unionOrdered(w, parts) {
		w.SetCounter(union.secondOldest().table, mixedCounter, 1)
	}
	for _, counter := range []int{itemsCounter, keptCounter, deletedLatelyCounter, foundLatelyCounter} {
		total := uint64(0)
		for _, f := range parts {
			total = capped(total, w.Counter(f.oldest().table, counter))
		}
		w.SetCounter(union.oldest().table, counter, total)
	}
	return nil
}

// unionOrdered reports whether the union of filters is ordered. If two filters have items, the items of one may seem to
// be in an older layer that the other has filled.
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

// part is one layer that is united with others.
type part struct {
	f *filter
	l *layer
}

// uniteLayer unites one layer. It returns how many counters are above 0, and the higher one of the rates by their number
// and by their places.
func uniteLayer(w *kv.Writer, b *kv.Builder, to *layer, from []part) (above uint64, rate float64, err error) {
	words := make([]uint64, to.layout.BlockWords())
	more := make([]uint64, len(words))
	var found tally
	places := to.layout.NewFillRate()
	for blk := range to.layout.Blocks {
		clear(words)
		for _, p := range from {
			if err := w.ReadBlock(p.f.object, p.l.table, blk, more); err != nil {
				return 0, 0, err
			}
			for i := range words {
				words[i] = addSaturating(words[i], more[i])
			}
		}
		found.add(words)
		places.Add(words)
		if err := b.Put(to.table, blk, words); err != nil {
			return 0, 0, err
		}
	}
	fill := uint64(0)
	for _, p := range from {
		fill = capped(fill, w.Counter(p.l.table, fillCounter))
	}
	w.SetCounter(to.table, fillCounter, fill)
	w.SetCounter(to.table, aboveCounter, found.above)
	w.SetCounter(to.table, stuckCounter, found.stuck)
	w.SetCounter(to.table, sumCounter, found.sum)
	return found.above, max(to.layout.SetRate(found.above), places.Rate(to.layout.DistinctItems(found.above))), nil
}

// addSaturating adds the 16 counters of two words, each up to 15.
func addSaturating(x, y uint64) (sum uint64) {
	if x == 0 || y == 0 {
		return x | y
	}
	for shift := 0; shift < 64; shift += probe.CounterBits {
		sum |= min(x>>shift&MaxCount+y>>shift&MaxCount, MaxCount) << shift
	}
	return sum
}
