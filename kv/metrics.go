package kv

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// stats are what Metrics counts, since Open.
type stats struct {
	commits          atomic.Uint64
	commitBytes      atomic.Uint64 // of batches, before the log's framing
	syncs            atomic.Uint64
	blocksRead       atomic.Uint64 // from Pebble, absent ones not counted
	folds            atomic.Uint64
	foldsDropped     atomic.Uint64
	reclaimed        atomic.Uint64
	expired          atomic.Uint64 // keys swept
	compactions      atomic.Uint64 // commits of types' Compact
	backgroundErrors atomic.Uint64
}

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
		LogBytesIn: p.WAL.BytesIn, LogBytesWritten: p.WAL.BytesWritten,
		MemTableBytes: p.MemTable.Size, Flushes: p.Flush.Count, TableCompactions: p.Compact.Count,
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

// About says what an open store is.
type About struct {
	Directory     string
	StoreID       string // in hexadecimal
	FormatVersion int
	Opened        time.Time
	Durability    Durability // Options.Durability
	DiskFull      bool
	KeptBytes     int64 // of tables, which a store that has failed keeps in memory
}

// About returns what the store is. It also works on a store that has failed, or is closed.
func (db *DB) About() About {
	return About{
		Directory: db.dir, StoreID: fmt.Sprintf("%x", db.meta.id), FormatVersion: storeVersion, Opened: db.opened,
		Durability: db.opts.Durability, DiskFull: db.space.Full(), KeptBytes: db.fs.Kept(),
	}
}

// Options returns the options the store was opened with, and the defaults for those that were not set.
func (db *DB) Options() Options { return db.opts }

// ResetStats sets the counts of Metrics back to 0. What is not a count of events stays, as do
// background errors: an operator who looks for them must not miss one.
func (db *DB) ResetStats() {
	s := &db.stats
	for _, n := range []interface{ Store(uint64) }{
		&s.commits, &s.commitBytes, &s.syncs, &s.blocksRead, &s.folds, &s.foldsDropped, &s.reclaimed, &s.expired,
		&s.compactions, &db.residency.evicted,
	} {
		n.Store(0)
	}
}

func (db *DB) openObjects() int {
	n := 0
	for i := range db.shards {
		sh := &db.shards[i]
		sh.mu.RLock()
		n += len(sh.objects)
		sh.mu.RUnlock()
	}
	return n
}

// DiskBytes returns what the store takes on disk, its log included, in bytes. Tables that
// nothing needs any more, which go in their own time, and the ballast are not counted.
func (db *DB) DiskBytes() (uint64, error) {
	if err := db.enter(); err != nil {
		return 0, err
	}
	defer db.exit()
	return diskUsage(db.disk.Metrics()), nil
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
func (db *DB) sizeBallast() {
	if db.enter() != nil {
		return
	}
	defer db.exit()
	m := db.disk.Metrics()
	size := int64(minBallast)
	for need := int64(m.Table.Local.LiveSize + m.WAL.Size); size < need && size < db.opts.BallastSize; {
		size *= 2
	}
	if size > db.ballast.Load() {
		db.ballast.Store(size)
	}
}

// LogBytes returns the bytes of write-ahead log this DB has written.
func (db *DB) LogBytes() (uint64, error) {
	if err := db.enter(); err != nil {
		return 0, err
	}
	defer db.exit()
	return db.pebble().Metrics().WAL.BytesWritten, nil
}
