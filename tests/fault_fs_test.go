package tests_test

import (
	"errors"
	"io"
	"os"
	"path"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// site is a kind of call of a file system: the operation and the class of the file it is for.
type site struct{ op, class string }

func (s site) String() string { return s.op + " " + s.class }

// classOf names the class of a path for a store in storeDir.
func classOf(name string) string {
	base, ext := path.Base(name), path.Ext(name)
	switch {
	case path.Clean(name) == storeDir:
		return "directory"
	case path.Dir(name) != storeDir:
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

// errShort makes a spyFS write half of what it was given and say so by the count alone.
var errShort = errors.New("short write")

// spyFS asks a function before every call to a file system. An error it returns is what the call returns.
type spyFS struct {
	vfs.FS
	before func(s site, name string) error
}

func (f *spyFS) call(op, name string, call func() error) error {
	if err := f.before(site{op, classOf(name)}, name); err != nil {
		return &os.PathError{Op: op, Path: name, Err: err}
	}
	return call()
}

func (f *spyFS) file(op, name string, call func() (vfs.File, error)) (vfs.File, error) {
	var file vfs.File
	err := f.call(op, name, func() (err error) {
		file, err = call()
		return err
	})
	if err != nil {
		return nil, err
	}
	return &spyFile{File: file, fs: f, name: name}, nil
}

func (f *spyFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file("create", name, func() (vfs.File, error) { return f.FS.Create(name, c) })
}

func (f *spyFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return f.file("create", name, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, c, o...) })
}

func (f *spyFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file("reuse", newname, func() (vfs.File, error) { return f.FS.ReuseForWrite(oldname, newname, c) })
}

func (f *spyFS) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	return f.file("open", name, func() (vfs.File, error) { return f.FS.Open(name, o...) })
}

func (f *spyFS) OpenDir(name string) (vfs.File, error) {
	return f.file("open", name, func() (vfs.File, error) { return f.FS.OpenDir(name) })
}

func (f *spyFS) Link(oldname, newname string) error {
	return f.call("link", newname, func() error { return f.FS.Link(oldname, newname) })
}

func (f *spyFS) Rename(oldname, newname string) error {
	return f.call("rename", newname, func() error { return f.FS.Rename(oldname, newname) })
}

func (f *spyFS) Remove(name string) error {
	return f.call("remove", name, func() error { return f.FS.Remove(name) })
}

func (f *spyFS) RemoveAll(name string) error {
	return f.call("remove", name, func() error { return f.FS.RemoveAll(name) })
}

func (f *spyFS) MkdirAll(name string, perm os.FileMode) error {
	return f.call("mkdir", name, func() error { return f.FS.MkdirAll(name, perm) })
}

func (f *spyFS) Lock(name string) (c io.Closer, err error) {
	err = f.call("lock", name, func() (err error) {
		c, err = f.FS.Lock(name)
		return err
	})
	return c, err
}

func (f *spyFS) List(dir string) (names []string, err error) {
	err = f.call("list", dir, func() (err error) {
		names, err = f.FS.List(dir)
		return err
	})
	return names, err
}

func (f *spyFS) Stat(name string) (info vfs.FileInfo, err error) {
	err = f.call("stat", name, func() (err error) {
		info, err = f.FS.Stat(name)
		return err
	})
	return info, err
}

func (f *spyFS) Unwrap() vfs.FS { return f.FS }

// spyFile is a file of a spyFS.
type spyFile struct {
	vfs.File
	fs   *spyFS
	name string
}

func (f *spyFile) Write(p []byte) (n int, err error) {
	if len(p) == 0 {
		return f.File.Write(p) // the log does, and it is nothing that could fail
	}
	err = f.fs.call("write", f.name, func() error {
		n, err = f.File.Write(p)
		return err
	})
	if errors.Is(err, errShort) {
		return f.File.Write(p[:len(p)/2])
	}
	return n, err
}

func (f *spyFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.fs.call("write", f.name, func() error {
		n, err = f.File.WriteAt(p, off)
		return err
	})
	return n, err
}

func (f *spyFile) Read(p []byte) (n int, err error) {
	err = f.fs.call("read", f.name, func() error {
		n, err = f.File.Read(p)
		return err
	})
	return n, err
}

func (f *spyFile) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.fs.call("read", f.name, func() error {
		n, err = f.File.ReadAt(p, off)
		return err
	})
	return n, err
}

func (f *spyFile) Sync() error     { return f.fs.call("sync", f.name, f.File.Sync) }
func (f *spyFile) SyncData() error { return f.fs.call("sync", f.name, f.File.SyncData) }

func (f *spyFile) SyncTo(n int64) (full bool, err error) {
	err = f.fs.call("sync", f.name, func() error {
		full, err = f.File.SyncTo(n)
		return err
	})
	return full, err
}

func (f *spyFile) Stat() (info vfs.FileInfo, err error) {
	err = f.fs.call("stat", f.name, func() error {
		info, err = f.File.Stat()
		return err
	})
	return info, err
}

func (f *spyFile) Preallocate(off, n int64) error {
	return f.fs.call("preallocate", f.name, func() error { return f.File.Preallocate(off, n) })
}

// Close always releases the handle, as close(2) does.
func (f *spyFile) Close() error {
	err := f.File.Close()
	if failed := f.fs.call("close", f.name, func() error { return nil }); failed != nil {
		return failed
	}
	return err
}

// Fd makes Pebble use Preallocate and SyncTo, as it does on a real file.
func (f *spyFile) Fd() uintptr { return 1 << 20 }
