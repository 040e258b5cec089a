//go:build !unix

package storage

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lockFile locks a file, alone or against those that lock it alone. On Windows these open it without sharing, so that
// nobody can remove it. A file that is missing is not locked by anybody.
func lockFile(name string, alone bool) (fileLocker, error) {
	l, err := openLocked(name, alone)
	if err != nil {
		return nil, err
	}
	return foreignLock{l}, nil
}

func openLocked(name string, alone bool) (io.Closer, error) {
	if alone {
		return vfs.Default.Lock(name)
	}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return io.NopCloser(nil), nil
	}
	return f, err
}
