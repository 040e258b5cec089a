//go:build unix

package server

import (
	"syscall"
	"time"
)

// processorTime returns the processor time that the process has used in the kernel and outside of it.
func processorTime() (system, user time.Duration, known bool) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, 0, false
	}
	return time.Duration(u.Stime.Nano()), time.Duration(u.Utime.Nano()), true
}
