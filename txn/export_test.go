package txn

import (
	"time"

	"github.com/sievekv/sievekv/module"
)

// ModuleWith is Module with a clock of its own.
func ModuleWith(after func(d time.Duration, f func()) (stop func() bool)) module.Module {
	return moduleWith(after)
}
