package bloomext

import (
	"fmt"
	"math"
	"slices"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// rulesOf are the growth rules of filters by their layout.
var rulesOf = map[scalableext.Layout][]scalableext.Growth{
	scalableext.LayoutNative:     {scalableext.Native, scalableext.Windowed, scalableext.Logged},
	scalableext.LayoutCompatible: {scalableext.Halving},
	scalableext.LayoutForeign:    {scalableext.Native},
}

// checkCounters is the type's Check.
func (f *filter) checkCounters(counter scalableext.Counters) error {
	for _, l := range f.all() {
		if err := l.checkCounters(counter); err != nil {
			return err
		}
	}
	return f.chain.CheckLog(counter)
}

// checkCounters checks the counters of a layer. Unless the layout is native any number of items will do: it is compared with
// the capacity, and shown, and RedisBloom's dumps may claim any.
func (l *layer) checkCounters(counter scalableext.Counters) error {
	items := uint64(scalableext.MaxCount)
	if l.flat != nil {
		items = math.MaxUint64
	}
	return scalableext.CheckRanges(l.table, counter,
		scalableext.Range{Counter: itemsCounter, Name: "items", Most: items},
		scalableext.Range{Counter: onesCounter, Name: "bits set", Most: l.numBits()},
		scalableext.Range{Counter: flagsCounter, Name: "as its flags", Most: flagEstimated},
		scalableext.Range{Counter: scalableext.FilledCounter, Name: "hashes that were filled in", Most: scalableext.MaxLogBytes / 8})
}

// all returns the layers that lookups ask, and the one that is being filled.
func (f *filter) all() []layer {
	if f.chain.Filling == nil {
		return f.layers
	}
	return append(slices.Clone(f.layers), *f.chain.Filling)
}

// checkItems returns an error if a layer with the native layout cannot have that many items, when each set at least one bit and
// at most as many as it has hashes.
func (l *layer) checkItems(items, ones uint64) error {
	number := l.table.Spec().Number
	switch {
	case items > l.capacity:
		return fmt.Errorf("%w: layer %d counts %d items, its capacity is %d", kv.ErrCorrupt, number, items, l.capacity)
	case ones > items*uint64(l.layout.Hashes) || ones < items:
		return fmt.Errorf("%w: layer %d has %d bits set by %d items of %d hashes", kv.ErrCorrupt, number, ones, items, l.layout.Hashes)
	}
	return nil
}

// checkFilled returns an error if the log, and how much of it was filled in, do not fit the items that the log covers.
func (f *filter) checkFilled() error {
	c := f.chain
	if c.Log == nil {
		return nil
	}
	length, items := c.Log.Counter(scalableext.LogLengthCounter), uint64(0)
	for i := range f.layers[:f.covered()] {
		items += f.layers[i].table.Counter(itemsCounter)
	}
	if c.Filling != nil {
		if done := c.Filling.table.Counter(scalableext.FilledCounter); done > length {
			return fmt.Errorf("%w: %d hashes of a log of %d were filled in", kv.ErrCorrupt, done, length)
		}
	}
	return c.Params.Log.InLog(length, items)
}
