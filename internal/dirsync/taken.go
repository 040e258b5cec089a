package dirsync

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TakenError says that a name for something new is taken. It is fs.ErrExist.
type TakenError struct {
	Path string
	What string // is there, such as "a directory"
}

func (e *TakenError) Error() string {
	return e.Path + " is " + e.What + " already: want a name that nothing has"
}

// Unwrap returns fs.ErrExist.
func (e *TakenError) Unwrap() error { return fs.ErrExist }

// Taken returns a TakenError in place of an error of giving something new a name, which says that the name is taken: a rename
// says that in one of several ways. Any other error it returns as it is.
func Taken(fsys vfs.FS, path string, err error) error {
	if !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTDIR) {
		return err
	}
	switch info, failed := fsys.Stat(path); {
	case failed == nil && info.IsDir():
		return &TakenError{path, "a directory"}
	case failed == nil:
		return &TakenError{path, "a file"}
	case errors.Is(failed, fs.ErrNotExist):
		return &TakenError{path, "a link that leads nowhere"}
	}
	return err // something above it is no directory
}
