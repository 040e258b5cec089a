package kv

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievekv/sievekv/kv/format"
	"github.com/sievekv/sievekv/kv/gate"
	"github.com/sievekv/sievekv/kv/hash"
	"github.com/sievekv/sievekv/kv/queue"
	"github.com/sievekv/sievekv/kv/storage"
)

// DB is an open store. All methods may be called from any goroutine.
type DB struct {
	// word is what every lookup looks at first: whether a commit is under the sequence lock, and whether the store is
	// closed or failed. Bits 0 to 2 as below, above them the number of commits that were under the lock. Written by
	// such commits, which hold apply, and once each by fail and Close.
	word atomic.Uint64

	residency *residency
	store     *storage.Store
	opts      Options
	dir       string
	meta      format.StoreMeta
	registry  *registry
	running   Running // nil without modules
	opened    time.Time

	// apply, see commit.go. gate is held shared by writers of single keys and
	// exclusively by one that may touch any key.
	apply    sync.RWMutex
	gate     gate.Gate
	holder   atomic.Pointer[Transaction] // the transaction that holds the gate, if one does
	keyLocks [numKeyLocks]paddedMutex
	stripes  [numStripes]stripe
	shards   [numShards]shard

	syncing atomic.Int64 // commits under Always that are on their way

	// users counts operations that use Pebble or ristretto; Close waits for
	// them, as both panic when used after their own Close.
	users atomic.Int64
	idle  chan struct{}

	failed atomic.Pointer[error]
	// ending ends when the store fails, or is being closed; end ends it.
	ending context.Context
	end    context.CancelFunc

	// groups are the numbers of headers by group of keys, written under the
	// group's key lock or the gate; keys is their sum.
	groups [numKeyLocks]atomic.Uint64
	keys   atomic.Uint64

	expiry   expiryHint
	expiring expiringKeys

	removed  atomic.Uint64 // keys removed while the disk was full, and not reclaimed
	everySec atomic.Bool   // a commit asked for EverySec since the last sync

	idMu     sync.Mutex // guards nextID and leasedID
	nextID   uint64
	leasedID uint64

	keyedMu sync.Mutex     // guards keyed
	keyed   *hash.Function // of the store's own secret, nil until it has one

	building     sync.Map // ids of objects being built
	transactions sync.Map // those open
	watches      watches

	folds    queue.Queue[foldRequest]
	compacts queue.Queue[compactRequest]
	stats    stats
	closing  atomic.Bool

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

// Ready reports whether a lookup may go ahead without Read.
func (db *DB) Ready() bool { return db.word.Load()&busyMask == 0 }

// settle is for a lookup that found the store not Ready. It returns the store's error, or waits out a commit under
// the sequence lock, so that nobody sees part of it.
func (db *DB) settle() error {
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

// Health returns nil if the store takes reads and writes; ErrNoSpace if it takes reads
// and deletions alone, and ErrFailed, with the cause, or ErrClosed if it takes neither.
func (db *DB) Health() error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.exit()
	if db.store.Space.Full() {
		return fmt.Errorf("%w: %s", ErrNoSpace, db.dir)
	}
	return nil
}

// fail makes the store refuse everything from now on, and freezes its directory.
func (db *DB) fail(cause error) error { return db.store.Fail(cause) }

// enter announces a use of Pebble or ristretto; if it returns nil, exit must follow. Uses may nest.
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

// Close rolls back transactions that have not ended, stops the services, gives up compactions of the store, or of
// dropped objects, and copies and merges, which return ErrClosed, waits for other operations under way, brings
// everything written to stable storage and closes the store. Operations begun later return ErrClosed; a second Close
// too. Of a store that has failed it returns ErrFailed, since that may be the first call that can tell: writes below
// Always may be lost.
func (db *DB) Close() error {
	if !db.closing.CompareAndSwap(false, true) {
		return ErrClosed
	}
	db.endTransactions() // they may keep services waiting
	db.store.End(func() bool { return db.users.Load() != 0 })
	db.end()
	if db.running != nil {
		db.running.Stop()
	}
	close(db.stopKeeper)
	<-db.keeperDone
	db.word.Or(isClosed)
	for db.users.Load() != 0 {
		db.pauseAt("close: waiting")
		<-db.idle
	}
	db.residency.cache.Close()
	return db.store.Close()
}

// Dir returns the directory the store was opened with.
func (db *DB) Dir() string { return db.dir }

// Logger returns the logger the store was opened with, for services.
func (db *DB) Logger() *slog.Logger { return db.opts.Logger }

// MaxCommit returns the limit of a commit's size, in bytes: that of its batch and 256 for each entry.
func (db *DB) MaxCommit() int { return storage.MaxCommit(db.opts.MemTableSize) }

// Seed returns the seed for the item hashes of a new object that takes XXH64.
func (db *DB) Seed() uint64 { return db.meta.Seed }

// Durability returns the level of writes that ask for no other.
func (db *DB) Durability() Durability { return db.opts.Durability }

func (db *DB) pauseAt(point string) {
	if db.opts.pause != nil {
		db.opts.pause(point)
	}
}
