package storage

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The modes of what a store makes: its directory, and those above it that are missing, and its files are for the user of
// the process alone, whatever the umask. What exists keeps its mode.
const (
	privateDir  fs.FileMode = 0o700
	privateFile fs.FileMode = 0o600
)

// privateFS is the operating system's file system, on which Pebble would make everything for whom the umask lets. A file is
// made with its mode before it is opened, not changed after: whoever has it open would go on reading.
type privateFS struct{ vfs.FS }

// fileSystem returns what the store lives on.
func (s *Store) fileSystem() vfs.FS {
	if s.opts.FS != vfs.Default || runtime.GOOS == "windows" { // where modes say nothing
		return s.opts.FS
	}
	return privateFS{vfs.Default}
}

// makeFile makes an empty file. The error is fs.ErrExist if there is one: it is not opened, as to close it would give up
// this process's lock of it.
func makeFile(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, privateFile)
	if err != nil {
		return err
	}
	return f.Close()
}

// makeMissing is makeFile for a file that may be there.
func makeMissing(name string) error {
	if err := makeFile(name); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Create implements vfs.FS. As vfs.Default does, it removes a file that is there, which may have other names.
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

// Lock implements vfs.FS.
func (p privateFS) Lock(name string) (io.Closer, error) {
	if err := makeMissing(name); err != nil {
		return nil, err
	}
	return p.FS.Lock(name)
}

// MkdirAll implements vfs.FS.
func (p privateFS) MkdirAll(dir string, _ os.FileMode) error { return p.FS.MkdirAll(dir, privateDir) }
