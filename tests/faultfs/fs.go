// Package faultfs is a file system that tells of every call before it is made, and fails
// those it is told to: for tests that crash a store at a call, or make one fail.
package faultfs

import (
	"errors"
	"io"
	"os"
	"path"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// StoreDir is where stores on file systems in memory live. It has a parent that the store has to create too.
const StoreDir = "var/store"

// Site is a kind of call of a file system: the operation and the class of the file it is for.
type Site struct{ Op, Class string }

func (s Site) String() string { return s.Op + " " + s.Class }

// ClassOf names the class of a path for a store in StoreDir: which of Pebble's kinds of files, or which of the store's
// own by its name.
func ClassOf(name string) string {
	base, ext := path.Base(name), path.Ext(name)
	switch {
	case path.Clean(name) == StoreDir:
		return "directory"
	case path.Dir(name) != StoreDir:
		return "parent"
	case ext == ".log", ext == ".sst", ext == ".dbtmp":
		return ext[1:]
	case strings.HasPrefix(base, "MANIFEST-"), strings.HasPrefix(base, "OPTIONS-"):
		return base[:strings.Index(base, "-")]
	case strings.HasPrefix(base, "marker."):
		return "marker"
	default:
		return strings.TrimSuffix(base, ".tmp") // DURABLE, LOCK, BALLAST
	}
}

// ErrShort makes an FS write half of what it was given and say so by the count alone.
var ErrShort = errors.New("short write")

// FS asks a function before every call to a file system. An error it returns is what the call returns.
type FS struct {
	vfs.FS
	Before func(s Site, name string) error

	// Around, if it is not nil, makes each call that Before lets pass, or does not.
	Around func(s Site, call func() error) error
}

// Unwritable returns a file system that refuses every change with an error, as read-only media and directories of others
// do. Locks says that it can be locked all the same: the lock file is there, and may be written.
func Unwritable(fsys vfs.FS, why error, locks bool) *FS {
	return &FS{FS: fsys, Before: func(s Site, _ string) error {
		switch s.Op {
		case "create", "reuse", "link", "rename", "remove", "mkdir":
			return why
		case "lock":
			if !locks {
				return why
			}
		}
		return nil
	}}
}

func (f *FS) call(op, name string, call func() error) error {
	if err := f.Before(Site{op, ClassOf(name)}, name); err != nil {
		return &os.PathError{Op: op, Path: name, Err: err}
	}
	if f.Around != nil {
		return f.Around(Site{op, ClassOf(name)}, call)
	}
	return call()
}

func (f *FS) open(op, name string, call func() (vfs.File, error)) (vfs.File, error) {
	var opened vfs.File
	err := f.call(op, name, func() (err error) {
		opened, err = call()
		return err
	})
	if err != nil {
		return nil, err
	}
	return &file{File: opened, fs: f, name: name}, nil
}

// Create implements vfs.FS.
func (f *FS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.open("create", name, func() (vfs.File, error) { return f.FS.Create(name, c) })
}

// OpenReadWrite implements vfs.FS.
func (f *FS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return f.open("create", name, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, c, o...) })
}

// ReuseForWrite implements vfs.FS. It does what MemFS does for it, but in two steps: MemFS takes the lock that a crash
// clone waits for a second time while it holds it, and so both may wait for ever.
func (f *FS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.open("reuse", newname, func() (vfs.File, error) {
		if err := f.FS.Rename(oldname, newname); err != nil {
			return nil, err
		}
		return f.FS.OpenReadWrite(newname, c)
	})
}

// Open implements vfs.FS.
func (f *FS) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	return f.open("open", name, func() (vfs.File, error) { return f.FS.Open(name, o...) })
}

// OpenDir implements vfs.FS.
func (f *FS) OpenDir(name string) (vfs.File, error) {
	return f.open("open", name, func() (vfs.File, error) { return f.FS.OpenDir(name) })
}

// Link implements vfs.FS.
func (f *FS) Link(oldname, newname string) error {
	return f.call("link", newname, func() error { return f.FS.Link(oldname, newname) })
}

// Rename implements vfs.FS.
func (f *FS) Rename(oldname, newname string) error {
	return f.call("rename", newname, func() error { return f.FS.Rename(oldname, newname) })
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	return f.call("remove", name, func() error { return f.FS.Remove(name) })
}

// RemoveAll implements vfs.FS.
func (f *FS) RemoveAll(name string) error {
	return f.call("remove", name, func() error { return f.FS.RemoveAll(name) })
}

// MkdirAll implements vfs.FS.
func (f *FS) MkdirAll(name string, perm os.FileMode) error {
	return f.call("mkdir", name, func() error { return f.FS.MkdirAll(name, perm) })
}

// Lock implements vfs.FS.
func (f *FS) Lock(name string) (c io.Closer, err error) {
	err = f.call("lock", name, func() (err error) {
		c, err = f.FS.Lock(name)
		return err
	})
	return c, err
}

// List implements vfs.FS.
func (f *FS) List(dir string) (names []string, err error) {
	err = f.call("list", dir, func() (err error) {
		names, err = f.FS.List(dir)
		return err
	})
	return names, err
}

// Stat implements vfs.FS.
func (f *FS) Stat(name string) (info vfs.FileInfo, err error) {
	err = f.call("stat", name, func() (err error) {
		info, err = f.FS.Stat(name)
		return err
	})
	return info, err
}

// Unwrap implements vfs.FS.
func (f *FS) Unwrap() vfs.FS { return f.FS }

// file is a file of a FS.
type file struct {
	vfs.File
	fs   *FS
	name string
}

func (f *file) Write(p []byte) (n int, err error) {
	if len(p) == 0 {
		return f.File.Write(p) // the log does, and it is nothing that could fail
	}
	err = f.fs.call("write", f.name, func() error {
		n, err = f.File.Write(p)
		return err
	})
	if errors.Is(err, ErrShort) {
		return f.File.Write(p[:len(p)/2])
	}
	return n, err
}

func (f *file) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.fs.call("write", f.name, func() error {
		n, err = f.File.WriteAt(p, off)
		return err
	})
	return n, err
}

func (f *file) Read(p []byte) (n int, err error) {
	err = f.fs.call("read", f.name, func() error {
		n, err = f.File.Read(p)
		return err
	})
	return n, err
}

func (f *file) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.fs.call("read", f.name, func() error {
		n, err = f.File.ReadAt(p, off)
		return err
	})
	return n, err
}

func (f *file) Sync() error     { return f.fs.call("sync", f.name, f.File.Sync) }
func (f *file) SyncData() error { return f.fs.call("sync", f.name, f.File.SyncData) }

func (f *file) SyncTo(n int64) (full bool, err error) {
	err = f.fs.call("sync", f.name, func() error {
		full, err = f.File.SyncTo(n)
		return err
	})
	return full, err
}

func (f *file) Stat() (info vfs.FileInfo, err error) {
	err = f.fs.call("stat", f.name, func() error {
		info, err = f.File.Stat()
		return err
	})
	return info, err
}

func (f *file) Preallocate(off, n int64) error {
	return f.fs.call("preallocate", f.name, func() error { return f.File.Preallocate(off, n) })
}

// Close always releases the handle, as close(2) does.
func (f *file) Close() error {
	err := f.File.Close()
	if failed := f.fs.call("close", f.name, func() error { return nil }); failed != nil {
		return failed
	}
	return err
}

// Fd makes Pebble use Preallocate and SyncTo, as it does on a real file.
func (f *file) Fd() uintptr { return 1 << 20 }

// MakeDir makes the store's directory, and has it survive a crash.
func MakeDir(fs vfs.FS) error {
	if err := fs.MkdirAll(StoreDir, 0o755); err != nil {
		return err
	}
	for dir := StoreDir; dir != "."; dir = fs.PathDir(dir) {
		d, err := fs.OpenDir(fs.PathDir(dir))
		if err != nil {
			return err
		}
		if err := errors.Join(d.Sync(), d.Close()); err != nil {
			return err
		}
	}
	return nil
}
