package countingext

import "github.com/sievekv/sievekv/scalableext"

// checkCounters is the type's Check. The counters of the whole filter are in the oldest layers, and 0 in others.
func (f *filter) checkCounters(counter scalableext.Counters) error {
	for i := range f.layers {
		l := &f.layers[i]
		cells := l.layout.Cells()
		if err := scalableext.CheckRanges(l.table, counter,
			scalableext.Range{Counter: fillCounter, Name: "adds", Most: scalableext.MaxCount},
			scalableext.Range{Counter: aboveCounter, Name: "counters above 0", Most: cells},
			scalableext.Range{Counter: stuckCounter, Name: "counters that stick", Most: cells},
			scalableext.Range{Counter: sumCounter, Name: "as the sum of its counters", Most: MaxCount * cells},
			scalableext.Range{Counter: itemsCounter, Name: "items", Most: scalableext.MaxCount},
			scalableext.Range{Counter: keptCounter, Name: "deletions that counted nothing down", Most: scalableext.MaxCount},
			scalableext.Range{Counter: deletedLatelyCounter, Name: "late deletions", Most: scalableext.MaxCount},
			scalableext.Range{Counter: foundLatelyCounter, Name: "late deletions of items that stay", Most: counter(l.table, deletedLatelyCounter)},
		); err != nil {
			return err
		}
	}
	return nil
}

// capped returns the sum of two counts, at most the highest that a counter may have.
func capped(a, b uint64) uint64 { return min(a+b, scalableext.MaxCount) }
