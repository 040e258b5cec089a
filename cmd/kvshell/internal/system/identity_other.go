//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package system

import "os"

// IDOf returns the zero value: on this system a FileInfo does not identify the file.
func IDOf(os.FileInfo) FileID { return FileID{} }
