//go:build unix

package process

import (
	"fmt"
	"syscall"
)

// Yield has this process run when no other wants to.
func Yield() error {
	const lowest = 19
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, lowest); err != nil {
		return fmt.Errorf("set the priority of this process to %d: %w", lowest, err)
	}
	return nil
}
