package filters

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/probe"
)

// PlannedBloom describes the filter of a Config when it holds as many items as it has room for, without a store. The
// error is the one that making the filter in a store would return, with the names of the flags.
func PlannedBloom(c bloomext.Config) (bloomext.Info, error) {
	info, err := c.Planned(c.Capacity)
	return info, planError(c.Capacity, c.ErrorRate, info.Bytes, err)
}

// PlannedCounting is PlannedBloom for a counting Bloom filter.
func PlannedCounting(c countingext.Config) (countingext.Info, error) {
	info, err := c.Planned(c.Capacity)
	return info, planError(c.Capacity, c.ErrorRate, info.Bytes, err)
}

// PlannedCuckoo is PlannedBloom for a cuckoo filter.
func PlannedCuckoo(c cuckooext.Config) (cuckooext.Info, error) {
	info, err := c.Planned(c.Capacity)
	var bytes uint64 // of whole blocks, which slots of 12 bits do not fill
	for _, l := range info.Layers {
		bytes += l.Blocks * block.MaxLines * block.LineBits / 8
	}
	return info, planError(c.Capacity, c.ErrorRate, bytes, err)
}

// planError adds the flags to the error of a plan. A filter that is larger than a store allows is an error, too.
func planError(capacity uint64, rate float64, bytes uint64, err error) error {
	if err == nil && bytes > kv.DefaultMaxFilterBytes {
		err = fmt.Errorf("%w: filter of %d bytes, at most %d", kv.ErrTooLarge, bytes, uint64(kv.DefaultMaxFilterBytes))
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, probe.ErrParams):
		_, what, _ := strings.Cut(err.Error(), probe.ErrParams.Error()+": ")
		return exit.Usagef("--capacity %d --error %g: %s", capacity, rate, what)
	}
	return fmt.Errorf("--capacity %d --error %g: %w", capacity, rate, err)
}
