//go:build unix

package storage

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// lockFileShared locks a file against those that lock it alone. It needs no permission to write. A file that is
// missing is not locked by anybody.
func lockFileShared(name string) (io.Closer, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return io.NopCloser(nil), nil
	}
	if err != nil {
		return nil, err
	}
	spec := syscall.Flock_t{Type: syscall.F_RDLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &spec); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
