package kv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/kv/freeze"
)

// Open opens the store in dir, creating dir and the store if need be; nil
// options mean the defaults. What it creates is for the user of the process alone, whatever
// the umask: modes 0700 and 0600. The errors are ErrOptions, ErrLocked, ErrNotExist
// (only with MustExist), ErrUnsupportedVersion, ErrCorrupt, ErrFailed and those
// of the file system.
func Open(dir string, options *Options) (*DB, error) {
	opts, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	switch {
	case opts.InMemory:
		dir = "memory"
	case opts.FS == vfs.Default:
		if dir, err = realDir(dir); err != nil {
			return nil, err
		}
	default:
		dir = opts.FS.PathDir(opts.FS.PathJoin(dir, "x")) // one spelling
	}
	db := &DB{
		opts: opts, dir: dir, opened: opts.Clock(), descriptors: shareOf(descriptorLimit()),
		idle:     make(chan struct{}, 1),
		gathered: gathered{begun: make(chan struct{}, 1)},
	}
	if db.registry, err = newRegistry(opts.Modules); err != nil {
		return nil, err // it was checked with the options
	}
	if opts.Modules != nil {
		db.running = opts.Modules.Attach(db)
	}
	db.ending, db.end = context.WithCancel(context.Background())
	for i := range db.shards {
		db.shards[i].objects = make(map[string]*Object)
	}
	for i := range db.stripes {
		db.stripes[i].flights = make(map[flightKey]*flight)
	}
	if err := db.openStore(); err != nil {
		return nil, err
	}
	if db.residency, err = newResidency(opts.CacheSize); err != nil {
		return nil, errors.Join(fmt.Errorf("kv: block cache: %w", err), db.closeStore())
	}
	db.stopHousekeeper, db.housekeeperDone, db.drainerDone = make(chan struct{}), make(chan struct{}), make(chan struct{})
	go db.keepHouse()
	go db.keepDraining()
	if db.running != nil {
		if err := db.running.Start(); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return db, nil
}

// openStore locks the directory, opens Pebble and reads the metadata. On an
// error everything is closed again.
func (db *DB) openStore() (err error) {
	fsys := db.fileSystem()
	if err := db.lockDir(fsys); err != nil {
		return err
	}
	if err := db.refuseForeign(fsys); err != nil {
		return errors.Join(err, db.dirLock.Close())
	}
	low := uint64(max(0, db.opts.MinFreeSpace))
	db.ballast.Store(minBallast)
	db.space = freeze.NewSpace(fsys, db.dir, freeze.Options{
		Ballast: max(0, db.opts.BallastSize), Wanted: db.ballast.Load,
		Low: low, High: low + low/2, Floor: low / 4,
		Interval: db.opts.FreeSpaceInterval, Logger: db.opts.Logger,
	})
	db.space.Start()
	db.fs = freeze.New(db.space.FS(), db.dir, db.frozen)
	db.fs.KeepCompactions(db.mayCompact)
	db.fs.GiveUpCompactions(db.givenUp)
	db.guardDescriptors()
	defer func() {
		// Open can seem to succeed on a frozen directory.
		if f := db.failure(); f != nil {
			err = f
		}
		if err != nil {
			err = errors.Join(err, db.closeStore())
		}
	}()
	if err := db.openPebble(); err != nil {
		return err
	}
	fresh, err := db.readMeta()
	if err != nil || !fresh {
		return err
	}
	// The first session of a new database writes the log in the oldest format,
	// whatever is asked for. The metadata is all that is ever in it.
	if err := db.writeMeta(); err != nil {
		return err
	}
	if err := db.closePebble(); err != nil {
		return err
	}
	if err := db.openPebble(); err != nil {
		return err
	}
	if fresh, err := db.readMeta(); err != nil || fresh {
		return errors.Join(err, db.failure(), errors.New("kv: a new store's metadata is gone at once"))
	}
	return nil
}

// lockDir takes the lock of the directory, so that a second open is told whose
// it is; Pebble's own error names nothing.
func (db *DB) lockDir(fsys vfs.FS) error {
	desc, err := pebble.Peek(db.dir, fsys)
	switch {
	case err == nil && desc.Exists, !db.opts.MustExist:
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s", ErrNotExist, db.dir)
	default:
		return openError(db.dir, err)
	}
	if err := makeDir(fsys, db.dir); err != nil {
		return fmt.Errorf("kv: create %s: %w", db.dir, err)
	}
	db.dirLock, err = pebble.LockDirectory(db.dir, fsys)
	switch {
	case err == nil:
		return nil
	case isLockHeld(err):
		return fmt.Errorf("%w, by %s: %s", ErrLocked, lockHolder(err), db.dir)
	}
	return fmt.Errorf("kv: lock %s: %w", db.dir, err)
}

// makeDir makes a directory and its parents, and syncs each directory that got a
// new entry: a store whose directory a crash can take away keeps nothing.
func makeDir(fsys vfs.FS, dir string) error {
	_, err := fsys.Stat(dir)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := fsys.PathDir(dir)
	if parent != dir {
		if err := makeDir(fsys, parent); err != nil {
			return err
		}
	}
	if err := fsys.MkdirAll(dir, privateDir); err != nil {
		return err
	}
	return syncDir(fsys, parent)
}

// isLockHeld tells a lock somebody has from one that cannot be taken for another
// reason: Unix answers EAGAIN or EACCES, Windows a sharing violation, and Pebble
// a text of its own when it is this process.
func isLockHeld(err error) bool {
	const sharingViolation = syscall.Errno(32)
	return errors.Is(err, syscall.EAGAIN) ||
		errors.Is(err, syscall.EACCES) && !errors.Is(err, fs.ErrPermission) ||
		runtime.GOOS == "windows" && errors.Is(err, sharingViolation) ||
		isOwnLock(err)
}

// isOwnLock reports whether a lock is held by this process.
func isOwnLock(err error) bool { return strings.Contains(err.Error(), "lock held by current process") }

func lockHolder(err error) string {
	if isOwnLock(err) {
		return "this process"
	}
	return "another process"
}

// realDir returns the one name of a directory, which need not exist yet: locks of
// this process are by name.
func realDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("kv: directory %s: %w", dir, err)
	}
	for there, rest := abs, ""; ; there, rest = filepath.Dir(there), filepath.Join(filepath.Base(there), rest) {
		if real, err := filepath.EvalSymlinks(there); err == nil {
			return filepath.Join(real, rest), nil
		}
		if filepath.Dir(there) == there {
			return abs, nil
		}
	}
}

// refuseForeign refuses a database of somebody else's before anything is written
// to it. A store has a seal from the first, and a sidecar some seconds later; only a
// database without either is looked into, read-only.
func (db *DB) refuseForeign(fsys vfs.FS) error {
	desc, err := pebble.Peek(db.dir, fsys)
	if err != nil {
		return openError(db.dir, err)
	}
	if !desc.Exists {
		return nil
	}
	for _, name := range []string{freeze.SealName, sidecarName} {
		if _, err := fsys.Stat(fsys.PathJoin(db.dir, name)); err == nil {
			return nil
		}
	}
	look := &DB{opts: db.opts, dir: db.dir, dirLock: db.dirLock, fs: freeze.New(fsys, db.dir, func(error) {})}
	po := look.pebbleOptions()
	po.Lock, po.ReadOnly = db.dirLock, true
	if look.disk, err = pebble.Open(db.dir, po); err != nil {
		if errno := syscall.Errno(0); errors.As(err, &errno) {
			return fmt.Errorf("kv: open %s: %w", db.dir, err)
		}
		return fmt.Errorf("%w: %s holds a database that is not a store, or is damaged: %w", ErrCorrupt, db.dir, diskError{err})
	}
	value, err := look.readMetaKey(metaStore)
	if err == nil && value == nil {
		err = look.checkEmpty()
	}
	return errors.Join(err, look.disk.Close())
}

// openError gives an error of Pebble's the kind it is of: what the system below did not
// say, and that a file is missing, is about what the files hold.
func openError(dir string, err error) error {
	errno := syscall.Errno(0)
	system := errors.As(err, &errno) || errors.Is(err, io.ErrShortWrite)
	err = diskError{err}
	switch {
	case errors.Is(err, freeze.ErrVersion), strings.Contains(err.Error(), "unknown format major version"):
		err = fmt.Errorf("%w: %w", ErrUnsupportedVersion, err)
	case pebble.IsCorruptionError(err), !system, errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return fmt.Errorf("kv: open %s: %w", dir, err)
}

func (db *DB) openPebble() error {
	if err := db.fs.Verify(); err != nil {
		return openError(db.dir, err)
	}
	po := db.pebbleOptions()
	po.Lock = db.dirLock
	compactions := &scheduler{may: db.mayCompact, full: db.mustSpare}
	po.Experimental.CompactionScheduler = compactions
	po.FileCache = db.newFileCache()
	defer po.FileCache.Unref() // Pebble has taken it
	p, err := pebble.Open(db.dir, po)
	if err != nil {
		return openError(db.dir, err)
	}
	db.disk, db.scheduler = p, compactions
	compactions.start()
	return nil
}

func (db *DB) closePebble() error {
	if db.disk == nil {
		return nil
	}
	err := db.disk.Close()
	db.disk = nil
	return err
}

// closeStore undoes openStore.
func (db *DB) closeStore() error {
	err := db.closePebble()
	if db.failure() != nil {
		err = nil // Close tells of the failure; what a frozen directory adds says nothing
	}
	db.space.Close()
	db.fs.ReleaseDescriptors()
	return errors.Join(err, db.dirLock.Close())
}
