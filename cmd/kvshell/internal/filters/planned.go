package filters

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// PlannedBloom describes the filter of a Config when it holds as many items as it has room for, without a store. A
// filter of more than maxBytes is refused, 0 for the most in a store that is opened with the defaults. The error is the
// one that making the filter in a store would return, with the names of the flags.
func PlannedBloom(c bloomext.Config, maxBytes uint64) (bloomext.Info, error) {
	info, err := c.Planned(c.Capacity)
	flags := sizeFlags(c.Capacity, c.ErrorRate)
	switch {
	case c.Last != 0:
		flags = fmt.Sprintf("--last %d --error %g", c.Last, c.ErrorRate)
	case c.Window != 0:
		flags += fmt.Sprintf(" --window %v", c.Window)
	}
	return info, planError(flags, info.Bytes, maxBytes, err)
}

// PlannedCounting is PlannedBloom for a counting Bloom filter.
func PlannedCounting(c countingext.Config, maxBytes uint64) (countingext.Info, error) {
	info, err := c.Planned(c.Capacity)
	return info, planError(sizeFlags(c.Capacity, c.ErrorRate), info.Bytes, maxBytes, err)
}

// PlannedCuckoo is PlannedBloom for a cuckoo filter. One with the compatible layout is described as it is made.
func PlannedCuckoo(c cuckooext.Config, maxBytes uint64) (cuckooext.Info, error) {
	items := c.Capacity
	if c.Layout == scalableext.LayoutCompatible { // how many its first layer takes depends on the items
		items = 1
	}
	info, err := c.Planned(items)
	var bytes uint64 // of blocks, which slots of 12 bits do not fill
	for _, l := range info.Layers {
		bytes += l.Blocks * l.BlockBytes
	}
	return info, planError(sizeFlags(c.Capacity, c.ErrorRate), bytes, maxBytes, err)
}

// IsTooLarge reports whether a filter is larger than maxBytes, or if that is 0, than the default allows.
func IsTooLarge(bytes, maxBytes uint64) bool {
	return bytes > cmp.Or(maxBytes, kv.DefaultMaxFilterBytes)
}

// sizeFlags returns the flags that a size was asked for with.
func sizeFlags(capacity uint64, rate float64) string {
	return fmt.Sprintf("--capacity %d --error %g", capacity, rate)
}

// planError adds the flags to the error of a plan. A filter that is larger than a store allows is an error, too.
func planError(flags string, bytes, maxBytes uint64, err error) error {
	if err == nil && IsTooLarge(bytes, maxBytes) {
		err = fmt.Errorf("%w: filter of %d bytes, at most %d (--max-filter-bytes)", kv.ErrTooLarge, bytes, cmp.Or(maxBytes, kv.DefaultMaxFilterBytes))
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, probe.ErrParams):
		_, what, _ := strings.Cut(err.Error(), probe.ErrParams.Error()+": ")
		return exit.Usagef("%s: %s", flags, what)
	}
	return fmt.Errorf("%s: %w", flags, err)
}
