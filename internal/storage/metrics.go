package storage

import (
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// stats are what Metrics reads.
type stats struct{ syncs, syncNanos, flushedBytes, backgroundErrors atomic.Uint64 }

// synced counts a sync of the log for which a goroutine has waited since begin.
func (s *stats) synced(begin time.Time) {
	s.syncs.Add(1)
	s.syncNanos.Add(uint64(time.Since(begin)))
}

// Metrics are counts since Open, and the present state of the files.
type Metrics struct {
	Syncs           uint64        // of the log
	SyncTime        time.Duration // for which syncs were waited for
	FlushedBytes    uint64        // of commits that were pending
	LastSequence    uint64
	DurableSequence uint64

	DiskBytes        uint64 // of all files but the ballast and obsolete tables
	TableBytes       uint64
	LogBytes         uint64 // of the logs on disk
	LogBytesIn       uint64 // of commits since Open
	LogBytesWritten  uint64 // the same with the log's framing
	MemTableBytes    uint64
	Flushes          int64
	TableCompactions int64
	CompactionDebt   uint64 // bytes
	ReadAmp          int    // tables that a read may have to look at
	Behind           bool   // compactions of tables are behind: a commit waits, or soon will
	BackgroundErrors uint64
	DamagedBlocks    int // see badBlocks.Count
	DamagedReads     uint64
	Levels           []LevelMetrics // the newest data first
}

// LevelMetrics describe one level of tables.
type LevelMetrics struct {
	Tables int64
	Bytes  int64
	Fill   float64 // share of the level's target size; above 1 the level waits to be compacted
}

// Metrics returns the store's metrics.
func (s *Store) Metrics() Metrics {
	p := s.disk.Metrics()
	durable := s.durableSeq.Load() // read before lastSeq, so that it does not exceed that
	m := Metrics{
		Syncs: s.stats.syncs.Load(), SyncTime: time.Duration(s.stats.syncNanos.Load()), FlushedBytes: s.stats.flushedBytes.Load(),
		DurableSequence: durable, LastSequence: s.lastSeq.Load(),
		DiskBytes: diskUsage(p), TableBytes: p.Table.Local.LiveSize, LogBytes: logSize(p),
		LogBytesIn: p.WAL.BytesIn, LogBytesWritten: p.WAL.BytesWritten,
		MemTableBytes: p.MemTable.Size, Flushes: p.Flush.Count, TableCompactions: p.Compact.Count,
		Behind:         s.stalled.Load() != 0 || p.Levels[0].Sublevels >= level0Behind,
		CompactionDebt: p.Compact.EstimatedDebt, ReadAmp: p.ReadAmp(), BackgroundErrors: s.stats.backgroundErrors.Load(),
	}
	m.DamagedBlocks, m.DamagedReads = s.Damage.Count()
	for i := range p.Levels {
		l := &p.Levels[i]
		m.Levels = append(m.Levels, LevelMetrics{Tables: l.TablesCount, Bytes: l.TablesSize, Fill: l.CompensatedFillFactor})
	}
	return m
}

// diskUsage returns the bytes of all files that Pebble knows, except obsolete tables.
func diskUsage(m *pebble.Metrics) uint64 {
	all := m.DiskSpaceUsage() - m.WAL.PhysicalSize - m.WAL.ObsoletePhysicalSize + logSize(m)
	return all - min(all, m.Table.Local.ObsoleteSize+m.Table.Local.ZombieSize)
}

// logSize returns the bytes of all logs, those kept for reuse included. Pebble knows the physical size of a log only
// once the log is closed.
func logSize(m *pebble.Metrics) uint64 {
	return max(m.WAL.Size, m.WAL.PhysicalSize) + m.WAL.ObsoletePhysicalSize
}

// minBallast is the smallest size of a ballast, in bytes.
const minBallast = 1 << 20

// sizeBallast raises the size of the ballast as the store grows.
func (s *Store) sizeBallast() {
	if size := s.ballastWanted(); size > s.ballast.Load() {
		s.ballast.Store(size)
	}
}

// shrinkBallast makes the ballast smaller if it is more than twice as large as the store needs. It is called when a store
// has been opened, and after a compaction.
func (s *Store) shrinkBallast() {
	size := s.ballastWanted()
	if s.Space.Ballast() > 2*size {
		s.ballast.Store(size)
		s.Space.Shrink()
	}
}

// ballastWanted returns the size of a ballast for what is stored.
func (s *Store) ballastWanted() int64 {
	m := s.disk.Metrics()
	size := int64(minBallast)
	for need := int64(m.Table.Local.LiveSize + m.WAL.Size); size < need && size < s.opts.BallastSize; {
		size *= 2
	}
	return size
}
