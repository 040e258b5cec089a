// Package dirsync makes the names in a directory durable: that a file was made, renamed or removed. It also tells what
// kind of file already has a name that is wanted for a new one.
package dirsync

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Sync makes the names in a directory of the operating system durable, as far as the file system can. Some network file
// systems answer EINVAL or ENOTSUP: they have no such call, and make names durable when they make them, or when it
// suits them. A program can do nothing better on them, so Sync returns nil. The content of files is not concerned:
// other calls sync it. On Windows Sync does nothing: NTFS keeps names by itself.
func Sync(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(IfSupported(d.Sync()), d.Close())
}

// Strict makes the names in a directory of a file system durable, or returns an error.
func Strict(fsys vfs.FS, dir string) error {
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Tolerant is Strict, but a file system that cannot sync directories is no error.
func Tolerant(fsys vfs.FS, dir string) error { return IfSupported(Strict(fsys, dir)) }

// Make makes a directory and its missing parents, which nobody else can read. It syncs every directory that got a new entry,
// by Strict or Tolerant: if a crash could take away the directory, nothing in it would be durable.
func Make(fsys vfs.FS, dir string, sync func(fsys vfs.FS, dir string) error) error {
	_, err := fsys.Stat(dir)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := fsys.PathDir(dir)
	if parent != dir {
		if err := Make(fsys, parent, sync); err != nil {
			return err
		}
	}
	if err := fsys.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return sync(fsys, parent)
}

// Unsupported reports whether an error of a sync says that the file system cannot sync directories.
func Unsupported(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) || errors.Is(err, errors.ErrUnsupported)
}

// IfSupported returns the error of a sync of a directory, nil if it says that the file system cannot do it.
func IfSupported(err error) error {
	if Unsupported(err) {
		return nil
	}
	return err
}
