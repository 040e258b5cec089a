package raftlog

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv/internal/dirsync"
	"github.com/sievekv/sievekv/internal/freeze"
)

// Open opens the log in a directory, or makes one if the directory is empty or missing. It reads the whole log and checks it.
// The errors are ErrLocked, ErrNotExist, ErrForeign, ErrDamaged, ErrVersion, ErrFailed and errors of the file system.
func Open(dir string, opts Options) (*Log, error) {
	opts = opts.withDefaults()
	fsys := opts.FS
	l := &Log{dir: fsys.PathDir(fsys.PathJoin(dir, "x")), opts: opts, recent: recent{most: opts.Recent}, marks: map[string][]byte{}}
	l.reclaiming.wake = make(chan struct{}, 1)
	l.reclaiming.ctx, l.reclaiming.end = context.WithCancel(context.Background())
	if err := l.open(); err != nil {
		return nil, openError(l.dir, err)
	}
	l.reclaiming.running.Go(l.reclaimLoop)
	return l, nil
}

// openError adds the name of the log to an error.
func openError(dir string, err error) error {
	if errors.Is(err, freeze.ErrDamaged) || pebble.IsCorruptionError(err) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if errors.Is(err, freeze.ErrVersion) {
		err = fmt.Errorf("%w: %w", ErrVersion, err)
	}
	return fmt.Errorf("open %s: %w", dir, err)
}

// open locks the directory, opens Pebble and reads the log. If it fails it closes everything again.
func (l *Log) open() (err error) {
	fsys := l.opts.FS
	if err := l.makeDir(); err != nil {
		return err
	}
	if l.lock, err = pebble.LockDirectory(l.dir, fsys); err != nil {
		return fmt.Errorf("%w: %w", ErrLocked, err)
	}
	l.space = freeze.NewSpace(fsys, l.dir, l.opts.Space)
	l.files = freeze.New(l.space.FS(), l.dir, l.frozen)
	l.files.KeepCompactions(func() bool { return true }) // the terms of the entries that the log has, and then no more
	defer func() {
		if failed := l.Failed(); failed != nil { // in a frozen directory, Open can seem to succeed
			err = failed
		}
		if err != nil {
			err = l.closeAll(err)
		}
	}()
	least, err := l.findSynced()
	if err != nil {
		return err
	}
	l.space.Start()
	if err := l.synced.open(l.space.FS(), l.dir); err != nil {
		return err
	}
	if err := l.openPebble(); err != nil {
		return err
	}
	return l.load(least)
}

// makeDir makes the directory, if it may.
func (l *Log) makeDir() error {
	if _, err := l.opts.FS.Stat(l.dir); err != nil && l.opts.MustExist {
		return fmt.Errorf("%w: %w", ErrNotExist, err)
	}
	return dirsync.Make(l.opts.FS, l.dir, dirsync.Strict)
}

// findSynced returns the number of the last batch that the log must have. It makes the file for a new log.
func (l *Log) findSynced() (least uint64, err error) {
	least, missing, err := l.synced.read(l.opts.FS, l.dir)
	if err != nil {
		return 0, err
	}
	desc, err := pebble.Peek(l.dir, l.opts.FS)
	switch {
	case err != nil:
		return 0, err
	case missing:
		return 0, l.makeSynced()
	case !desc.Exists && least > 0:
		return 0, damagef("the directory has no log, and file %s says that there was one, of %d batches", syncedName, least)
	case least == 0 && l.opts.MustExist:
		return 0, fmt.Errorf("%w: it was never made to the end", ErrNotExist)
	}
	return least, nil
}

// makeSynced makes the file of a new log. There must be nothing else in the directory.
func (l *Log) makeSynced() error {
	names, err := l.opts.FS.List(l.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name != "LOCK" && name != syncedName+".tmp" && !strings.HasPrefix(name, freeze.BallastName) {
			return fmt.Errorf("%w: it has a file %s, and no file %s, which a log has from the first", ErrForeign, name, syncedName)
		}
	}
	if l.opts.MustExist {
		return fmt.Errorf("%w: the directory is empty", ErrNotExist)
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	l.synced.id = binary.LittleEndian.Uint64(id[:])
	return createSynced(l.space.FS(), l.dir, l.synced.id)
}

func (l *Log) openPebble() (err error) {
	if err := l.files.Verify(); err != nil {
		return err
	}
	l.disk, err = pebble.Open(l.dir, l.pebbleOptions())
	return err
}

// load reads the log, or makes a new one. Least is the number of the last batch that it must have.
func (l *Log) load(least uint64) error {
	fresh, err := l.readState(least)
	if err != nil {
		return err
	}
	if fresh {
		// Pebble writes the first log of a new database in its oldest format, in which a flipped bit may go unnoticed. So that
		// log gets the first batch alone, and Pebble is opened once more.
		if err := l.Append(nil, nil, true); err != nil {
			return err
		}
		if err := l.closePebble(); err != nil {
			return err
		}
		if err := l.openPebble(); err != nil {
			return err
		}
		if fresh, err = l.readState(1); fresh || err != nil {
			return errors.Join(err, damagef("the first batch is gone at once"))
		}
	}
	if err := l.readMarks(); err != nil {
		return err
	}
	if err := l.readLog(); err != nil {
		return err
	}
	if err := l.Append(nil, nil, true); err != nil { // what recovery found is on stable storage from here on
		return err
	}
	return l.synced.file.Sync()
}

// readState reads the newest state record. Fresh means that the log has none, and never had.
func (l *Log) readState(least uint64) (fresh bool, err error) {
	it, err := l.disk.NewIter(&pebble.IterOptions{LowerBound: []byte{tagEntry}, UpperBound: []byte{tagEntry + 1}})
	if err != nil {
		return false, err
	}
	some := it.Last()
	if some {
		l.state, err = readStateAt(it)
	}
	if err = errors.Join(err, it.Error(), it.Close()); err != nil {
		return false, readError(err, "the state record")
	}
	if !some && least == 0 {
		return true, l.checkEmpty()
	}
	if some && l.state.id != l.synced.id {
		return false, damagef("the newest record is of log %x, file %s of log %x", l.state.id, syncedName, l.synced.id)
	}
	if l.state.batch < least {
		return false, damagef("the log ends with batch %d, but batch %d was on stable storage: the end of the log is lost", l.state.batch, least)
	}
	return false, nil
}

// readStateAt reads the state record that an iterator is at.
func readStateAt(it *pebble.Iterator) (s state, err error) {
	if !isStateKey(it.Key()) {
		return s, damagef("the last record, of key %x, is not a state record", it.Key())
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return s, err
	}
	if s, err = decodeState(value); err == nil && !bytes.Equal(it.Key(), appendStateKey(nil, s)) {
		err = damagef("the state record of batch %d is under key %x", s.batch, it.Key())
	}
	return s, err
}

// checkEmpty returns an error if there are records without a state record.
func (l *Log) checkEmpty() error {
	it, err := l.disk.NewIter(nil)
	if err != nil {
		return err
	}
	some := it.First()
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return readError(err, "the first record")
	}
	if some {
		return damagef("there are records, but no state record")
	}
	return nil
}

func (l *Log) readMarks() error {
	it, err := l.disk.NewIter(&pebble.IterOptions{LowerBound: []byte{tagMark}, UpperBound: []byte{tagMark + 1}})
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var value []byte
		if value, err = it.ValueAndErr(); err == nil {
			name := string(it.Key()[1:])
			l.marks[name], err = decodeMark(name, value)
		}
	}
	if err = errors.Join(err, it.Error(), it.Close()); err != nil {
		return readError(err, "the marks")
	}
	if marksCRC(l.marks) != l.state.marks {
		return damagef("the marks are not those that were set")
	}
	return nil
}

// readLog reads all entries, and checks that they lead from the base to the last entry.
func (l *Log) readLog() error {
	s := &l.state
	it, err := l.disk.NewIter(&pebble.IterOptions{LowerBound: appendEntryKey(nil, s.base.index+1), UpperBound: appendEntryKey(nil, s.last.index+1)})
	if err != nil {
		return err
	}
	w := walk{it: it, prev: s.base, last: s.last.index}
	for position := s.base.position; w.next(); position = w.prev.position {
		l.terms.addOne(w.prev.index, w.prev.term)
		if size := entrySize(len(w.value) - entryHeadLen); w.prev.position != position+size {
			w.err = damagef("entry %d of %d bytes ends at position %d, and begins at %d", w.prev.index, size, w.prev.position, position)
		}
	}
	if err := errors.Join(w.err, it.Close()); err != nil {
		return err
	}
	if w.prev != s.last {
		return damagef("entry %d is another one than the last that was appended", s.last.index)
	}
	return nil
}

func (l *Log) closePebble() error {
	if l.disk == nil {
		return nil
	}
	err := l.disk.Close()
	l.disk = nil
	return err
}

// closeAll closes everything that open opened, after err, which may be nil.
func (l *Log) closeAll(err error) error {
	failed := l.Failed()
	errs := []error{err, l.closePebble(), l.synced.close(err == nil && failed == nil)}
	if failed = l.Failed(); failed != nil {
		errs = []error{failed} // errors after it say nothing new
	}
	l.space.Close()
	return errors.Join(append(errs, l.lock.Close())...)
}

const (
	cacheSize    = 4 << 20
	maxOpenFiles = 100
)

func (l *Log) pebbleOptions() *pebble.Options {
	po := &pebble.Options{
		FS:   l.files,
		Lock: l.lock,
		// Pebble's older formats have a log in which one flipped bit can drop everything behind it without an error.
		FormatMajorVersion: pebble.FormatNewest,
		CacheSize:          cacheSize,
		MaxOpenFiles:       maxOpenFiles,
		MemTableSize:       uint64(l.opts.MemTableSize),
		// One memtable is being filled, one is being flushed, and two may wait.
		MemTableStopWritesThreshold: 4,
		// So that little is left to sync when a log ends.
		WALBytesPerSync: 512 << 10,
		Logger:          pebbleLogger{l},
		// Tables do not overlap, so many of them do no harm, and no append ever waits for a compaction.
		L0CompactionThreshold: 4,
		L0StopWritesThreshold: 1000,
		LBaseMaxBytes:         16 << 30, // one level more is enough
		// Pebble begins to collect table statistics while it opens, and panics in a goroutine of its own if a later step of
		// opening fails.
		DisableTableStats: true,
		EventListener: &pebble.EventListener{
			BackgroundError: l.backgroundError,
			DataCorruption:  func(info pebble.DataCorruptionInfo) { _ = l.fail(damagef("%s: %w", info.Path, info.Details)) },
		},
	}
	po.Experimental.DisableIngestAsFlushable = func() bool { return true } // see reclaim.go
	for i := range po.TargetFileSizes {
		po.TargetFileSizes[i] = int64(l.opts.MemTableSize)
	}
	po.CompactionConcurrencyRange = func() (lower, upper int) { return 1, 1 }
	// An entry is a few hashes, which do not compress.
	po.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
	return po
}

// backgroundError is called when a flush or a compaction has failed. Pebble would repeat it without end, and appends
// would hang once all memtables are full. A compaction that an excise has cancelled has not failed.
func (l *Log) backgroundError(err error) {
	if !errors.Is(err, pebble.ErrCancelledCompaction) {
		_ = l.fail(err)
	}
}

// pebbleLogger passes on what Pebble has to say. Its Fatalf ends the log, where Pebble's own would end the program.
type pebbleLogger struct{ l *Log }

func (p pebbleLogger) Infof(form string, args ...any) {
	if p.l.opts.Logger.Enabled(context.Background(), -4) {
		p.l.opts.Logger.Debug("pebble: "+fmt.Sprintf(form, args...), "dir", p.l.dir)
	}
}

func (p pebbleLogger) Errorf(form string, args ...any) {
	p.l.opts.Logger.Warn("pebble: "+fmt.Sprintf(form, args...), "dir", p.l.dir)
}

func (p pebbleLogger) Fatalf(form string, args ...any) {
	_ = p.l.fail(fmt.Errorf("pebble: "+form, args...))
}
