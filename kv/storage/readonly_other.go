//go:build !unix

package storage

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// lockFileShared locks a file against those that lock it alone: on Windows these open it without sharing. A file that
// is missing is not locked by anybody.
func lockFileShared(name string) (io.Closer, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return io.NopCloser(nil), nil
	}
	return f, err
}
