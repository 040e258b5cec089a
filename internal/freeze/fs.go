package freeze

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrFrozen is returned for the few operations that do not pretend to succeed in a frozen directory: writing on to a
// table that was half written at the freeze, making a table for a compaction, and linking a file into the directory.
var ErrFrozen = errors.New("freeze: the directory is frozen")

// ErrGivenUp is returned instead of a table for a compaction that has been given up, see GiveUpCompactions.
var ErrGivenUp = errors.New("freeze: the compaction has been given up")

// maxFailures is how many errors on tables freeze the directory if no table is completed in between. Errors for lack
// of space or of descriptors do not count: both can come back, so waiting is right. Pebble repeats what failed at
// once and without end. On a disk that takes nothing any more, because it has become read-only, say, the writers that
// wait for a flush would hang, and Close with them: none of their writes would reach the log and show the error.
const maxFailures = 100

// FS is a file system for one Pebble store: see the package comment. Operations on paths outside of the store's
// directory, or below its subdirectories, are passed on as they are. So a backup that fails does no harm to the
// store.
type FS struct {
	// FS is the file system beneath. The methods that are not overridden only read or compute. The exception is Lock,
	// which must work in a frozen directory too.
	vfs.FS

	dir      string // cleaned as PathDir does it
	onFreeze func(error)
	keep     func() bool // see KeepCompactions
	givenUp  func() bool // see GiveUpCompactions

	// See descriptors.go.
	reserve  reserve
	patience time.Duration
	closing  func() bool
	log      *slog.Logger

	// failure is nil until the directory is frozen. It is set once.
	failure atomic.Pointer[error]
	// told is closed when onFreeze has returned. Until then no operation pretends to have succeeded.
	told chan struct{}
	// open is false while pebble.Open runs: it is set by the last file that pebble.Open makes. See other.
	open atomic.Bool
	// failures counts the errors on tables since a table was last synced, see maxFailures.
	failures atomic.Int32
	// changes is held shared by every change of the directory. Freeze takes it alone, once, to wait for the changes
	// under way. A goroutine that holds it takes no other lock but the seal's.
	changes sync.RWMutex
	// logs holds the logs that are being written, each a *vitalFile under its path.
	logs sync.Map
	// tables holds the files, other than vital ones, that were created since the freeze. They are under the last
	// element of their paths.
	tables *vfs.MemFS
	// seal is how much of the MANIFEST is sealed. Its mutex is taken while changes is held.
	seal seal
}

// New returns a file system on top of base that freezes the directory dir at the first error that Pebble would not
// survive. Dir must be the directory given to pebble.Open, in the same spelling except for what cleaning the path
// changes.
//
// onFreeze, if not nil, is called once, with the error that Failed returns. At that time the directory is frozen, and
// Pebble has not been told of any pretended success. The callback runs on the goroutine of the operation that failed,
// which may hold locks of Pebble. All other goroutines that would change the directory wait for it. So it must not call
// Pebble or this FS, and must not wait for a goroutine that does.
func New(base vfs.FS, dir string, onFreeze func(error)) *FS {
	fs := &FS{
		FS: opener{base}, onFreeze: onFreeze, told: make(chan struct{}), tables: vfs.NewMem(),
		patience: patience, closing: func() bool { return false }, log: slog.New(slog.DiscardHandler),
	}
	fs.dir = fs.clean(dir)
	return fs
}

// KeepCompactions sets keep, which decides about the tables that compactions make in the frozen directory. While keep
// returns true they are kept in memory, like tables of flushes. While it returns false, or if KeepCompactions is not
// called, making one fails with ErrFrozen: together such tables are as large as the store. Pebble repeats a compaction
// that fails, so its scheduler should grant none while keep returns false. KeepCompactions must be called before
// pebble.Open.
func (fs *FS) KeepCompactions(keep func() bool) { fs.keep = keep }

// GiveUpCompactions sets givenUp. While it returns true, making a table for a compaction fails with ErrGivenUp, so
// that running compactions end soon. Pebble's scheduler should grant none then. GiveUpCompactions must be called
// before pebble.Open.
func (fs *FS) GiveUpCompactions(givenUp func() bool) { fs.givenUp = givenUp }

// Kept returns how many bytes of files made since the freeze are in memory.
func (fs *FS) Kept() (n int64) {
	names, err := fs.tables.List("")
	if err != nil {
		return 0
	}
	for _, name := range names {
		if info, err := fs.tables.Stat(name); err == nil { // else it was removed meanwhile
			n += info.Size()
		}
	}
	return n
}

// Failed returns the error that froze the directory, or nil if it is not frozen. It is one atomic load.
func (fs *FS) Failed() error {
	if err := fs.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// Freeze freezes the directory for a reason found elsewhere; err must not be nil. From the start of the call Failed
// returns err. Freeze returns when the changes under way have ended and the callback has run. If the directory is
// frozen already, or another goroutine is freezing it, Freeze waits until that is done.
func (fs *FS) Freeze(err error) {
	if !fs.failure.CompareAndSwap(nil, &err) {
		<-fs.told
		return
	}
	fs.waitForChanges()
	defer close(fs.told)
	if fs.onFreeze != nil {
		fs.onFreeze(err)
	}
}

// waitForChanges returns when all changes that began before failure was set have ended.
func (fs *FS) waitForChanges() {
	fs.changes.Lock()
	defer fs.changes.Unlock()
}

// change runs op, which makes one change of the directory, unless the directory is frozen. Done reports whether it
// ran op. If it did not, it returns only after the callback of the freeze has run.
func (fs *FS) change(op func() error) (done bool, err error) {
	if done, err = fs.changeIfNotFrozen(op); !done {
		<-fs.told
	}
	return done, err
}

// changeIfNotFrozen looks at failure while it holds changes. So a change that depends on an earlier one is never made
// if the earlier one was not.
func (fs *FS) changeIfNotFrozen(op func() error) (done bool, err error) {
	fs.changes.RLock()
	defer fs.changes.RUnlock()
	if fs.failure.Load() != nil {
		return false, nil
	}
	return true, op()
}

// vital is change for an operation whose error freezes the directory. It reports whether the change was made. If not,
// the directory is frozen, and the caller pretends success.
func (fs *FS) vital(what, name string, op func() error) bool {
	done := false
	err := fs.retry(name, true, func() (err error) {
		done, err = fs.change(op)
		return err
	})
	if err != nil {
		fs.Freeze(fmt.Errorf("freeze: %s %s: %w", what, name, err))
		return false
	}
	return done
}

// other is change for an operation on a file that is not vital. The caller passes the error on. While the store is
// being opened the error also freezes the directory: pebble.Open writes what it finds in the log to tables, and
// repeats that until it succeeds, so that on a full disk it would never return.
func (fs *FS) other(what, name string, op func() error) (done bool, err error) {
	err = fs.retry(name, false, func() (err error) {
		done, err = fs.change(op)
		return err
	})
	waits := vfs.IsNoSpaceError(err) || lacksDescriptor(err)
	if err != nil && (!fs.open.Load() || !waits && fs.failures.Add(1) >= maxFailures) {
		fs.Freeze(fmt.Errorf("freeze: %s %s: %w", what, name, err))
	}
	return done, err
}

// completed is called after a sync of a file that is not vital. A sync that succeeded resets failures.
func (fs *FS) completed(done bool, err error) error {
	if done && err == nil {
		fs.failures.Store(0)
	}
	return err
}

// Unwrap implements vfs.FS.
func (fs *FS) Unwrap() vfs.FS { return fs.FS }

// Create implements vfs.FS. It syncs the directory before it makes a marker. A marker names a file that was made just
// before, and Pebble syncs the directory once for both. A file system may keep the two entries in another order than
// they were made in. Then a crash could leave the marker alone, and the store would not open.
func (fs *FS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if fs.inside(name) && strings.HasPrefix(fs.PathBase(name), "marker.") {
		fs.vital("sync directory before", name, fs.syncDir)
	}
	return fs.openForWriting("create", name, category, func() (vfs.File, error) { return fs.FS.Create(name, category) })
}

func (fs *FS) syncDir() error {
	d, err := fs.FS.OpenDir(fs.dir)
	if err != nil { // nothing was written yet, so the open may be tried again
		if d, err = fs.FS.OpenDir(fs.dir); err != nil {
			return err
		}
	}
	err = d.Sync()
	_ = d.Close() // nothing was written through this handle, so its error does not undo the sync
	return err
}

// OpenReadWrite implements vfs.FS.
func (fs *FS) OpenReadWrite(
	name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption,
) (vfs.File, error) {
	return fs.openForWriting("open", name, category, func() (vfs.File, error) {
		return fs.FS.OpenReadWrite(name, category, opts...)
	})
}

// ReuseForWrite implements vfs.FS. It renames a file and then opens it. If only the open failed, for lack of a
// descriptor, only the open is repeated.
func (fs *FS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	renamed := false
	return fs.openForWriting("reuse", newname, category, func() (vfs.File, error) {
		if renamed {
			return fs.FS.OpenReadWrite(newname, category)
		}
		f, err := fs.FS.ReuseForWrite(oldname, newname, category)
		if lacksDescriptor(err) {
			_, statErr := fs.FS.Stat(oldname)
			renamed = isNotExist(statErr)
		}
		return f, err
	})
}

// compactions is the category under which Pebble writes all tables except tables of flushes.
const compactions vfs.DiskWriteCategory = "pebble-compaction"

func (fs *FS) openForWriting(
	what, name string, category vfs.DiskWriteCategory, open func() (vfs.File, error),
) (vfs.File, error) {
	if !fs.inside(name) {
		return open()
	}
	var f vfs.File
	openFile := func() (err error) {
		f, err = open()
		return err
	}
	if isVital(fs.PathBase(name)) {
		if !fs.vital(what, name, openFile) {
			return newSink(), nil
		}
		file := &vitalFile{File: f, fs: fs, name: name}
		if _, ok := logNumber(fs.PathBase(name)); ok {
			fs.logs.Store(name, file)
		}
		if number, ok := manifestNumber(fs.PathBase(name)); ok && fs.keepsSeal() {
			return &manifestFile{vitalFile: file, written: sealed{number: number}}, nil
		}
		return file, nil
	}
	if category == compactions && fs.givenUp != nil && fs.givenUp() {
		return nil, ErrGivenUp
	}
	done, err := fs.other(what, name, openFile)
	switch {
	case err != nil:
		return nil, err
	case !done && category == compactions && (fs.keep == nil || !fs.keep()):
		return nil, ErrFrozen
	case !done:
		return fs.tables.Create(fs.PathBase(name), vfs.WriteCategoryUnspecified)
	default:
		return &otherFile{File: f, fs: fs, name: name}, nil
	}
}

// Open implements vfs.FS.
func (fs *FS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if fs.inMemory(name) {
		return fs.tables.Open(fs.PathBase(name))
	}
	if log, ok := fs.logs.Load(name); ok {
		f, err := fs.FS.Open(name, opts...)
		if err != nil {
			return nil, err
		}
		return &logPrefix{f, io.LimitedReader{R: f, N: log.(*vitalFile).written.Load()}}, nil
	}
	if isHint(opts) {
		return fs.FS.Open(name, opts...)
	}
	f, err := fs.opened(name, func() (vfs.File, error) { return fs.FS.Open(name, opts...) })
	if err != nil || !fs.inside(name) || fs.open.Load() || !fs.keepsSeal() {
		return f, err
	}
	if number, ok := logNumber(fs.PathBase(name)); ok { // Pebble will replay this log
		if err := checkLog(f, number); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return f, nil
}

// OpenDir implements vfs.FS.
func (fs *FS) OpenDir(name string) (vfs.File, error) {
	f, err := fs.opened(name, func() (vfs.File, error) { return fs.FS.OpenDir(name) })
	if err != nil || fs.clean(name) != fs.dir {
		return f, err
	}
	return &dirFile{File: f, fs: fs}, nil
}

// opened opens a file for reading, or a directory. It tries again if it lacks a descriptor.
func (fs *FS) opened(name string, open func() (vfs.File, error)) (f vfs.File, err error) {
	err = fs.retry(name, false, func() (err error) {
		f, err = open()
		return err
	})
	return f, err
}

// List implements vfs.FS.
func (fs *FS) List(dir string) (names []string, err error) {
	err = fs.retry(dir, false, func() (err error) {
		names, err = fs.FS.List(dir)
		return err
	})
	return names, err
}

// Stat implements vfs.FS. An error does not freeze the directory, but is returned: Pebble asks for the size of a
// vital file only while it opens, and fails to open then.
func (fs *FS) Stat(name string) (vfs.FileInfo, error) {
	if fs.inMemory(name) {
		return fs.tables.Stat(fs.PathBase(name))
	}
	return fs.FS.Stat(name)
}

// Link implements vfs.FS. A link from the directory to elsewhere, as a backup makes, changes nothing in the
// directory.
func (fs *FS) Link(oldname, newname string) error {
	if !fs.inside(newname) {
		return fs.FS.Link(oldname, newname)
	}
	done, err := fs.change(func() error { return fs.FS.Link(oldname, newname) })
	if !done {
		return ErrFrozen
	}
	return err
}

// Rename implements vfs.FS.
func (fs *FS) Rename(oldname, newname string) error {
	if !fs.inside(oldname) && !fs.inside(newname) {
		return fs.FS.Rename(oldname, newname)
	}
	rename := func() error { return fs.FS.Rename(oldname, newname) }
	if isVital(fs.PathBase(oldname)) || isVital(fs.PathBase(newname)) {
		fs.vital("rename", oldname, rename)
		if strings.HasPrefix(fs.PathBase(newname), "OPTIONS-") {
			fs.open.Store(true) // the last file that pebble.Open makes
		}
		return nil
	}
	_, err := fs.change(rename)
	return err
}

// Remove implements vfs.FS. An error does not freeze the directory: a file too many does no harm.
func (fs *FS) Remove(name string) error {
	return fs.remove(name, fs.FS.Remove)
}

// RemoveAll implements vfs.FS.
func (fs *FS) RemoveAll(name string) error {
	return fs.remove(name, fs.FS.RemoveAll)
}

func (fs *FS) remove(name string, remove func(string) error) error {
	if !fs.inside(name) && fs.clean(name) != fs.dir {
		return remove(name)
	}
	done, err := fs.change(func() error { return remove(name) })
	if !done && fs.inMemory(name) {
		return fs.tables.Remove(fs.PathBase(name))
	}
	return err
}

// MkdirAll implements vfs.FS.
func (fs *FS) MkdirAll(name string, perm os.FileMode) error {
	if !fs.inside(name) && fs.clean(name) != fs.dir {
		return fs.FS.MkdirAll(name, perm)
	}
	if fs.clean(name) == fs.dir {
		fs.open.Store(false) // the first thing that pebble.Open does
	}
	_, err := fs.change(func() error { return fs.FS.MkdirAll(name, perm) })
	return err
}

// inside reports whether name is an entry of the store's directory.
func (fs *FS) inside(name string) bool { return fs.PathDir(name) == fs.dir }

// inMemory reports whether name is a file that was created since the freeze and is kept in memory.
func (fs *FS) inMemory(name string) bool {
	if fs.failure.Load() == nil || !fs.inside(name) {
		return false
	}
	_, err := fs.tables.Stat(fs.PathBase(name))
	return err == nil
}

// clean spells the path of a directory as PathDir spells it for the directory's entries.
func (fs *FS) clean(dir string) string { return fs.PathDir(fs.PathJoin(dir, "x")) }

// isVital reports whether a file of this name is vital, so that an error on it freezes the directory.
func isVital(entry string) bool {
	return strings.HasSuffix(entry, ".log") || strings.HasSuffix(entry, ".dbtmp") ||
		strings.HasPrefix(entry, "MANIFEST-") || strings.HasPrefix(entry, "OPTIONS-") ||
		strings.HasPrefix(entry, "marker.")
}
