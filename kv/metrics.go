package kv

import "github.com/cockroachdb/pebble/v2"

// Metrics are counts since Open, and the present state, of a store.
type Metrics struct {
	Keys        uint64
	OpenObjects int

	CacheBudget    int64 // bytes
	CacheUsed      int64
	CacheEvictions uint64
	BlocksRead     uint64 // from tables, absent ones not counted

	Commits         uint64
	CommitBytes     uint64
	Syncs           uint64 // of the log
	LastSequence    uint64
	DurableSequence uint64

	Folds, FoldsDropped uint64 // blocks written back whole
	FoldBacklog         int
	Reclaimed           uint64 // removed objects whose blocks are gone
	ExpiredKeys         uint64
	Compactions         uint64 // commits that made an object smaller

	DiskBytes        uint64 // of all files but the reserve
	TableBytes       uint64
	LogBytes         uint64 // of the log now
	ReserveBytes     uint64 // of the ballast, see Options.BallastSize
	LogBytesWritten  uint64
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
func (db *DB) Metrics() (Metrics, error) {
	if err := db.enter(); err != nil {
		return Metrics{}, err
	}
	defer db.exit()
	p, cache := db.disk.Metrics(), db.residency.cache
	durable := db.durable.Load() // before the last sequence, which it never exceeds
	m := Metrics{
		Keys: db.keys.Load(), OpenObjects: db.openObjects(),
		CacheBudget: cache.MaxCost(), CacheUsed: cache.MaxCost() - cache.RemainingCost(),
		CacheEvictions: db.residency.evicted.Load(), BlocksRead: db.stats.blocksRead.Load(),
		Commits: db.stats.commits.Load(), CommitBytes: db.stats.commitBytes.Load(), Syncs: db.stats.syncs.Load(),
		DurableSequence: durable, LastSequence: db.lastSeq.Load(),
		Folds: db.stats.folds.Load(), FoldsDropped: db.stats.foldsDropped.Load(), FoldBacklog: db.FoldBacklog(),
		Reclaimed: db.stats.reclaimed.Load(), ExpiredKeys: db.stats.expired.Load(), Compactions: db.stats.compactions.Load(),
		DiskBytes: diskUsage(p), TableBytes: p.Table.Local.LiveSize, LogBytes: logSize(p), ReserveBytes: uint64(db.space.Ballast()),
		LogBytesWritten: p.WAL.BytesWritten,
		MemTableBytes:   p.MemTable.Size, Flushes: p.Flush.Count, TableCompactions: p.Compact.Count,
		CompactionDebt: p.Compact.EstimatedDebt, ReadAmp: p.ReadAmp(), BackgroundErrors: db.stats.backgroundErrors.Load(),
	}
	for i := range p.Levels {
		m.Levels = append(m.Levels, levelMetrics(&p.Levels[i]))
	}
	return m, nil
}

func levelMetrics(l *pebble.LevelMetrics) LevelMetrics {
	return LevelMetrics{Tables: l.TablesCount, Bytes: l.TablesSize, Fill: l.CompensatedFillFactor}
}
