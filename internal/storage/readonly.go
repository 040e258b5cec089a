package storage

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/freeze"
	"github.com/sievekv/sievekv/internal/storage/remains"
	"github.com/sievekv/sievekv/internal/text"
)

// A store that is open read-only changes no file. Pebble reads the log into memory, and flushes nothing. Any number of
// processes can read a store, or one can write to it, see ground.go. On a file system other than the operating
// system's, a reader has the store alone, too.

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
	if s.ground, err = takeGround(fsys, s.Dir, false); err != nil {
		return err
	}
	under := fsys
	fsys = groundFS{fsys, s.ground}
	if err := s.refuseStrays(fsys); err != nil {
		return errors.Join(err, s.ground.Close())
	}
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
	if _, isLeft := under.(*remains.FS); !isLeft {
		if err := s.measureLog(); err != nil {
			return err
		}
	}
	po := s.pebbleOptions()
	po.ReadOnly = true
	_, po.DisableConsistencyCheck = under.(*remains.FS) // the rest of a table has another size
	compactions := s.newScheduler()
	po.Experimental.CompactionScheduler = compactions
	po.FileCache = s.newFileCache()
	defer po.FileCache.Unref() // Pebble has a reference of its own
	if s.disk, err = pebble.Open(s.Dir, po); err != nil {
		return openError(s.Dir, err)
	}
	s.scheduler = compactions
	compactions.start()
	return s.readMetaReadOnly(under)
}

func (s *Store) readMetaReadOnly(fsys vfs.FS) error {
	value, err := s.readIdentity()
	if err != nil {
		return err
	}
	left, isLeft := fsys.(*remains.FS)
	if isLeft && value == nil {
		id, known := left.Identity()
		if !known && !left.HasLost(format.AppendMetaKey(nil, format.MetaStore)) {
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
		return text.After(err, "kv: open %s", s.Dir)
	}
	if isLeft { // its log was compared with the sidecar already
		left.Belongs(s.Meta.ID)
	} else if _, err := s.checkSidecar(next); err != nil {
		return err
	}
	s.lastSeq.Store(next - 1)
	s.durableSeq.Store(next - 1)
	return nil
}

// Examine finds out what remains of the store in dir, see package remains. Until done is called, no writer can open the
// store.
func Examine(o Options, dir string, examine func(fsys vfs.FS, dir string) error) (done func() error, err error) {
	s := &Store{opts: o}
	if s.Dir, err = s.cleanDir(dir); err != nil {
		return nil, err
	}
	if err := s.refuseUnfinished(s.fileSystem()); err != nil {
		return nil, err
	}
	if s.ground, err = takeGround(s.fileSystem(), s.Dir, false); err != nil {
		return nil, err
	}
	if err := examine(s.fileSystem(), s.Dir); err != nil {
		return nil, errors.Join(err, s.ground.Close())
	}
	return s.ground.Close, nil
}
