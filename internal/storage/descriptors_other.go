//go:build !unix

package storage

// descriptorLimit returns 0: no limit is known.
func descriptorLimit() int { return 0 }
