package kv

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/hot"
	"github.com/sievekv/sievekv/internal/storage"
)

// stats are what Metrics counts, since Open.
type stats struct {
	commits      atomic.Uint64
	commitBytes  atomic.Uint64 // of batches, before the log's framing
	loggedBytes  atomic.Uint64 // see Metrics
	blocksRead   atomic.Uint64 // from Pebble, absent ones not counted
	folds        atomic.Uint64
	foldsDropped atomic.Uint64
	reclaimed    atomic.Uint64
	expired      atomic.Uint64 // keys swept
	compactions  atomic.Uint64 // commits of types' Compact
	putOff       atomic.Uint64 // see Metrics

	flushedBefore, syncsBefore atomic.Uint64 // what storage had counted at ResetStats
}

// Metrics are counts since Open or ResetStats, and the present state of a store.
type Metrics struct {
	Keys        uint64
	OpenObjects int

	CacheBudget    int64 // bytes
	CacheUsed      int64
	CacheEvictions uint64
	BlocksRead     uint64 // read from tables; absent ones are not counted

	Strings hot.Stats // strings in memory

	Commits         uint64
	CommitBytes     uint64
	GrowthLogBytes  uint64        // since Open, of the logs from which filters grow: a part of all CommitBytes, also of commits that failed
	Syncs           uint64        // of the log
	SyncTime        time.Duration // since Open, for which commits waited for syncs of the log
	LastSequence    uint64
	DurableSequence uint64

	Folds, FoldsDropped uint64 // blocks written back whole
	FoldBacklog         int
	Reclaimed           uint64 // removed objects whose blocks are gone
	ExpiredKeys         uint64
	Compactions         uint64 // commits that made an object smaller
	PutOff              uint64 // how often background work waited because compactions of tables were behind
	CompactBacklog      int    // objects that wait to be made smaller
	ReclaimBacklog      int    // removed objects whose blocks are still stored, counted up to 1000; all objects of a FLUSHALL count as one
	ExpiryBacklog       int    // keys that have expired and are still stored, counted up to 1000

	DiskBytes           uint64 // of all files except the ballast
	DiskFree, DiskTotal uint64 // of the file system, at the last look at it; 0 if nobody looks: in memory, read-only, or without Options.MinFreeSpace and BallastSize
	TableBytes          uint64
	LogBytes            uint64 // of the log files now
	ReserveBytes        uint64 // of the ballast, see Options.BallastSize
	LogBytesIn          uint64 // of commits, since Open
	LogBytesWritten     uint64 // the same with the log's framing
	MemTableBytes       uint64
	Flushes             int64          // since Open
	TableCompactions    int64          // since Open
	CompactionDebt      uint64         // bytes
	ReadAmp             int            // most tables that a read may have to look at
	Behind              bool           // compactions of tables are behind: a commit waits for them, or soon will
	BackgroundErrors    uint64         // since Open
	DamagedBlocks       int            // blocks of tables that were found damaged since Open, and are still there
	DamagedReads        uint64         // reads that failed on damaged tables since Open
	Levels              []LevelMetrics // newest level first
}

// LevelMetrics describe one level of tables.
type LevelMetrics = storage.LevelMetrics

// Metrics returns the store's metrics.
func (db *DB) Metrics() (Metrics, error) {
	if err := db.enter(); err != nil {
		return Metrics{}, err
	}
	defer db.exit()
	flushed, syncs := db.stats.flushedBefore.Load(), db.stats.syncsBefore.Load() // first: a reset may come between
	p, cache := db.store.Metrics(), db.residency
	return Metrics{
		Keys: db.keys.Load(), OpenObjects: db.openObjects(), BackgroundErrors: p.BackgroundErrors, Levels: p.Levels,
		CacheBudget: cache.Budget(), CacheUsed: cache.Used(),
		CacheEvictions: cache.Evicted().Load(), BlocksRead: db.stats.blocksRead.Load(), Strings: db.strings.Stats(),
		Commits: db.stats.commits.Load(), CommitBytes: db.stats.commitBytes.Load() + p.FlushedBytes - flushed,
		GrowthLogBytes: db.stats.loggedBytes.Load(), Syncs: p.Syncs - syncs, SyncTime: p.SyncTime, DurableSequence: p.DurableSequence, LastSequence: p.LastSequence,
		Folds: db.stats.folds.Load(), FoldsDropped: db.stats.foldsDropped.Load(), FoldBacklog: db.FoldBacklog(),
		Reclaimed: db.stats.reclaimed.Load(), ExpiredKeys: db.stats.expired.Load(), Compactions: db.stats.compactions.Load(),
		PutOff: db.stats.putOff.Load(), CompactBacklog: db.CompactBacklog(),
		ReclaimBacklog: db.countEntries([]byte{format.TagDropped}, []byte{format.TagDropped + 1}),
		ExpiryBacklog:  db.countEntries(db.expiry.First(), format.AppendExpiryKey(nil, db.Now()+1, nil)),
		DiskFree:       db.store.Space.Free(), DiskTotal: db.store.Space.Total(),
		DiskBytes: p.DiskBytes, TableBytes: p.TableBytes, LogBytes: p.LogBytes, ReserveBytes: uint64(db.store.Space.Ballast()),
		LogBytesIn: p.LogBytesIn, LogBytesWritten: p.LogBytesWritten, MemTableBytes: p.MemTableBytes, Flushes: p.Flushes,
		TableCompactions: p.TableCompactions, CompactionDebt: p.CompactionDebt, ReadAmp: p.ReadAmp, Behind: p.Behind,
		DamagedBlocks: p.DamagedBlocks, DamagedReads: p.DamagedReads,
	}, nil
}

// countEntries counts what is stored in a range, up to 1000, so that Metrics is fast. What cannot be read is not counted.
func (db *DB) countEntries(low, high []byte) (n int) {
	it, err := db.iterate(context.Background(), low, high)
	if err != nil {
		return 0
	}
	for ok := it.First(); ok && n < 1000; ok = it.Next() {
		n++
	}
	_ = it.Close() // of reading, which has ended
	return n
}

// About describes an open store.
type About struct {
	Directory     string
	StoreID       string // in hexadecimal
	FormatVersion int
	Opened        time.Time
	Durability    Durability // Options.Durability
	DiskFull      bool
	DiskTooSmall  bool  // DiskFull, and the whole file system has less than has to be free for writes to go on
	KeptBytes     int64 // bytes of tables that a failed store keeps in memory
}

// About describes the store. It also works on a store that has failed or is closed.
func (db *DB) About() About {
	return About{
		Directory: db.dir, StoreID: fmt.Sprintf("%x", db.meta.ID), FormatVersion: format.StoreVersion, Opened: db.opened,
		Durability: db.opts.Durability, DiskFull: db.store.Space.Full(), DiskTooSmall: db.store.Space.TooSmall(), KeptBytes: db.store.Files.Kept(),
	}
}

// Options returns the options that the store was opened with, defaults filled in.
func (db *DB) Options() Options { return db.opts }

// CountPutOff counts background work that was put off, for Metrics.
func (db *DB) CountPutOff() { db.stats.putOff.Add(1) }

// ResetStats, for CONFIG RESETSTAT, sets the counts of Metrics back to 0, except those since Open. Background errors
// are among these: an operator who looks for them must not miss one.
func (db *DB) ResetStats() {
	if db.enter() == nil { // otherwise the counts of storage cannot be read, and stay
		p := db.store.Metrics()
		db.stats.flushedBefore.Store(p.FlushedBytes)
		db.stats.syncsBefore.Store(p.Syncs)
		db.exit()
	}
	db.strings.Reset()
	s := &db.stats
	for _, n := range []interface{ Store(uint64) }{
		&s.commits, &s.commitBytes, &s.blocksRead, &s.folds, &s.foldsDropped, &s.reclaimed, &s.expired,
		&s.compactions, &s.putOff, db.residency.Evicted(),
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

// DiskBytes returns the bytes that the store takes on disk, its log included, without the ballast and without tables
// that are not needed any more and will be deleted.
func (db *DB) DiskBytes() (uint64, error) {
	if err := db.enter(); err != nil {
		return 0, err
	}
	defer db.exit()
	return db.store.Metrics().DiskBytes, nil
}

// LogBytesWritten is Metrics.LogBytesWritten with what is pending, which it flushes.
func (db *DB) LogBytesWritten() (uint64, error) {
	if err := db.enter(); err != nil {
		return 0, err
	}
	defer db.exit()
	db.store.Flush()
	return db.store.Metrics().LogBytesWritten, nil
}
