package scalableext

import (
	"fmt"

	"github.com/sievekv/sievekv/kv"
)

// What comes from outside (a header of an object that is read from disk, imported, or loaded from a dump) is checked in two
// functions of a type before anything uses it. The type's Open checks the parameters of the filter and of each layer,
// with Open, decodeParams and the type's decodeLayerParams. Its Check checks the counters, with Range. Whether counters say
// what the blocks have is another question, for the type's Verify: no code relies on it.

// MaxCount is above every counter that counts items, additions or deletions: sums of such counters of all layers, times
// 8, do not overflow.
const MaxCount = 1 << 52

// Range is what a counter of a layer may be.
type Range struct {
	Counter int
	Name    string // in errors
	Most    uint64
}

// Counters gives counter i of a layer, as a kv.Type's Check gets it.
type Counters = func(l *kv.Layer, i int) uint64

// Check returns the field Check of a kv.Type for filters of type F.
func Check[F any](check func(*F, Counters) error) func(*kv.Object, Counters) error {
	return func(o *kv.Object, counter Counters) error {
		f, ok := o.Body().(*F)
		if !ok {
			return nil
		}
		return check(f, counter)
	}
}

// CheckRanges returns an error that wraps kv.ErrCorrupt if a counter of a layer is out of its range.
func CheckRanges(l *kv.Layer, counter Counters, ranges ...Range) error {
	for _, r := range ranges {
		if n := counter(l, r.Counter); n > r.Most {
			return fmt.Errorf("%w: layer %d counts %d %s, want at most %d", kv.ErrCorrupt, l.Spec().Number, n, r.Name, r.Most)
		}
	}
	return nil
}

// CheckLog returns an error that wraps kv.ErrCorrupt if a log is longer than it may become.
func (c *Chain[L]) CheckLog(counter Counters) error {
	if c.Log == nil {
		return nil
	}
	return CheckRanges(c.Log, counter, Range{LogLengthCounter, "hashes", c.Params.Log.Limit / 8})
}

// InLog returns an error that wraps kv.ErrCorrupt if a log cannot have this length while it covers this number of
// items. The bound is a little above Log.LogRoom's, because a filled layer may count fewer items than the layers that
// it replaces.
func (l Log) InLog(length, items uint64) error {
	const most, few = 8, 1 << 16
	if length > most*items+few {
		return fmt.Errorf("%w: log of %d hashes of %d items", kv.ErrCorrupt, length, items)
	}
	return nil
}
