package storage

import "github.com/cockroachdb/pebble/v2"

// Metrics are counts since Open, and the present state.
type Metrics struct {
	Syncs           uint64 // of the log
	FlushedBytes    uint64 // of commits that were pending
	LastSequence    uint64
	DurableSequence uint64

	DiskBytes        uint64 // of all files but the reserve
	TableBytes       uint64
	LogBytes         uint64 // of the log now
	LogBytesIn       uint64 // of commits
	LogBytesWritten  uint64 // with the log's framing
	MemTableBytes    uint64
	Flushes          int64
	TableCompactions int64
	CompactionDebt   uint64 // bytes
	ReadAmp          int    // tables that a read may have to look at
	BackgroundErrors uint64
	Levels           []LevelMetrics // the newest first
}

// LevelMetrics are those of a level of tables.
type LevelMetrics struct {
	Tables int64
	Bytes  int64
	Fill   float64 // of the size the level is to have; above 1 it waits to be compacted
}

// Metrics returns the store's metrics.
func (s *Store) Metrics() Metrics {
	p := s.disk.Metrics()
	durable := s.durableSeq.Load() // before the last sequence, which it never exceeds
	m := Metrics{
		Syncs: s.stats.syncs.Load(), FlushedBytes: s.stats.flushedBytes.Load(),
		DurableSequence: durable, LastSequence: s.lastSeq.Load(),
		DiskBytes: diskUsage(p), TableBytes: p.Table.Local.LiveSize, LogBytes: logSize(p),
		LogBytesIn: p.WAL.BytesIn, LogBytesWritten: p.WAL.BytesWritten,
		MemTableBytes: p.MemTable.Size, Flushes: p.Flush.Count, TableCompactions: p.Compact.Count,
		CompactionDebt: p.Compact.EstimatedDebt, ReadAmp: p.ReadAmp(), BackgroundErrors: s.stats.backgroundErrors.Load(),
	}
	for i := range p.Levels {
		l := &p.Levels[i]
		m.Levels = append(m.Levels, LevelMetrics{Tables: l.TablesCount, Bytes: l.TablesSize, Fill: l.CompensatedFillFactor})
	}
	return m
}

// diskUsage is what all files take but tables that are obsolete.
func diskUsage(m *pebble.Metrics) uint64 {
	all := m.DiskSpaceUsage() - m.WAL.PhysicalSize - m.WAL.ObsoletePhysicalSize + logSize(m)
	return all - min(all, m.Table.Local.ObsoleteSize+m.Table.Local.ZombieSize)
}

// logSize is what logs take, with those that are kept to be used again. Pebble counts the
// physical size of one only once it is closed.
func logSize(m *pebble.Metrics) uint64 {
	return max(m.WAL.Size, m.WAL.PhysicalSize) + m.WAL.ObsoletePhysicalSize
}

// minBallast is the least that a ballast has, if there is to be one of that size.
const minBallast = 1 << 20

// sizeBallast has the ballast grow with the store.
func (s *Store) sizeBallast() {
	m := s.disk.Metrics()
	size := int64(minBallast)
	for need := int64(m.Table.Local.LiveSize + m.WAL.Size); size < need && size < s.opts.BallastSize; {
		size *= 2
	}
	if size > s.ballast.Load() {
		s.ballast.Store(size)
	}
}
