package remains

import (
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/format"
)

// FS is a read-only file system on which a damaged store's directory has the rest of the store.
type FS struct {
	vfs.FS
	dir    string
	files  *vfs.MemFS      // that replace files of the directory
	passed map[string]bool // files of the directory that are shown as they are
	id     *[16]byte       // in the sidecar; nil if that is lost

	lost    []Range
	damages []Damage
	deep    bool
	blind   bool // see MaybeEarlier
}

func newFS(base vfs.FS, dir string) *FS {
	return &FS{FS: base, dir: dir, files: vfs.NewMem(), passed: make(map[string]bool)}
}

// Identity returns the store's id if a file besides the tables tells it.
func (f *FS) Identity() (id [16]byte, ok bool) {
	if f.id == nil {
		return id, false
	}
	return *f.id, true
}

// Belongs is called when the store is open, with the identity in its tables and logs. The sidecar of another store says
// nothing about this one.
func (f *FS) Belongs(id [16]byte) {
	if f.id != nil && *f.id != id {
		f.blind = true
		f.damages = append(f.damages, Damage{format.SidecarName, "is that of another store" + blindness})
	}
}

// MaybeEarlier reports whether the end of the log may be lost without a sign: the log is missing, or the file that
// tells how far it must reach.
func (f *FS) MaybeEarlier() bool { return f.blind }

// Lost returns the ranges of keys that are lost, in order, and what is wrong with files.
func (f *FS) Lost() (ranges []Range, problems []string) {
	for _, d := range f.damages {
		problems = append(problems, d.String())
	}
	return f.lost, problems
}

// HasLost reports whether a key is in a range that is lost.
func (f *FS) HasLost(key []byte) bool {
	return slices.ContainsFunc(f.lost, func(r Range) bool { return r.Contains(key) })
}

// Damaged reports whether a file is damaged.
func (f *FS) Damaged() bool { return len(f.damages) > 0 }

// Deep reports whether all tables were read.
func (f *FS) Deep() bool { return f.deep }

func (f *FS) pass(name string) { f.passed[name] = true }

// add replaces a file, or adds one.
func (f *FS) add(name string, data []byte) error {
	file, err := f.files.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if _, err := file.Write(append([]byte(nil), data...)); err != nil {
		return err
	}
	return file.Close()
}

// where returns the file system that has a file, and the file's name there.
func (f *FS) where(op, path string) (vfs.FS, string, error) {
	name := f.PathBase(path)
	if f.PathDir(path) != f.dir || f.passed[name] {
		return f.FS, path, nil
	}
	if _, err := f.files.Stat(name); err == nil {
		return f.files, name, nil
	}
	return nil, "", &fs.PathError{Op: op, Path: path, Err: fs.ErrNotExist}
}

// Open implements vfs.FS.
func (f *FS) Open(path string, opts ...vfs.OpenOption) (vfs.File, error) {
	at, name, err := f.where("open", path)
	if err != nil {
		return nil, err
	}
	return at.Open(name, opts...)
}

// Stat implements vfs.FS.
func (f *FS) Stat(path string) (vfs.FileInfo, error) {
	if path == f.dir {
		return f.FS.Stat(path)
	}
	at, name, err := f.where("stat", path)
	if err != nil {
		return nil, err
	}
	return at.Stat(name)
}

// List implements vfs.FS.
func (f *FS) List(dir string) ([]string, error) {
	if dir != f.dir {
		return f.FS.List(dir)
	}
	names, err := f.files.List("")
	for name := range f.passed {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, err
}

// Lock implements vfs.FS. The caller of Examine has locked the directory.
func (f *FS) Lock(string) (io.Closer, error) { return unlocked{}, nil }

type unlocked struct{}

// Close implements io.Closer.
func (unlocked) Close() error { return nil }

// readOnly is the error of everything that would change a file.
func readOnly(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: fs.ErrPermission}
}

// Create implements vfs.FS.
func (f *FS) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, readOnly("create", name)
}

// Link implements vfs.FS.
func (f *FS) Link(_, name string) error { return readOnly("link", name) }

// OpenReadWrite implements vfs.FS.
func (f *FS) OpenReadWrite(name string, _ vfs.DiskWriteCategory, _ ...vfs.OpenOption) (vfs.File, error) {
	return nil, readOnly("open", name)
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error { return readOnly("remove", name) }

// RemoveAll implements vfs.FS.
func (f *FS) RemoveAll(name string) error { return readOnly("remove", name) }

// Rename implements vfs.FS.
func (f *FS) Rename(_, name string) error { return readOnly("rename", name) }

// ReuseForWrite implements vfs.FS.
func (f *FS) ReuseForWrite(_, name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, readOnly("create", name)
}

// MkdirAll implements vfs.FS.
func (f *FS) MkdirAll(dir string, _ os.FileMode) error { return readOnly("mkdir", dir) }
