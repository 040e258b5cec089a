package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/text"
)

// A store owns the directory that it stands in. Either one writer has the directory, or any number of readers. Three
// things see to that on the operating system's file system:
//
//   - This process lists the directories that it has, by device and inode. So it makes no difference by which path a
//     directory is opened.
//   - The directory itself is locked (flock). No tool tells people to remove a directory, as some tools do for a lock
//     file. The lock belongs to the open directory: no other open or close in this process gives it up.
//   - The file LOCK is locked as Pebble would lock it, for programs that know no other lock, and for machines that
//     share a network file system, which may not see each other's flock. That lock is the process's: it is lost when
//     this process closes any descriptor of the file, for instance after a copy of it. Somebody may remove the file,
//     too. So it is taken again at each look.
//
// Pebble opens every file by its path. If the directory is renamed, and another put in its place, the paths lead into
// that one, which may be another process's. So a look compares the path with the directory that is locked: before and
// after each operation that opens or changes a file (groundFS), and once a second (watchGround). If it is not the same,
// the store fails.

// errGroundLost is the cause of the failure of a store whose directory is no longer its own.
var errGroundLost = errors.New("kv: the directory is not the one that was opened")

// lockName is the name of the lock file, which Pebble's programs lock.
const lockName = "LOCK"

// lookEvery is the time between two looks at the ground. Another process needs longer to open a store.
const lookEvery = time.Second

// ground is a directory that is locked.
type ground struct {
	dir   string
	alone bool        // a writer has it
	info  os.FileInfo // of the directory; nil on a file system other than the operating system's
	file  *os.File    // the directory, open and locked
	lock  fileLocker  // of the file LOCK
}

// fileLocker is a lock of the file LOCK.
type fileLocker interface {
	io.Closer
	// renew takes the lock again if it may be lost. It returns an error if another process has it by now.
	renew() error
}

// grounds lists what this process has locked.
var grounds struct {
	mu   sync.Mutex
	held []*ground
}

// takeGround locks a directory that exists, for a writer alone or for a reader. The error is ErrLocked if another has
// it.
func takeGround(fsys vfs.FS, dir string, alone bool) (*ground, error) {
	if !isSystem(fsys) {
		l, err := fsys.Lock(fsys.PathJoin(dir, lockName))
		if err != nil {
			return nil, lockError(dir, err)
		}
		return &ground{dir: dir, lock: foreignLock{l}}, nil
	}
	grounds.mu.Lock()
	defer grounds.mu.Unlock()
	g := &ground{dir: dir, alone: alone}
	if err := g.take(); err != nil {
		return nil, errors.Join(err, g.letGo())
	}
	grounds.held = append(grounds.held, g)
	return g, nil
}

// take locks the directory and its file LOCK. The caller holds the list.
func (g *ground) take() (err error) {
	if g.file, err = os.Open(g.dir); err != nil {
		return text.After(err, "kv: lock %s", g.dir)
	}
	if g.info, err = g.file.Stat(); err != nil {
		return text.After(err, "kv: lock %s", g.dir)
	}
	for _, other := range grounds.held {
		if (g.alone || other.alone) && os.SameFile(g.info, other.info) {
			return fmt.Errorf("%w, by this process: %s", ErrLocked, g.dir)
		}
	}
	if err := lockDirectory(g.file, g.alone); err != nil {
		return lockError(g.dir, err)
	}
	if g.lock, err = lockFile(vfs.Default.PathJoin(g.dir, lockName), g.alone); err != nil {
		return lockError(g.dir, err)
	}
	return g.inPlace()
}

// Close unlocks the directory.
func (g *ground) Close() error {
	grounds.mu.Lock()
	defer grounds.mu.Unlock()
	grounds.held = slices.DeleteFunc(grounds.held, func(other *ground) bool { return other == g })
	return g.letGo()
}

func (g *ground) letGo() (err error) {
	if g.lock != nil {
		err = g.lock.Close()
	}
	if g.file != nil {
		err = errors.Join(err, g.file.Close())
	}
	return err
}

// inPlace returns errGroundLost if the path does not lead to the locked directory. Other errors, as of a network that
// is down for a moment, tell nothing.
func (g *ground) inPlace() error {
	if g.info == nil {
		return nil
	}
	now, err := os.Stat(g.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w: %s was renamed or removed", errGroundLost, g.dir)
	case err == nil && !os.SameFile(now, g.info):
		return fmt.Errorf("%w: %s was renamed or removed, and another directory is in its place", errGroundLost, g.dir)
	}
	return nil
}

// look returns errGroundLost if the directory is not the store's own any more.
func (g *ground) look() error {
	if err := g.inPlace(); err != nil {
		return err
	}
	if err := g.lock.renew(); err != nil && isLockHeld(err) {
		return fmt.Errorf("%w: its file %s was removed or given up, and another process has locked it", errGroundLost, lockName)
	}
	return nil
}

func lockError(dir string, err error) error {
	if isLockHeld(err) {
		return fmt.Errorf("%w, by %s: %s", ErrLocked, lockHolder(err), dir)
	}
	return text.After(err, "kv: lock %s", dir)
}

// isLockHeld tells a lock that is held from one that cannot be taken for another reason. For a lock that is held Unix
// answers EAGAIN or EACCES, and Windows a sharing violation. If this process holds it, Pebble answers with a text of
// its own.
func isLockHeld(err error) bool {
	const sharingViolation = syscall.Errno(32)
	return errors.Is(err, syscall.EAGAIN) ||
		errors.Is(err, syscall.EACCES) && !errors.Is(err, fs.ErrPermission) ||
		runtime.GOOS == "windows" && errors.Is(err, sharingViolation) ||
		isOwnLock(err)
}

// isOwnLock reports whether this process holds the lock.
func isOwnLock(err error) bool { return strings.Contains(err.Error(), "lock held by current process") }

func lockHolder(err error) string {
	if isOwnLock(err) {
		return "this process"
	}
	return "another process"
}

// watchGround looks at the ground until the store is closed, and makes the store fail if the ground is lost.
func (s *Store) watchGround() {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
			if err := s.ground.look(); err != nil && s.failure() == nil {
				_ = s.Fail(err)
			}
		}
	}
}

// foreignLock is the lock of a file system other than the operating system's. It cannot be lost.
type foreignLock struct{ io.Closer }

func (foreignLock) renew() error { return nil }

// groundFS is the file system that Pebble uses. It uses no path that leads into another directory.
type groundFS struct {
	vfs.FS
	ground *ground
}

// on runs one operation, between two looks at the directory. An error of the second is returned although the operation
// was done: the store has to fail.
func (g groundFS) on(op func() error) error {
	if err := g.ground.inPlace(); err != nil {
		return err
	}
	if err := op(); err != nil {
		return err
	}
	return g.ground.inPlace()
}

// open is on for an operation that opens a file.
func (g groundFS) open(open func() (vfs.File, error)) (f vfs.File, err error) {
	err = g.on(func() (err error) {
		f, err = open()
		return err
	})
	if err != nil && f != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, err
}

// Lock implements vfs.FS. Pebble takes no lock: the store has one.
func (groundFS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// Create implements vfs.FS.
func (g groundFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return g.open(func() (vfs.File, error) { return g.FS.Create(name, category) })
}

// Open implements vfs.FS.
func (g groundFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	return g.open(func() (vfs.File, error) { return g.FS.Open(name, opts...) })
}

// OpenReadWrite implements vfs.FS.
func (g groundFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return g.open(func() (vfs.File, error) { return g.FS.OpenReadWrite(name, category, opts...) })
}

// ReuseForWrite implements vfs.FS.
func (g groundFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return g.open(func() (vfs.File, error) { return g.FS.ReuseForWrite(oldname, newname, category) })
}

// OpenDir implements vfs.FS.
func (g groundFS) OpenDir(name string) (vfs.File, error) {
	return g.open(func() (vfs.File, error) { return g.FS.OpenDir(name) })
}

// Link implements vfs.FS.
func (g groundFS) Link(oldname, newname string) error {
	return g.on(func() error { return g.FS.Link(oldname, newname) })
}

// Rename implements vfs.FS.
func (g groundFS) Rename(oldname, newname string) error {
	return g.on(func() error {
		if g.has(oldname) && g.has(newname) {
			return renameIn(g.ground.file, g.FS.PathBase(oldname), g.FS.PathBase(newname))
		}
		return g.FS.Rename(oldname, newname)
	})
}

// Remove implements vfs.FS.
func (g groundFS) Remove(name string) error {
	return g.on(func() error {
		if g.has(name) {
			return removeIn(g.ground.file, g.FS.PathBase(name))
		}
		return g.FS.Remove(name)
	})
}

// has reports whether a name belongs to a file in the directory, which is open. On Linux such files are removed and
// renamed through the open directory: their paths could lead to files of a directory that has taken its place since the
// look.
func (g groundFS) has(name string) bool {
	return g.ground.info != nil && g.FS.PathDir(name) == filepath.Clean(g.ground.dir)
}

// RemoveAll implements vfs.FS.
func (g groundFS) RemoveAll(name string) error {
	return g.on(func() error { return g.FS.RemoveAll(name) })
}

// List implements vfs.FS.
func (g groundFS) List(dir string) (names []string, err error) {
	err = g.on(func() (err error) {
		names, err = g.FS.List(dir)
		return err
	})
	return names, err
}
