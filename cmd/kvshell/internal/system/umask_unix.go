//go:build unix

package system

import "syscall"

// SetUmask sets the umask of the process and returns the one before.
func SetUmask(mask int) int { return syscall.Umask(mask) }
