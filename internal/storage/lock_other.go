//go:build !unix

package storage

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lockFile locks a file, alone or shared. On Windows a lock alone opens the file without sharing, so that nobody can
// remove it. Nobody has locked a missing file.
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
