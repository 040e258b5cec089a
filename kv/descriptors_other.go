//go:build !unix

package kv

// descriptorLimit returns that there is no limit.
func descriptorLimit() int { return 0 }
