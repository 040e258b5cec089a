//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package edit

import "golang.org/x/sys/unix"

const ioctlGet, ioctlSet = unix.TIOCGETA, unix.TIOCSETA
