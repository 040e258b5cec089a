package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/kv/format"
	"github.com/sievekv/sievekv/kv/freeze"
	"github.com/sievekv/sievekv/kv/storage/remains"
)

// A store that is open read-only changes no file. Pebble reads the log into memory, and flushes nothing. Readers hold
// a shared lock of the file LOCK, a writer holds it alone: so any number of processes can read a store, or one can
// write to it. On a file system other than the operating system's, a reader holds the lock alone, too.

// ErrReadOnly is returned by everything that would change a store that is open read-only.
var ErrReadOnly = errors.New("kv: store is open read-only, writes are refused")

// openReadOnly is open for a store that is not changed.
func (s *Store) openReadOnly() (err error) {
	fsys := s.fileSystem()
	desc, err := pebble.Peek(s.Dir, fsys)
	switch {
	case err == nil && desc.Exists:
	case err == nil, errors.Is(err, fs.ErrNotExist):
		if err := s.refuseParts(fsys); err != nil {
			return err
		}
		return fmt.Errorf("%w: %s", ErrNotExist, s.Dir)
	default:
		return openError(s.Dir, err)
	}
	unlock, err := LockShared(fsys, s.Dir)
	if err != nil {
		return err
	}
	s.unlock = unlock
	s.Space = freeze.NewSpace(fsys, s.Dir, freeze.Options{})
	s.Space.Measure()
	s.Files = freeze.New(fsys, s.Dir, s.frozen)
	s.guardDescriptors()
	defer func() {
		if err != nil {
			err = errors.Join(err, s.closeAll())
		}
	}()
	if err := s.Files.VerifyReadOnly(); err != nil {
		return openError(s.Dir, err)
	}
	po := s.pebbleOptions()
	po.FS, po.ReadOnly = unlockedFS{po.FS}, true
	_, po.DisableConsistencyCheck = fsys.(*remains.FS) // what is left of a table has another size
	compactions := &scheduler{may: s.mayCompact, full: s.mustSpare}
	po.Experimental.CompactionScheduler = compactions
	po.FileCache = s.newFileCache()
	defer po.FileCache.Unref() // Pebble has a reference of its own
	if s.disk, err = pebble.Open(s.Dir, po); err != nil {
		return openError(s.Dir, err)
	}
	s.scheduler = compactions
	compactions.start()
	return s.readMetaReadOnly(fsys)
}

func (s *Store) readMetaReadOnly(fsys vfs.FS) error {
	value, err := s.readIdentity()
	if err != nil {
		return err
	}
	if left, ok := fsys.(*remains.FS); ok && value == nil {
		id, known := left.Identity()
		if !known {
			return format.Corruptf("%s: the identity of the store is lost", s.Dir)
		}
		value = format.AppendStoreMeta(nil, format.StoreMeta{ID: id})
	}
	if value == nil {
		return format.Corruptf("%s holds a database without a store's metadata", s.Dir)
	}
	if s.Meta, err = format.DecodeStoreMeta(value); err != nil {
		return fmt.Errorf("%s: %w", s.Dir, err)
	}
	snap := s.disk.NewSnapshot()
	next := uint64(s.disk.Metrics().Snapshots.EarliestSeqNum)
	if err := snap.Close(); err != nil {
		return fmt.Errorf("kv: open %s: %w", s.Dir, err)
	}
	if err := s.checkSidecar(next); err != nil {
		return err
	}
	s.lastSeq.Store(next - 1)
	s.durableSeq.Store(next - 1)
	return nil
}

// unlockedFS is a file system on which Pebble takes no lock: the store has one.
type unlockedFS struct{ vfs.FS }

// Lock implements vfs.FS.
func (unlockedFS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// The locks of this process, by directory. The operating system's locks are the process's, not a handle's, and are
// gone when any handle of the file is closed.
var locks = struct {
	mu      sync.Mutex
	writers map[string]bool
	readers map[string]*readerLock
}{writers: make(map[string]bool), readers: make(map[string]*readerLock)}

type readerLock struct {
	stores int
	file   io.Closer
}

// LockShared locks a store's directory against writers. The error is ErrLocked if a writer has it.
func LockShared(fsys vfs.FS, dir string) (unlock func() error, err error) {
	if fsys != vfs.Default {
		if p, ok := fsys.(privateFS); !ok || p.FS != vfs.Default {
			l, err := pebble.LockDirectory(dir, fsys)
			if err != nil {
				return nil, lockError(dir, err)
			}
			return l.Close, nil
		}
	}
	locks.mu.Lock()
	defer locks.mu.Unlock()
	if locks.writers[dir] {
		return nil, fmt.Errorf("%w, by this process: %s", ErrLocked, dir)
	}
	l := locks.readers[dir]
	if l == nil {
		file, err := lockFileShared(fsys.PathJoin(dir, "LOCK"))
		if err != nil {
			return nil, lockError(dir, err)
		}
		l = &readerLock{file: file}
		locks.readers[dir] = l
	}
	l.stores++
	return func() error {
		locks.mu.Lock()
		defer locks.mu.Unlock()
		if l.stores--; l.stores > 0 {
			return nil
		}
		delete(locks.readers, dir)
		return l.file.Close()
	}, nil
}

// lockAlone locks a store's directory for a writer.
func (s *Store) lockAlone(fsys vfs.FS) error {
	own := s.opts.FS == vfs.Default
	locks.mu.Lock()
	defer locks.mu.Unlock()
	if own && locks.readers[s.Dir] != nil {
		return fmt.Errorf("%w, by this process: %s", ErrLocked, s.Dir)
	}
	l, err := pebble.LockDirectory(s.Dir, fsys)
	if err != nil {
		return lockError(s.Dir, err)
	}
	if own {
		locks.writers[s.Dir] = true
	}
	s.dirLock = l
	s.unlock = func() error {
		locks.mu.Lock()
		defer locks.mu.Unlock()
		if own {
			delete(locks.writers, s.Dir)
		}
		return l.Close()
	}
	return nil
}

func lockError(dir string, err error) error {
	if isLockHeld(err) {
		return fmt.Errorf("%w, by %s: %s", ErrLocked, lockHolder(err), dir)
	}
	return fmt.Errorf("kv: lock %s: %w", dir, err)
}

// Examine finds out what is left of the store in dir, see package remains. Until done is called, no writer can open
// the store.
func Examine(o Options, dir string, examine func(fsys vfs.FS, dir string) error) (done func() error, err error) {
	s := &Store{opts: o}
	if s.Dir, err = s.cleanDir(dir); err != nil {
		return nil, err
	}
	if err := s.refuseUnfinished(s.fileSystem()); err != nil {
		return nil, err
	}
	done, err = LockShared(s.fileSystem(), s.Dir)
	if err != nil {
		return nil, err
	}
	if err := examine(s.fileSystem(), s.Dir); err != nil {
		return nil, errors.Join(err, done())
	}
	return done, nil
}
