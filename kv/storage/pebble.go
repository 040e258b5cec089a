package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/freeze"
)

// Pebble's options, and the adapters from its interfaces to ours.

// level0Stop is how deep level 0 may be before commits wait for compactions.
const level0Stop = 12

// What Store.stalled says of a commit that Pebble has wait: that there is one, and that it
// waits for level 0, not just for a flush. Only the former is Pebble's to say.
const (
	stalled         = 1
	stalledByLevel0 = 2
)

// tableBlockSize holds one dense block of 8 KiB with room for a neighbour.
const tableBlockSize = 16 << 10

func (s *Store) pebbleOptions() *pebble.Options {
	logger := &pebbleLogger{s}
	po := &pebble.Options{
		FS: s.Files,
		// Versions before the newest write a log in which one flipped bit can
		// drop everything behind it without an error.
		FormatMajorVersion: pebble.FormatNewest,
		CacheSize:          s.opts.TableCacheSize,
		MemTableSize:       uint64(s.opts.MemTableSize),
		// One memtable is filled, one is flushed, and one may wait for that: more would be
		// more memory than a store is said to take.
		MemTableStopWritesThreshold: 3,
		// When a memtable is full its log is synced while every commit waits. The disk
		// is given the log bit by bit, so that little is left for then.
		WALBytesPerSync:       512 << 10,
		Logger:                logger,
		Merger:                merger,
		L0CompactionThreshold: 4,
		L0StopWritesThreshold: level0Stop,
		// Collecting them is begun while Pebble opens, and panics in a goroutine of its own if a later step of
		// opening fails. What they are good for, giving back the space of deleted ranges, Reclaim does.
		DisableTableStats: true,
		EventListener: &pebble.EventListener{
			BackgroundError: s.backgroundError,
			WriteStallBegin: func(pebble.WriteStallBeginInfo) { s.stall.Lock(); s.stalled.Store(stalled) },
			WriteStallEnd:   func() { s.stalled.Store(0); s.stall.Unlock() },
			DataCorruption: func(info pebble.DataCorruptionInfo) {
				s.opts.Logger.Error("sievekv: corrupt table", "dir", s.Dir, "path", info.Path, "error", info.Details.Error())
			},
		},
	}
	for i := range po.Levels {
		po.Levels[i].BlockSize = tableBlockSize
	}
	// Dense blocks are noise and do not compress; sparse ones already are.
	po.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
	return po
}

// merger folds operands. Its name is stored and must never change.
var merger = &pebble.Merger{
	Name: block.MergerName,
	Merge: func(_, value []byte) (pebble.ValueMerger, error) {
		return &valueMerger{block.NewMerger(value)}, nil
	},
}

// valueMerger gives Pebble a merge that never errs: one that does makes flushes fail for ever, also after a reopen.
type valueMerger struct{ *block.Merger }

func (m *valueMerger) MergeNewer(value []byte) error { m.Merger.MergeNewer(value); return nil }
func (m *valueMerger) MergeOlder(value []byte) error { m.Merger.MergeOlder(value); return nil }

// Finish does not look at includesBase: it can be true without the base.
func (m *valueMerger) Finish(bool) ([]byte, io.Closer, error) { return m.Merger.Finish(), nil, nil }

// backgroundError counts Pebble's failed flushes and compactions, which it
// repeats without a pause, and logs one in a while.
func (s *Store) backgroundError(err error) {
	if errors.Is(err, freeze.ErrGivenUp) {
		return
	}
	n := s.stats.backgroundErrors.Add(1)
	if n&(n-1) == 0 {
		s.opts.Logger.Warn("sievekv: flush or compaction failed, Pebble will try again", "dir", s.Dir, "error", plainError{err}.Error(), "times", n)
	}
}

// mayCompact reports whether Pebble may begin a compaction. In a failed store what it writes would be of no use, and
// in memory: see freeze.FS. But a commit that waits for level 0 to shrink has to end, as Close waits for it.
func (s *Store) mayCompact() bool {
	return s.failure() == nil && !s.givenUp() || s.stalled.Load() == stalledByLevel0
}

// givenUp reports whether the compactions that are under way are to end before they make another table: Close does
// not wait for one that was asked for, which may be of the whole store. But a commit that waits has to end.
func (s *Store) givenUp() bool { return s.gaveUp.Load() && s.stalled.Load() == 0 }

// mustSpare reports whether compactions are to leave what room there is on the disk. A
// failed store takes none. A commit that waits may wait for one, and others wait for it.
func (s *Store) mustSpare() bool {
	return s.failure() == nil && s.stalled.Load() == 0 && s.Space.Full()
}

// startCompactions starts those that wait. Pebble's mutex is not held.
func (s *Store) startCompactions() {
	if s.failure() != nil && s.stalled.Load() == stalled && s.disk.Metrics().Levels[0].Sublevels >= level0Stop {
		s.stalled.CompareAndSwap(stalled, stalledByLevel0)
	}
	s.scheduler.grant()
}

// pebbleLogger passes Pebble's errors on and keeps its Fatalf from ending the host program: the store fails instead.
// The freezing of the directory makes that unreachable as far as is known.
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
