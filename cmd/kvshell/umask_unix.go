//go:build unix

package main

import "syscall"

// setUmask sets the umask of the process and returns the one before.
func setUmask(mask int) int { return syscall.Umask(mask) }
