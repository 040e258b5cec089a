//go:build unix

package storage

import (
	"math"
	"syscall"
)

// descriptorLimit returns how many descriptors the process may have, 0 if there is no limit. Package os has raised
// the soft limit to the hard one before.
func descriptorLimit() int {
	limit := syscall.Rlimit{}
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(limit.Cur) > math.MaxInt32 {
		return 0
	}
	return int(limit.Cur)
}
