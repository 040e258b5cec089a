//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package storage

import "os"

// lockDirectory does nothing: the system cannot lock a directory. The file LOCK is locked.
func lockDirectory(*os.File, bool) error { return nil }
