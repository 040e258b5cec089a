package freeze_test

import (
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// site is a kind of call of a file system: an operation, and the class of the file that it is for.
type site struct{ op, class string }

func (s site) String() string { return s.op + "-" + s.class }

// classOf names the class of a path in a store in directory dir.
func classOf(dir, name string) string {
	base := path.Base(name)
	switch {
	case name == dir:
		return "dir"
	case path.Dir(name) != dir:
		return "outside"
	case strings.HasSuffix(base, ".log"), strings.HasSuffix(base, ".sst"), strings.HasSuffix(base, ".dbtmp"):
		return strings.TrimPrefix(path.Ext(base), ".")
	case strings.HasPrefix(base, "MANIFEST-"), strings.HasPrefix(base, "OPTIONS-"):
		return base[:strings.Index(base, "-")]
	case strings.HasPrefix(base, "marker."):
		return "marker"
	default:
		return base
	}
}

// freezes reports whether an error at s must freeze the directory.
func (s site) freezes() bool {
	switch s.class {
	case "log", "MANIFEST", "marker", "OPTIONS", "dbtmp", "SEAL.tmp":
		switch s.op {
		case "create", "reuse", "rename", "write", "sync", "stat", "close":
			return true
		}
	case "dir":
		return s.op == "sync"
	}
	return false
}

// A fault makes calls fail. The zero value makes none fail and counts them.
type fault struct {
	site  site
	nth   int   // which call at the site fails, from 1; 0 is none
	after bool  // every call of any kind after that fails too,
	heal  int   // until this number has failed, if not 0
	err   error // nil is EIO
	late  bool  // the call does its work before it fails
	short bool  // a write fails after half of its bytes, reporting no error but the count

	opened atomic.Bool // pebble.Open has returned
	before func()      // is called before each call, if not nil

	mu      sync.Mutex
	count   map[site]int
	fired   bool
	failed  int  // calls failed after that
	atStart bool // it fired before the store was open
}

// next counts a call and reports whether it fails.
func (f *fault) next(s site) bool {
	if f.before != nil {
		f.before()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count == nil {
		f.count = make(map[site]int)
	}
	f.count[s]++
	if s == f.site && f.count[s] == f.nth {
		f.fired = true
		f.atStart = !f.opened.Load()
		return true
	}
	if !f.fired || !f.after || f.heal > 0 && f.failed == f.heal {
		return false
	}
	f.failed++
	return true
}

// arm makes the next call at the site fail.
func (f *fault) arm(s site) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.site, f.nth, f.fired = s, f.count[s]+1, false
}

func (f *fault) hasFired() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fired
}

// mayFreeze reports whether f fired for a table before pebble.Open had returned. Nearly all of that time such an
// error freezes the directory; but compactions begin a moment before Open returns.
func (f *fault) mayFreeze() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.atStart && f.site.class == "sst"
}

// faultFS is a file system on which the calls that write, or serve writing, fail as a fault says.
type faultFS struct {
	vfs.FS
	dir string
	*fault
}

// do runs one call at the site.
func (f *faultFS) do(op, name string, call func() error) error {
	if !f.next(site{op, classOf(f.dir, name)}) {
		return call()
	}
	if f.late {
		if err := call(); err != nil {
			return err
		}
	}
	err := f.err
	if err == nil {
		err = syscall.EIO
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func (f *faultFS) file(op, name string, call func() (vfs.File, error)) (vfs.File, error) {
	var file vfs.File
	err := f.do(op, name, func() (err error) {
		file, err = call()
		return err
	})
	if err != nil {
		return nil, err
	}
	return &faultFile{File: file, fs: f, name: name}, nil
}

func (f *faultFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file("create", name, func() (vfs.File, error) { return f.FS.Create(name, c) })
}

func (f *faultFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file("reuse", newname, func() (vfs.File, error) { return f.FS.ReuseForWrite(oldname, newname, c) })
}

func (f *faultFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return f.file("create", name, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, c, o...) })
}

func (f *faultFS) OpenDir(name string) (vfs.File, error) {
	return f.file("opendir", name, func() (vfs.File, error) { return f.FS.OpenDir(name) })
}

func (f *faultFS) Rename(oldname, newname string) error {
	return f.do("rename", oldname, func() error { return f.FS.Rename(oldname, newname) })
}

func (f *faultFS) Remove(name string) error {
	return f.do("remove", name, func() error { return f.FS.Remove(name) })
}

func (f *faultFS) MkdirAll(name string, perm os.FileMode) error {
	return f.do("mkdir", name, func() error { return f.FS.MkdirAll(name, perm) })
}

func (f *faultFS) Lock(name string) (c io.Closer, err error) {
	err = f.do("lock", name, func() (err error) {
		c, err = f.FS.Lock(name)
		return err
	})
	if err != nil && c != nil {
		c.Close() // a call that failed late holds no lock
	}
	return c, err
}

// faultFile is a handle for writing or of a directory.
type faultFile struct {
	vfs.File
	fs   *faultFS
	name string
}

func (f *faultFile) Write(p []byte) (n int, err error) {
	if len(p) == 0 {
		return f.File.Write(p) // Pebble does, and it is nothing that could fail
	}
	s := site{"write", classOf(f.fs.dir, f.name)}
	if f.fs.short && f.fs.site == s {
		if f.fs.next(s) {
			return f.File.Write(p[:len(p)/2])
		}
		return f.File.Write(p)
	}
	err = f.fs.do("write", f.name, func() error {
		n, err = f.File.Write(p)
		return err
	})
	if err != nil {
		n = 0
	}
	return n, err
}

func (f *faultFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.fs.do("write", f.name, func() error {
		n, err = f.File.WriteAt(p, off)
		return err
	})
	return n, err
}

func (f *faultFile) Sync() error     { return f.fs.do("sync", f.name, f.File.Sync) }
func (f *faultFile) SyncData() error { return f.fs.do("sync", f.name, f.File.SyncData) }

func (f *faultFile) SyncTo(n int64) (full bool, err error) {
	err = f.fs.do("sync", f.name, func() error {
		full, err = f.File.SyncTo(n)
		return err
	})
	return full, err
}

func (f *faultFile) Stat() (info vfs.FileInfo, err error) {
	err = f.fs.do("stat", f.name, func() error {
		info, err = f.File.Stat()
		return err
	})
	return info, err
}

func (f *faultFile) Preallocate(off, n int64) error {
	return f.fs.do("preallocate", f.name, func() error { return f.File.Preallocate(off, n) })
}

// Close always releases the handle, as close(2) does.
func (f *faultFile) Close() error {
	err := f.File.Close()
	return errFirst(f.fs.do("close", f.name, func() error { return nil }), err)
}

// Fd makes Pebble use Preallocate and SyncTo, as it does on a real file.
func (f *faultFile) Fd() uintptr { return 1 << 20 }

func errFirst(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
