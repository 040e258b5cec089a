//go:build !unix

package system

// SetUmask does nothing: there is no umask.
func SetUmask(mask int) int { return mask }
