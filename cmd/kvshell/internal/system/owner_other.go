//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package system

// LockOwner returns 0: the system does not tell which process holds a lock.
func LockOwner(string) int { return 0 }
