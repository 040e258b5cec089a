package freeze

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrFrozen is returned for the few things that are not pretended in a frozen directory: going on with a table that was
// half written when it froze, making one for a compaction, and linking a file into it.
var ErrFrozen = errors.New("freeze: the directory is frozen")

// ErrGivenUp is returned for making a table for a compaction that has been given up, see GiveUpCompactions.
var ErrGivenUp = errors.New("freeze: the compaction has been given up")

// maxFailures is how many errors on tables, other than ENOSPC, freeze the directory if no table is completed in between.
// Pebble repeats what failed at once and without end. A disk that never takes it, because it has become read-only, say,
// would hang the writers that wait for a flush, and Close with them: no write would reach the log to show the error.
// When space is lacking, or descriptors are, waiting is right: they come back.
const maxFailures = 100

// FS is a file system for one Pebble store: see the package comment. Paths outside of the store's directory, and
// below its subdirectories, are passed on untouched: a backup that fails is the backup's failure alone.
type FS struct {
	// FS is the file system beneath. What is not overridden reads or computes only, except Lock, which must work in
	// a frozen directory as well.
	vfs.FS

	dir      string // as PathDir spells it
	onFreeze func(error)
	keep     func() bool // see KeepCompactions
	givenUp  func() bool // see GiveUpCompactions

	// What descriptors.go is about.
	reserve  reserve
	patience time.Duration
	closing  func() bool
	log      *slog.Logger

	// failure is nil until the directory is frozen, and set once.
	failure atomic.Pointer[error]
	// told is closed when onFreeze has returned. Nobody is led to believe in a change before.
	told chan struct{}
	// open is set while the store is open, that is when pebble.Open has nothing left to do that it would repeat for ever:
	// see other.
	open atomic.Bool
	// failures counts the errors on tables since a table was last synced.
	failures atomic.Int32
	// gate is held shared through every change of the directory, and taken exclusively once, by Freeze, to wait for
	// the changes under way. No other lock is taken while holding it, but the seal's.
	gate sync.RWMutex
	// tables holds, under their last path element, the files other than vital ones created since the freeze.
	tables *vfs.MemFS
	// seal is what the MANIFEST is compared with. Its mutex is taken while the gate is held.
	seal seal
}

// New returns a file system on top of base in which the directory dir is frozen at the first error that Pebble would
// not survive. dir is to be spelled as it is given to pebble.Open, save for what cleaning the path removes.
//
// onFreeze, if not nil, is called once, with what Failed returns, when the directory has been frozen and before Pebble is
// told of any success that is none. It runs on the goroutine of the operation that failed, which may hold locks of
// Pebble, and all others that would change the directory wait for it: it must neither call Pebble or this FS nor wait
// for anyone who does.
func New(base vfs.FS, dir string, onFreeze func(error)) *FS {
	fs := &FS{
		FS: opener{base}, onFreeze: onFreeze, told: make(chan struct{}), tables: vfs.NewMem(),
		patience: patience, closing: func() bool { return false }, log: slog.New(slog.DiscardHandler),
	}
	fs.dir = fs.clean(dir)
	return fs
}

// KeepCompactions has the tables that compactions make in the frozen directory kept in memory, as those of flushes are,
// whenever keep returns true. By default, and when it returns false, making one fails with ErrFrozen: together they are
// as large as the store. It is to be called before pebble.Open. Pebble repeats a compaction that fails, so its scheduler
// is to grant none then.
func (fs *FS) KeepCompactions(keep func() bool) { fs.keep = keep }

// GiveUpCompactions has the making of a table for a compaction fail with ErrGivenUp whenever givenUp returns true, so that
// those under way end soon. It is to be called before pebble.Open, and its scheduler is to grant none then.
func (fs *FS) GiveUpCompactions(givenUp func() bool) { fs.givenUp = givenUp }

// Kept returns how many bytes of files, made since the freeze, are in memory.
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

// Freeze freezes the directory for a reason found elsewhere; err must not be nil. Failed returns err at once; Freeze
// itself returns when the changes under way have ended and the callback has run. If the directory is frozen already,
// or is being frozen by another goroutine, Freeze waits for that.
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

// waitForChanges returns when all changes that began before the latch was set have ended.
func (fs *FS) waitForChanges() {
	fs.gate.Lock()
	defer fs.gate.Unlock()
}

// change makes one change of the directory and reports that it has, unless the directory is frozen.
func (fs *FS) change(op func() error) (done bool, err error) {
	if done, err = fs.changeIfNotFrozen(op); !done {
		<-fs.told
	}
	return done, err
}

// changeIfNotFrozen looks at the latch inside the gate, so that a change which depends on the end of another is never
// made if the other was not.
func (fs *FS) changeIfNotFrozen(op func() error) (done bool, err error) {
	fs.gate.RLock()
	defer fs.gate.RUnlock()
	if fs.failure.Load() != nil {
		return false, nil
	}
	return true, op()
}

// vital is change for operations whose error freezes the directory. It reports whether the change was made; if not,
// the directory is frozen and the caller pretends.
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

// other is change for operations on files that are not vital. The error is the caller's to pass on. It freezes as well
// while the store is being opened: what pebble.Open finds in the log it writes to tables, and repeats that until it
// succeeds, so that it would not return from a full disk.
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

// completed is called after a sync of a file that is not vital.
func (fs *FS) completed(done bool, err error) error {
	if done && err == nil {
		fs.failures.Store(0)
	}
	return err
}

// Unwrap implements vfs.FS.
func (fs *FS) Unwrap() vfs.FS { return fs.FS }

// Create implements vfs.FS. Before a marker is made the directory is synced: the file that the marker names was just
// made too, Pebble syncs the directory once for both, and a file system that keeps entries in another order than they
// were made in could be left, by a crash, with the marker alone: a store that does not open.
func (fs *FS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if fs.inside(name) && strings.HasPrefix(fs.PathBase(name), "marker.") {
		fs.vital("sync directory before", name, fs.syncDir)
	}
	return fs.openForWriting("create", name, category, func() (vfs.File, error) { return fs.FS.Create(name, category) })
}

func (fs *FS) syncDir() error {
	d, err := fs.FS.OpenDir(fs.dir)
	if err != nil { // nothing was to be written yet: it may be tried again
		if d, err = fs.FS.OpenDir(fs.dir); err != nil {
			return err
		}
	}
	err = d.Sync()
	_ = d.Close() // nothing was written through it: a sync that succeeded holds
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

// ReuseForWrite implements vfs.FS. It renames, then opens. When it lacked a descriptor for the second, only that is
// repeated.
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

// compactions is the category under which Pebble writes tables that are not of flushes.
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
	if isHint(opts) {
		return fs.FS.Open(name, opts...)
	}
	f, err := fs.opened(name, func() (vfs.File, error) { return fs.FS.Open(name, opts...) })
	if err != nil || !fs.inside(name) || fs.open.Load() || !fs.keepsSeal() {
		return f, err
	}
	if number, ok := logNumber(fs.PathBase(name)); ok { // Pebble is going to replay it
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

// opened opens a file for reading, or a directory, again and again if it lacks a descriptor.
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

// Stat implements vfs.FS. An error is returned and does not freeze: Pebble asks for the size of a vital file only
// while it opens, which fails with that error.
func (fs *FS) Stat(name string) (vfs.FileInfo, error) {
	if fs.inMemory(name) {
		return fs.tables.Stat(fs.PathBase(name))
	}
	return fs.FS.Stat(name)
}

// Link implements vfs.FS. A link out of the directory, as a backup makes, changes nothing in it.
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

// Remove implements vfs.FS. An error does not freeze: a file too many harms nobody.
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

// inMemory reports whether name is a file created since the freeze and kept in memory.
func (fs *FS) inMemory(name string) bool {
	if fs.failure.Load() == nil || !fs.inside(name) {
		return false
	}
	_, err := fs.tables.Stat(fs.PathBase(name))
	return err == nil
}

// clean spells the path of a directory as PathDir would for its entries.
func (fs *FS) clean(dir string) string { return fs.PathDir(fs.PathJoin(dir, "x")) }

// isVital reports whether errors on a file of this name freeze the directory.
func isVital(entry string) bool {
	return strings.HasSuffix(entry, ".log") || strings.HasSuffix(entry, ".dbtmp") ||
		strings.HasPrefix(entry, "MANIFEST-") || strings.HasPrefix(entry, "OPTIONS-") ||
		strings.HasPrefix(entry, "marker.")
}
