//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package system

import "os"

// IDOf returns the zero value: a FileInfo does not tell which file it is of.
func IDOf(os.FileInfo) FileID { return FileID{} }
