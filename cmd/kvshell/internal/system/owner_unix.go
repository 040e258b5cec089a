//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package system

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// LockOwner returns the id of the process that holds the lock of the store in dir. It is 0 if that is unknown: the
// process runs on another machine, or has just given the lock up.
func LockOwner(dir string) int {
	f, err := os.OpenFile(filepath.Join(dir, "LOCK"), os.O_RDWR, 0)
	if err != nil {
		return 0
	}
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	err = syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &lock)
	if closed := f.Close(); err != nil || closed != nil || lock.Type == syscall.F_UNLCK {
		return 0
	}
	return int(lock.Pid)
}

// keepOwner gives a file the owner and the group of another, as far as the system allows that: the owner is for root to give.
func keepOwner(f *os.File, old os.FileInfo) {
	stat, ok := old.Sys().(*syscall.Stat_t)
	if !ok {
		return
	}
	if f.Chown(int(stat.Uid), int(stat.Gid)) != nil {
		_ = f.Chown(-1, int(stat.Gid))
	}
}

// LockFile locks an open file against those that lock it likewise, until it is closed. It reports false if another has it
// locked. A file system without locks locks nothing.
func LockFile(f *os.File) bool {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return !errors.Is(err, syscall.EWOULDBLOCK)
		}
	}
}
