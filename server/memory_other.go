//go:build !linux

package server

// residentBytes is the memory the process has, 0 if that is not known.
func residentBytes() uint64 { return 0 }
