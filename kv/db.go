package kv

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievekv/sievekv/internal/expiry"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/gate"
	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/internal/hot"
	"github.com/sievekv/sievekv/internal/queue"
	"github.com/sievekv/sievekv/internal/residency"
	"github.com/sievekv/sievekv/internal/storage"
	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/internal/use"
	"github.com/sievekv/sievekv/internal/watch"
)

// DB is an open store. All methods may be called from any goroutine.
type DB struct {
	// word is the first thing that every lookup reads: whether a commit is under the sequence lock, and whether the
	// store is closed or failed. Bits 0 to 2 are the constants below; the bits above count the commits that were
	// under the lock. Only such commits, which hold apply, change word, and fail and Close once each.
	word atomic.Uint64

	residency *residency.Residency
	uses      use.Table
	strings   *hot.Cache
	store     *storage.Store
	opts      Options
	dir       string
	meta      format.StoreMeta
	registry  *registry
	running   Running // nil without modules
	opened    time.Time

	// For apply see commit.go. Writers of single keys share the gate; a writer that may touch any key holds it alone.
	apply    sync.RWMutex
	gate     gate.Gate
	holder   atomic.Pointer[Transaction] // the transaction that holds the gate, if one does
	keyLocks [numKeyLocks]paddedMutex
	stripes  [numStripes]stripe
	shards   [numShards]shard
	ids      idMap

	endedMu sync.Mutex
	ended   []*Object // objects to close later; guarded by endedMu

	// For members of a group, see group.go: applying is held while a message is applied or a block is folded, and taken
	// before apply.
	applying sync.Mutex
	message  storage.Batch // guarded by applying
	fromLog  applier       // guarded by applying
	millis   atomic.Int64  // the leader's time in the last message
	dropped  queue.Queue[droppedObject]

	syncing atomic.Int64 // commits under Always that are under way

	// users counts operations that use Pebble or the residency. Close waits for them: both panic when they are used after
	// their own Close.
	users atomic.Int64
	idle  chan struct{}

	failed atomic.Pointer[error]
	// ending ends when the store fails or is being closed; end ends it.
	ending context.Context
	end    context.CancelFunc

	// groups are the numbers of keys by group, read and written with the group's key lock or the gate alone, and read with
	// apply alone. keys and expiring are their sums.
	groups         [numKeyLocks]format.KeyCounts
	keys, expiring atomic.Uint64

	clock  func() int64 // Now
	expiry expiry.Hint

	removed  atomic.Uint64 // keys removed while the disk was full whose space was not reclaimed
	everySec atomic.Bool   // a commit asked for EverySec since the last sync

	idMu     sync.Mutex // guards nextID and leasedID
	nextID   uint64
	leasedID uint64

	secretMu sync.Mutex   // guards secret
	secret   *hash.Secret // nil until the store has one

	building     sync.Map // ids of objects whose build is under way
	transactions sync.Map // those that have not ended
	watches      watch.Table

	folds    queue.Queue[foldRequest]
	compacts queue.Queue[compactRequest]

	compactingQueued sync.Mutex // held while CompactQueued works on what it has taken from compacts; taken before compacting
	compacting       sync.Mutex // held while an object is prepared or compacted, one at a time; guards prepared
	prepared         prepared

	stats   stats
	closing atomic.Bool

	stopKeeper chan struct{}
	keeperDone chan struct{}
}

const (
	seqOdd   = 1 // a commit is under the sequence lock
	isFailed = 2
	isClosed = 4
	seqStep  = 8

	busyMask = seqOdd | isFailed | isClosed
)

// ready reports whether no commit is under the sequence lock, and the store has neither failed nor been closed. A commit that
// starts after that is concurrent with the lookup that asks, so the old state is a right answer.
func (db *DB) ready() bool { return db.word.Load()&busyMask == 0 }

// awaitSequence returns the store's error, or waits for the end of a commit under the sequence lock.
func (db *DB) awaitSequence() error {
	word := db.word.Load()
	if word&(isFailed|isClosed) != 0 {
		return db.refusal()
	}
	if word&seqOdd != 0 {
		db.apply.RLock()
		//lint:ignore SA2001 having held the lock is the point
		db.apply.RUnlock()
	}
	return nil
}

func (db *DB) refusal() error {
	if db.word.Load()&isClosed != 0 {
		return ErrClosed
	}
	return db.failure()
}

// failure returns nil, or ErrFailed with its cause.
func (db *DB) failure() error {
	if cause := db.failed.Load(); cause != nil {
		return *cause
	}
	return nil
}

// Health returns nil if the store takes reads and writes, ErrNoSpace if it takes only reads and deletions, and
// ErrFailed, with the cause, or ErrClosed if it takes neither.
func (db *DB) Health() error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.exit()
	if db.store.Space.Full() {
		return db.noSpace()
	}
	return nil
}

// DamagedBlocks returns how many blocks of tables were found damaged since Open and are still there, 0 for a closed
// store. Reads of them fail with ErrCorrupt.
func (db *DB) DamagedBlocks() int {
	if db.enter() != nil {
		return 0
	}
	defer db.exit()
	blocks, _ := db.store.Damage.Count()
	return blocks
}

// enter announces a use of Pebble or the residency. If it returns nil, the caller calls exit afterwards. Uses may nest.
func (db *DB) enter() error {
	db.users.Add(1)
	if db.word.Load()&(isFailed|isClosed) != 0 {
		db.exit()
		return db.refusal()
	}
	return nil
}

func (db *DB) exit() {
	if db.users.Add(-1) == 0 && db.word.Load()&isClosed != 0 {
		select {
		case db.idle <- struct{}{}:
		default: // Close has yet to take the last one
		}
	}
}

// Close rolls back the transactions that have not ended, stops the services, and gives up compactions, copies and
// merges under way, which then return ErrClosed. It waits for all other operations, brings everything written to stable
// storage and closes the store. A member of a group loses what is not applied: call Sync first. Later operations return
// ErrClosed, a second Close too. If the store has failed, Close returns ErrFailed, because it may be the first call
// that can tell: writes below Always may be lost.
func (db *DB) Close() error {
	if !db.closing.CompareAndSwap(false, true) {
		return ErrClosed
	}
	if g := db.store.Group; g != nil {
		g.Resign()
	}
	db.endTransactions() // services may be waiting for them
	db.store.End(func() bool { return db.users.Load() != 0 })
	db.end()
	if db.running != nil {
		db.running.Stop()
	}
	close(db.stopKeeper)
	<-db.keeperDone
	db.word.Or(isClosed)
	db.shutAll()
	for db.users.Load() != 0 {
		db.pauseAt("close: waiting")
		<-db.idle
	}
	db.residency.Close()
	return db.store.Close()
}

// ReadOnly reports whether the store was opened with Options.ReadOnly.
func (db *DB) ReadOnly() bool { return db.opts.ReadOnly }

// readOnly returns an error if the store is open read-only.
func (db *DB) readOnly() error {
	if db.opts.ReadOnly {
		return text.Instead(ErrReadOnly, "kv: the store is open read-only: "+db.dir)
	}
	return nil
}

// Dir returns the directory the store was opened with.
func (db *DB) Dir() string { return db.dir }

// StoreNames returns the names for two different stores in messages.
func StoreNames(one, other *DB) (string, string) {
	name := func(db *DB, article string) string {
		if db.opts.InMemory {
			return article + " store in memory"
		}
		return "the store in " + db.dir
	}
	if one.opts.InMemory {
		return name(one, "a"), name(other, "another")
	}
	return name(one, "a"), name(other, "a")
}

// Logger returns the logger the store was opened with, for services.
func (db *DB) Logger() *slog.Logger { return db.opts.Logger }

// MaxCommit returns the limit of a commit's size in bytes: the size of its batch and 256 for each entry.
func (db *DB) MaxCommit() int { return storage.MaxCommit(db.opts.MemTableSize) }

// MaxFilterBytes returns Options.MaxFilterBytes.
func (db *DB) MaxFilterBytes() uint64 { return db.opts.MaxFilterBytes }

// Seed returns the seed for the XXH64 item hashes of new objects.
func (db *DB) Seed() uint64 { return db.meta.Seed }

// Durability returns the level of writes that do not name one.
func (db *DB) Durability() Durability { return db.opts.Durability }

// Observe tells o what commits change, see package watch; nil ends that.
func (db *DB) Observe(o watch.Observer) { db.watches.Observe(o) }

func (db *DB) pauseAt(point string) {
	if db.opts.pause != nil {
		db.opts.pause(point)
	}
}
