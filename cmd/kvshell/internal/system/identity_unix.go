//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package system

import (
	"os"
	"syscall"
)

// IDOf returns what identifies a file on this machine, whatever its name.
func IDOf(info os.FileInfo) FileID {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return FileID{}
	}
	return FileID{uint64(stat.Dev), uint64(stat.Ino)}
}
