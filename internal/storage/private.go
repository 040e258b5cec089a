package storage

import (
	"errors"
	"io/fs"
	"os"
	"runtime"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The modes of directories and files that a store makes. Only the user of the process can use them, whatever the
// umask is. This holds for the store's directory, for its missing parents, and for its files. What exists already
// keeps its mode.
const (
	privateDir  fs.FileMode = 0o700
	privateFile fs.FileMode = 0o600
)

// privateFS is the operating system's file system, with private modes. Without it the umask alone would decide who can
// read what Pebble makes. A file has its mode from the start. If the mode were changed later, a program that had opened
// the file in between could go on reading.
type privateFS struct{ vfs.FS }

// fileSystem returns the file system that the store is on.
func (s *Store) fileSystem() vfs.FS {
	if s.opts.FS != vfs.Default || runtime.GOOS == "windows" { // Windows has no such modes
		return s.opts.FS
	}
	return privateFS{vfs.Default}
}

// isSystem reports whether a file system is the operating system's.
func isSystem(fsys vfs.FS) bool {
	p, private := fsys.(privateFS)
	return fsys == vfs.Default || private && p.FS == vfs.Default
}

// makeFile makes an empty file, or returns fs.ErrExist if there is one.
func makeFile(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, privateFile)
	if err != nil {
		return err
	}
	return f.Close()
}

// makeMissing makes an empty file unless the file exists.
func makeMissing(name string) error {
	if err := makeFile(name); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Create implements vfs.FS. Like vfs.Default it removes a file that exists, which may have further names, rather than
// truncate it.
func (p privateFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	err := makeFile(name)
	for errors.Is(err, fs.ErrExist) {
		if err := p.FS.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		err = makeFile(name)
	}
	if err != nil {
		return nil, err
	}
	return p.FS.OpenReadWrite(name, category)
}

// OpenReadWrite implements vfs.FS.
func (p privateFS) OpenReadWrite(
	name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption,
) (vfs.File, error) {
	if err := makeMissing(name); err != nil {
		return nil, err
	}
	return p.FS.OpenReadWrite(name, category, opts...)
}

// MkdirAll implements vfs.FS.
func (p privateFS) MkdirAll(dir string, _ os.FileMode) error { return p.FS.MkdirAll(dir, privateDir) }
