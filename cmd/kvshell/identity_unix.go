//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"os"
	"syscall"
)

// identityOf returns what tells a file from others on this machine, whatever its name.
func identityOf(info os.FileInfo) fileIdentity {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileIdentity{}
	}
	return fileIdentity{uint64(stat.Dev), uint64(stat.Ino)}
}
