package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/dirsync"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/freeze"
	"github.com/sievekv/sievekv/internal/storage/files"
	"github.com/sievekv/sievekv/internal/text"
)

// Open opens the store in dir, or creates it. The errors are ErrLocked, ErrNotExist, ErrUnfinished, ErrStray, format.ErrUnsupportedVersion,
// format.ErrCorrupt, ErrFailed and errors of the file system.
func Open(dir string, opts Options) (*Store, error) {
	begin := time.Now()
	for {
		s, err := openStore(dir, opts)
		if !errors.Is(err, ErrLocked) || time.Since(begin) >= opts.LockTimeout {
			return s, err
		}
		time.Sleep(min(lockPause, opts.LockTimeout))
	}
}

// lockPause is the time between two attempts to lock a store that another has.
const lockPause = 50 * time.Millisecond

func openStore(dir string, opts Options) (*Store, error) {
	s := &Store{
		opts: opts, descriptors: shareOf(descriptorLimit()),
		pending: pending{begun: make(chan struct{}, 1), many: make(chan struct{}, 1)},
		stop:    make(chan struct{}), relief: make(chan struct{}), reliefEnded: make(chan struct{}),
	}
	var err error
	if s.Dir, err = s.cleanDir(dir); err != nil {
		return nil, err
	}
	s.DescriptorLimit = s.descriptors.limit
	if !opts.InMemory {
		s.DescriptorNeed = s.descriptors.need()
	}
	if err := s.refuseUnfinished(s.fileSystem()); err != nil {
		return nil, err
	}
	if err := s.refuseStrayMarkers(s.fileSystem()); err != nil {
		return nil, err
	}
	s.ending, s.end = context.WithCancel(context.Background())
	if opts.ReadOnly {
		if err := s.openReadOnly(); err != nil {
			return nil, err
		}
		s.loops.Go(s.watchGround)
		return s, nil
	}
	if err := s.open(); err != nil {
		return nil, s.unsynced(s.unwritable(err))
	}
	s.shrinkBallast()
	s.loops.Go(s.watchGround)
	s.loops.Add(2)
	go s.backgroundLoop()
	go s.flushLoop()
	return s, nil
}

// unwritable adds a hint to an error of opening a store, if the store is there and cannot be written.
func (s *Store) unwritable(err error) error {
	if !errors.Is(err, syscall.EROFS) && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if desc, perr := pebble.Peek(s.Dir, s.opts.FS); perr != nil || !desc.Exists {
		return err
	}
	return fmt.Errorf("%w; a store that cannot be written can be read with Options.ReadOnly", err)
}

// unsynced adds to an error of opening a store that its file system cannot sync directories, if it cannot. Pebble syncs the
// directory whenever it makes a file that a store cannot do without, and gives up if that fails.
func (s *Store) unsynced(err error) error {
	if !dirsync.Unsupported(err) {
		return err
	}
	dir, fsys := s.Dir, s.opts.FS // or what there is above it, if that could not be made durable
	for _, err := fsys.Stat(dir); err != nil && fsys.PathDir(dir) != dir; _, err = fsys.Stat(dir) {
		dir = fsys.PathDir(dir)
	}
	if !dirsync.Unsupported(dirsync.Strict(fsys, dir)) {
		return err // it is something else that the file system lacks, such as locks
	}
	return fmt.Errorf("%w; the file system cannot sync directories, so a crash could take files of a store away: put the store on another", err)
}

// cleanDir returns the one spelling of a store's directory.
func (s *Store) cleanDir(dir string) (string, error) {
	switch {
	case s.opts.InMemory:
		return "memory", nil
	case s.opts.FS == vfs.Default:
		return realDir(dir)
	}
	return s.opts.FS.PathDir(s.opts.FS.PathJoin(dir, "x")), nil
}

// open locks the directory, opens Pebble and reads the metadata. If it fails it closes everything again.
func (s *Store) open() (err error) {
	fsys := s.fileSystem()
	if err := s.refuseParts(fsys); err != nil {
		return err
	}
	if err := s.lockDir(fsys); err != nil {
		return err
	}
	fsys = groundFS{fsys, s.ground}
	if err := s.refuseForeign(fsys); err != nil {
		return errors.Join(err, s.ground.Close())
	}
	if err := s.refuseStrays(fsys); err != nil {
		return errors.Join(err, s.ground.Close())
	}
	if err := s.removeArchives(fsys); err != nil {
		return errors.Join(err, s.ground.Close())
	}
	low := uint64(max(0, s.opts.MinFreeSpace))
	s.ballast.Store(minBallast)
	s.Space = freeze.NewSpace(fsys, s.Dir, freeze.Options{
		Ballast: max(0, s.opts.BallastSize), Wanted: s.ballast.Load,
		Low: low, High: low + low/2, Floor: low / 4,
		Interval: s.opts.FreeSpaceInterval, Logger: s.opts.Logger,
	})
	s.Space.Start()
	s.Files = freeze.New(s.Space.FS(), s.Dir, s.frozen)
	s.Files.KeepCompactions(s.mayCompact)
	s.Files.GiveUpCompactions(s.givenUp)
	s.guardDescriptors()
	defer func() {
		// On a frozen directory, Open can seem to succeed.
		if f := s.failure(); f != nil {
			err = f
		}
		if err != nil {
			err = errors.Join(err, s.closeAll())
		}
	}()
	if err := s.openPebble(); err != nil {
		return err
	}
	fresh, err := s.readMeta()
	if err != nil {
		return err
	}
	if !fresh {
		return s.join()
	}
	s.Fresh = true
	// Pebble writes the first log of a new database in the oldest format, whatever format is asked for. So that log
	// gets the metadata alone, and Pebble is opened once more.
	if err := s.writeMeta(); err != nil {
		return err
	}
	if err := s.closePebble(); err != nil {
		return err
	}
	if err := s.openPebble(); err != nil {
		return err
	}
	if fresh, err := s.readMeta(); err != nil || fresh {
		return errors.Join(err, s.failure(), errors.New("kv: a new store's metadata is gone at once"))
	}
	return s.join()
}

// lockDir makes the directory if it is missing, and locks it.
func (s *Store) lockDir(fsys vfs.FS) (err error) {
	desc, err := pebble.Peek(s.Dir, fsys)
	switch {
	case err == nil && desc.Exists, !s.opts.MustExist:
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s", ErrNotExist, s.Dir)
	default:
		return openError(s.Dir, err)
	}
	if err := dirsync.Make(fsys, s.Dir, dirsync.Strict); err != nil {
		return text.After(err, "kv: create %s", s.Dir)
	}
	s.ground, err = takeGround(fsys, s.Dir, true)
	return err
}

// realDir returns the real name of a directory, which need not exist yet.
func realDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", text.After(err, "kv: directory %s", dir)
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

// openError tells what kind of error Pebble's is. Errors that the operating system did not report are about the
// contents of files; so is a missing file.
func openError(dir string, err error) error {
	errno := syscall.Errno(0)
	system := errors.As(err, &errno) || errors.Is(err, io.ErrShortWrite)
	err = plainError{err}
	switch {
	case errors.Is(err, freeze.ErrVersion), strings.Contains(err.Error(), "unknown format major version"):
		err = fmt.Errorf("%w: %w", format.ErrUnsupportedVersion, err)
	case pebble.IsCorruptionError(err), !system, errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w: %w", format.ErrCorrupt, err)
	}
	return text.After(err, "kv: open %s", dir)
}

func (s *Store) openPebble() error {
	if err := s.Files.Verify(); err != nil {
		return openError(s.Dir, err)
	}
	if err := s.measureLog(); err != nil {
		return err
	}
	po := s.pebbleOptions()
	compactions := s.newScheduler()
	po.EventListener.BackgroundError = func(err error) {
		if pebble.IsCorruptionError(err) {
			compactions.metDamage()
		}
		s.backgroundError(err)
	}
	po.Experimental.CompactionScheduler = compactions
	po.FileCache = s.newFileCache()
	defer po.FileCache.Unref() // Pebble has a reference of its own
	p, err := pebble.Open(s.Dir, po)
	if err != nil {
		return openError(s.Dir, err)
	}
	s.disk, s.scheduler = p, compactions
	compactions.start()
	return nil
}

func (s *Store) closePebble() error {
	if s.disk == nil {
		return nil
	}
	err := s.disk.Close()
	s.disk = nil
	return err
}

// trimLogs gives back the blocks that logs have beyond their ends: a log gets them ahead of what is written, see
// package freeze. Truncating a file to the length that it has changes nothing else. Errors do not count: the next open
// uses the blocks, or they go with the log.
func (s *Store) trimLogs() {
	if s.opts.FS != vfs.Default {
		return
	}
	names, _ := s.opts.FS.List(s.Dir)
	for _, name := range names {
		path := s.opts.FS.PathJoin(s.Dir, name)
		if info, err := os.Lstat(path); err == nil && files.IsLog(name) && info.Mode().IsRegular() {
			_ = os.Truncate(path, info.Size())
		}
	}
}

// closeAll closes everything that open opened.
func (s *Store) closeAll() error {
	opened := s.disk != nil
	err := s.closePebble()
	if s.failure() != nil {
		err = nil // the failure is what the caller reports; errors after it say nothing new
	}
	s.Space.Close()
	s.Files.ReleaseDescriptors()
	if opened && err == nil && s.failure() == nil && !s.opts.ReadOnly {
		s.trimLogs()
	}
	return errors.Join(err, s.ground.Close())
}
