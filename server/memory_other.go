//go:build !linux

package server

// residentBytes returns the resident memory of the process, 0 if it is unknown.
func residentBytes() uint64 { return 0 }
