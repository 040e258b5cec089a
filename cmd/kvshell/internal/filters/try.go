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
	"github.com/sievekv/sievekv/kv/probe"
)

// TryBloom makes the filter of a Config in a scratch store and removes it again.
func TryBloom(db *kv.DB, c bloomext.Config) (bloomext.Info, error) {
	f := bloomext.New(db, "plan")
	if err := f.Reserve(c); err != nil {
		return bloomext.Info{}, planError(c.Capacity, c.ErrorRate, err)
	}
	info, err := f.Info()
	if err == nil {
		_, err = f.Drop()
	}
	return info, err
}

// TryCounting makes the filter of a Config in a scratch store and removes it again.
func TryCounting(db *kv.DB, c countingext.Config) (countingext.Info, error) {
	f := countingext.New(db, "plan")
	if err := f.Reserve(c); err != nil {
		return countingext.Info{}, planError(c.Capacity, c.ErrorRate, err)
	}
	info, err := f.Info()
	if err == nil {
		_, err = f.Drop()
	}
	return info, err
}

// TryCuckoo makes the filter of a Config in a scratch store and removes it again.
func TryCuckoo(db *kv.DB, c cuckooext.Config) (cuckooext.Info, error) {
	f := cuckooext.New(db, "plan")
	if err := f.Reserve(c); err != nil {
		return cuckooext.Info{}, planError(c.Capacity, c.ErrorRate, err)
	}
	info, err := f.Info()
	if err == nil {
		_, err = f.Drop()
	}
	return info, err
}

// planError names the flags in an error of making a filter.
func planError(capacity uint64, rate float64, err error) error {
	if errors.Is(err, probe.ErrParams) {
		_, what, _ := strings.Cut(err.Error(), probe.ErrParams.Error()+": ")
		return exit.Usagef("--capacity %d --error %g: %s", capacity, rate, what)
	}
	return fmt.Errorf("--capacity %d --error %g: %w", capacity, rate, err)
}
