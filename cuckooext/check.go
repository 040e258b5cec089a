package cuckooext

import "github.com/sievekv/sievekv/scalableext"

// checkCounters is the type's Check. A dump with the compatible layout may claim any number of deletions, as RedisBloom's.
func (f *filter) checkCounters(counter scalableext.Counters) error {
	for i := range f.layers {
		l := &f.layers[i]
		ranges := []scalableext.Range{
			{Counter: entriesCounter, Name: "entries", Most: l.capacity},
			{Counter: deletesCounter, Name: "deletions", Most: scalableext.MaxCount},
			{Counter: compactedCounter, Name: "compacted blocks", Most: l.blocks},
			{Counter: compactionsCounter, Name: "compactions", Most: scalableext.MaxCount},
		}
		if f.compatible {
			ranges = ranges[:1]
		}
		if err := scalableext.CheckRanges(l.table, counter, ranges...); err != nil {
			return err
		}
	}
	return nil
}
