// Package sievekv is an embedded store of durable, transactional probabilistic
// filters: sets that answer "was this item added" from memory, at a false-positive
// rate that is chosen and with no false negatives, and that survive a crash.
//
//	db, err := sievekv.Open("data", nil)
//	...
//	seen := db.Bloom("seen")
//	err = seen.OpenOrReserve(sievekv.BloomConfig{Capacity: 1e6, ErrorRate: 0.001})
//	...
//	isNew, err := seen.AddString("https://example.org/") // true, and on stable storage
//	maybe, err := seen.MayContainString("https://example.org/")
//
// There are three types of filters. Bloom filters are the smallest. Items can be deleted from
// cuckoo filters, which count copies, too:
//
//	revoked := db.Cuckoo("revoked")
//	err = revoked.OpenOrReserve(sievekv.CuckooConfig{Capacity: 1e6, ErrorRate: 1e-4})
//	...
//	isNew, err := revoked.AddString("token 17")
//	was, err := revoked.DeleteString("token 17")
//
// and from counting Bloom filters, db.Counting, which count up to 15. They can be merged, as
// Bloom filters can, and take four times the space of those. Filter is what all types share.
//
// Strings can be kept beside the filters, and written together with them, by DB.Update:
//
//	err = db.Update(ctx, func(tx *sievekv.Tx) error {
//		if _, err := tx.Bloom("seen").AddString("order:17"); err != nil {
//			return err
//		}
//		return tx.Set("order:17", row)
//	})
//
// # Words
//
//   - item: what is added to a filter and looked for: any bytes, a string, or a uint64 (which
//     is its 8 bytes in little-endian order).
//   - key: the name of a filter or a string in the store, up to 64 KiB of any bytes.
//   - capacity: the distinct items a filter is made for; in a cuckoo or counting filter
//     copies count, too. A filter grows beyond it, unless it is made with NonScaling.
//   - layer: a filter of fixed size. A filter begins with one, and has one more each time it grows;
//     RedisBloom says sub-filter.
//   - commit: writes that are there together, or not at all, after a crash too: those of one call (of AddMany
//     those of up to 4096 items), or of one transaction.
//   - block: a part of a layer, of up to 8 KiB: what is stored, and kept in memory, as a unit.
//   - error rate: the chance that an item never added is answered with true. It is
//     an upper bound, at any number of items up to the capacity, and beyond it for
//     a filter that grows.
//   - durability: when a write is reported as done. Always, the default: when it is
//     on stable storage. A handle's With chooses another level for its writes.
//
// # Concurrency
//
// A DB and its handles are safe for any number of goroutines. Lookups of blocks in
// memory take no lock. Adds to one key are serialized, those to different keys run
// side by side, and all that wait for the disk share its syncs.
//
// # Errors
//
// The errors are for errors.Is. Their messages add the key, or the option, and the values that do not
// fit. Each method names its own. Besides,
//
//   - every method returns ErrClosed after Close, ErrFailed after the disk has failed, and ErrCorrupt for
//     what it reads and cannot decode;
//   - every write returns ErrNoSpace while the disk is almost full, unless it only removes keys; ErrTooLarge for a
//     key above 64 KiB; and ErrNested or ErrBusy instead of waiting for ever for a transaction: see DB.Update;
//   - everything in a transaction or a snapshot returns ErrEnded after its end.
//
// # Limits
//
// A string may have 7/32 of Options.MemTableSize, 7 MiB by default, and all writes of a transaction together
// a quarter of it: otherwise the error is ErrTooLarge. Times are kept to the millisecond; what is finer is cut off.
//
// # Below
//
// This package is the store with everything it has. DB.Store returns the engine, of package kv:
// server.New takes it, and so do types of filters that are not this package's. Package
// module extends it with types and commands of a program's own; coreext has the built-in commands. bloomext,
// cuckooext and countingext are the filters, scalableext is what they have in common, txn is transactions,
// compaction is the service that keeps stored blocks in shape.
package sievekv

import (
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/compaction"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/hash"
	"github.com/sievekv/sievekv/metrics"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/scalableext"
	"github.com/sievekv/sievekv/txn"
)

// Options configure a store; nil means the defaults. Most programs need at most
//
//   - Durability: the level of writes that ask for no other, Always by default;
//   - CacheSize: the memory for blocks, in bytes, 256 MiB by default;
//   - MaxFilterBytes: the largest filter, in bytes, 64 GiB by default;
//   - InMemory: nothing is kept, and the directory is ignored;
//   - MustExist: Open makes no store, but returns ErrNotExist if there is none;
//   - Logger: what an operator should know goes there, slog.Default() by default.
//
// See kv.Options for the others.
type Options = kv.Options

// Durability says when a write is reported as done.
type Durability = kv.Durability

// The levels of durability. Whatever the level, a crash keeps or loses each commit as a whole.
const (
	Always   = kv.Always   // when it is on stable storage: nothing that was reported is lost
	EverySec = kv.EverySec // at once; it is synced within about a second, which is what a crash may lose
	NoSync   = kv.NoSync   // at once; it is synced when the log is, and even a kill of the process may lose the last writes
)

// Hash is how a filter hashes its items: the field Hash of a BloomConfig, CuckooConfig or CountingConfig. The zero
// value means HashKeyed.
type Hash = hash.Kind

// The hashes of items. See package kv/hash for what they promise.
const (
	HashKeyed = hash.Keyed // with a secret of the store: nobody who does not know it can choose items that collide
	HashXXH64 = hash.XXH64 // for filters that are to be the same in several stores, with Options.Seed
)

// The errors, for errors.Is. Package kv has the rest.
var (
	ErrNotFound   = kv.ErrNotFound   // the key is missing or has expired
	ErrExists     = kv.ErrExists     // the key is there, and must not be
	ErrWrongType  = kv.ErrWrongType  // the key holds another type
	ErrTooLarge   = kv.ErrTooLarge   // the key, value, filter or commit is larger than may be
	ErrNotInteger = kv.ErrNotInteger // the string is no integer of 64 bits
	ErrOverflow   = kv.ErrOverflow   // the sum does not fit into 64 bits
	ErrLocked     = kv.ErrLocked     // the store is open already, in this process or another
	ErrNoSpace    = kv.ErrNoSpace    // the disk is almost full; lookups go on
	ErrFailed     = kv.ErrFailed     // the disk failed: close the store and open it again
	ErrBusy       = kv.ErrBusy       // the write has waited too long for a transaction that is open and does nothing
	ErrNested     = kv.ErrNested     // the write is made inside of a transaction, and is not part of it
	ErrClosed     = kv.ErrClosed     // the store is closed
	ErrCorrupt    = kv.ErrCorrupt    // what is stored is damaged
	ErrOptions    = kv.ErrOptions    // a value of Options or SetOptions is out of range
	ErrNotExist   = kv.ErrNotExist   // there is no store, and Options.MustExist is set
	ErrEnded      = kv.ErrEnded      // the transaction, or the snapshot, has ended
	ErrReadOnly   = kv.ErrReadOnly   // the write is to a snapshot, which is for reading
	ErrOtherStore = kv.ErrOtherStore // the transaction is of another store
)

// The errors of filters, for errors.Is: the same on all types. Their messages name the key or the
// field, and the values that do not fit.
var (
	ErrFull       = scalableext.ErrFull       // no room for the item, in a filter that does not grow
	ErrCannotGrow = scalableext.ErrCannotGrow // no room for the item, and there can be no further layer
	ErrMismatch   = scalableext.ErrMismatch   // the filter was made with other parameters
	ErrUnequal    = scalableext.ErrUnequal    // the filters to be merged differ
	ErrRate       = scalableext.ErrRate       // the union of the filters would exceed the error rate
	ErrConfig     = scalableext.ErrConfig     // a value of a BloomConfig, CuckooConfig or CountingConfig is out of range
)

// DB is an open store. Its writes are reported as done at the level of durability that With has chosen, or else at
// that of Options.Durability. It is safe for any number of goroutines.
type DB struct {
	store *kv.DB
	level Durability
}

// Open opens the store in dir, making both if they are not there, readable by this user alone; nil
// options mean the defaults. One process at a time can have a store open, and only once; Close closes it. The errors are
// ErrLocked if it is open already, ErrNotExist with Options.MustExist, ErrOptions, which lists every option out of range,
// ErrCorrupt, ErrFailed, kv.ErrUnsupportedVersion for a store of a newer version, and those of the file system.
//
// Modules in the options come in addition to the store's own; one of the name of an own module takes its place.
func Open(dir string, o *Options) (*DB, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	opts.Modules = withOwn(opts.Modules)
	db, err := kv.Open(dir, &opts)
	if err != nil {
		return nil, err
	}
	return &DB{store: db}, nil
}

// Modules are the modules that Open gives every store: the built-in commands, the filters, compaction, and transactions.
func Modules() []module.Module {
	return []module.Module{
		coreext.Module(), bloomext.Module(), cuckooext.Module(), countingext.Module(), compaction.Module(), txn.Module(),
	}
}

// withOwn returns the modules of a store: its own, and those of a table. What is no table stays.
func withOwn(modules kv.Modules) kv.Modules {
	if _, isTable := modules.(*module.Table); modules != nil && !isTable {
		return modules
	}
	given := module.Modules(modules)
	var all []module.Module
	for _, own := range Modules() {
		if !slices.ContainsFunc(given, func(m module.Module) bool { return m.Name == own.Name }) {
			all = append(all, own)
		}
	}
	return module.New(append(all, given...)...)
}

// Store returns the engine below the DB, which package server serves and extensions use.
func (db *DB) Store() *kv.DB { return db.store }

// Close brings everything written to stable storage and closes the store. Transactions that have
// not ended are rolled back. Later uses of the store, its handles and Close return ErrClosed. Of a
// store that has failed it returns ErrFailed: writes below Always may be lost.
func (db *DB) Close() error { return db.store.Close() }

// Sync returns when every commit reported before it is on stable storage.
func (db *DB) Sync() error { return db.store.Sync() }

// Health returns nil if the store takes reads and writes; ErrNoSpace if it takes reads and
// deletions alone; and ErrFailed, with the cause, or ErrClosed if it takes neither.
func (db *DB) Health() error { return db.store.Health() }

// CheckReport is what Check has found: how many Keys and Blocks, and Bytes of these, it has read; the Problems, none if
// the store is sound; and Notes of what is unlikely, or could not be checked.
type CheckReport = kv.CheckReport

// Check reads all that is stored, as of one moment, and reports what is damaged. Writes go on meanwhile. It returns an
// error only if it cannot go on: what is damaged is in the report.
func (db *DB) Check(ctx context.Context) (*CheckReport, error) { return db.store.Check(ctx) }

// NewCollector returns a collector of the store's metrics for Prometheus, whose names begin with
// "sievekv_"; package server serves them, with its own, by itself. For several stores in one registry, register each by
// prometheus.WrapRegistererWith and a label of its own.
func NewCollector(db *DB) prometheus.Collector { return metrics.New(db.store) }

// Size returns the number of keys, of filters and strings. It counts expired keys that were not removed yet.
func (db *DB) Size() (uint64, error) { return db.store.Size() }

// Bloom returns a handle on the Bloom filter under a key. It reads nothing: the filter may be made
// later.
func (db *DB) Bloom(key string) *Bloom { return &Bloom{*bloomext.New(db.store, key).With(db.level)} }

// Cuckoo returns a handle on the cuckoo filter under a key. It reads nothing: the filter may be
// made later.
func (db *DB) Cuckoo(key string) *Cuckoo {
	return &Cuckoo{*cuckooext.New(db.store, key).With(db.level)}
}

// Counting returns a handle on the counting Bloom filter under a key. It reads nothing: the filter may
// be made later.
func (db *DB) Counting(key string) *Counting {
	return &Counting{*countingext.New(db.store, key).With(db.level)}
}
