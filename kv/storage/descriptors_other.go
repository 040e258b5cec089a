//go:build !unix

package storage

// descriptorLimit returns that there is no limit.
func descriptorLimit() int { return 0 }
