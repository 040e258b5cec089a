package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/freeze"
)

// Pebble's options, and the adapters from its interfaces to ours.

// level0Stop is how many sublevels level 0 may have before commits wait for compactions. From level0Behind on,
// compactions are behind.
const (
	level0Stop   = 12
	level0Behind = level0Stop * 2 / 3
)

// The values of Store.stalled: 0, or that Pebble makes a commit wait, and then whether the commit waits for level 0
// and not just for a flush. Pebble reports only that a commit waits; startCompactions finds out the rest.
const (
	stalled         = 1
	stalledByLevel0 = 2
)

// tableBlockSize is the size of a block of a table: it holds one dense filter block of 8 KiB, and has room for a
// neighbour.
const tableBlockSize = 16 << 10

func (s *Store) pebbleOptions() *pebble.Options {
	logger := &pebbleLogger{s}
	s.Damage.FS, s.Damage.files = s.Files, make(map[string]map[int64]error)
	s.backups.FS = &s.Damage
	po := &pebble.Options{
		FS: &s.backups,
		// Pebble's older formats have a log in which one flipped bit can drop everything behind it without an error.
		FormatMajorVersion: pebble.FormatNewest,
		CacheSize:          s.opts.TableCacheSize,
		MemTableSize:       uint64(s.opts.MemTableSize),
		// One memtable is being filled, one is being flushed, and one may wait to be flushed. More would take more
		// memory than a store is documented to take.
		MemTableStopWritesThreshold: 3,
		// When a memtable is full Pebble syncs its log while every commit waits. The log goes to the disk in small
		// portions before, so that little is left to sync then.
		WALBytesPerSync:       512 << 10,
		Logger:                logger,
		Merger:                merger,
		L0CompactionThreshold: 4,
		L0StopWritesThreshold: level0Stop,
		// Pebble begins to collect table statistics while it opens, and panics in a goroutine of its own if a later
		// step of opening fails. Pebble needs them to give back the space of deleted ranges; Reclaim does that here.
		DisableTableStats: true,
		EventListener: &pebble.EventListener{
			BackgroundError: s.backgroundError,
			WriteStallBegin: func(pebble.WriteStallBeginInfo) { s.stall.Lock(); s.stalled.Store(stalled) },
			WriteStallEnd:   func() { s.stalled.Store(0); s.stall.Unlock() },
			DataCorruption:  s.corruptTable,
		},
	}
	for i := range po.Levels {
		po.Levels[i].BlockSize = tableBlockSize
	}
	// Dense blocks are noise, which does not compress. Sparse blocks are compact already.
	po.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
	return po
}

// merger merges operands into blocks. Its name is stored and must never change.
var merger = &pebble.Merger{
	Name: block.MergerName,
	Merge: func(_, value []byte) (pebble.ValueMerger, error) {
		return &valueMerger{block.NewMerger(value)}, nil
	},
}

// valueMerger adapts block.Merger to Pebble. It never returns an error: with one, flushes would fail for ever, also
// after a reopen.
type valueMerger struct{ *block.Merger }

func (m *valueMerger) MergeNewer(value []byte) error { m.Merger.MergeNewer(value); return nil }
func (m *valueMerger) MergeOlder(value []byte) error { m.Merger.MergeOlder(value); return nil }

// Finish ignores includesBase, which can be true when the base is not there.
func (m *valueMerger) Finish(bool) ([]byte, io.Closer, error) { return m.Merger.Finish(), nil, nil }

// backgroundError counts the flushes and compactions that failed. Pebble repeats them without a pause, so only every
// error whose number is a power of two is logged.
func (s *Store) backgroundError(err error) {
	if errors.Is(err, freeze.ErrGivenUp) {
		return
	}
	n := s.stats.backgroundErrors.Add(1)
	if n&(n-1) == 0 {
		s.opts.Logger.Warn("sievekv: flush or compaction failed, Pebble will try again", "dir", s.Dir, "error", plainError{err}.Error(), "times", n)
	}
}

// mayCompact reports whether Pebble may begin a compaction. A failed store begins none: its tables would be of no
// use, and would be kept in memory (see freeze.FS). The exception is a commit that waits for level 0 to shrink: that
// commit has to end, because Close waits for it.
func (s *Store) mayCompact() bool {
	return s.failure() == nil && !s.givenUp() || s.stalled.Load() == stalledByLevel0
}

// givenUp reports whether running compactions must end before they make another table. Close gives them up because
// Compact may have asked for one of the whole store. They go on while a commit waits, because that commit has to end.
func (s *Store) givenUp() bool { return s.gaveUp.Load() && s.stalled.Load() == 0 }

// mustSpare reports whether compactions must not use the disk, because it is full. A failed store writes nothing to the
// disk, so it need not. Neither need it while a commit waits: that commit may need a compaction to go on, and other
// commits wait for it.
func (s *Store) mustSpare() bool {
	return s.failure() == nil && s.stalled.Load() == 0 && s.Space.Full()
}

// startCompactions starts compactions that wait. The caller does not hold Pebble's mutex.
func (s *Store) startCompactions() {
	if s.failure() != nil && s.stalled.Load() == stalled && s.disk.Metrics().Levels[0].Sublevels >= level0Stop {
		s.stalled.CompareAndSwap(stalled, stalledByLevel0)
	}
	s.scheduler.grant()
}

// pebbleLogger passes Pebble's errors on. Its Fatalf fails the store, where Pebble's own would end the host program.
// As far as is known Fatalf is never called, because the directory is frozen before.
type pebbleLogger struct{ s *Store }

func (l *pebbleLogger) Infof(format string, args ...any) {
	if l.s.opts.Logger.Enabled(context.Background(), slog.LevelDebug) {
		l.s.opts.Logger.Debug("pebble: "+fmt.Sprintf(format, args...), "dir", l.s.Dir)
	}
}

func (l *pebbleLogger) Errorf(format string, args ...any) {
	l.s.backgroundError(fmt.Errorf(format, args...))
}

func (l *pebbleLogger) Fatalf(format string, args ...any) {
	_ = l.s.Fail(fmt.Errorf("pebble: "+format, args...))
}
