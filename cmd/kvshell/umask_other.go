//go:build !unix

package main

// setUmask does nothing: there is no umask.
func setUmask(mask int) int { return mask }
