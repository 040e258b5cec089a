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
// There are Bloom filters, which are smallest, and cuckoo filters, from which items can be
// deleted again, and which count copies:
//
//	revoked := db.Cuckoo("revoked")
//	err = revoked.OpenOrReserve(sievekv.CuckooConfig{Capacity: 1e6, ErrorRate: 1e-4})
//	...
//	err = revoked.AddString("token 17")
//	was, err := revoked.DeleteString("token 17")
//
// Counting Bloom filters, those of db.Counting, are the third: items can be deleted, and are
// counted up to 15. They merge, as Bloom filters do, and take four times the space of those.
//
// # Words
//
//   - item: what is added to a filter and looked for: any bytes, a string, or, in a Bloom
//     filter, a uint64 (which is its 8 bytes in little-endian order).
//   - key: the name of a filter in the store, up to 64 KiB of any bytes.
//   - capacity: the distinct items a filter is made for; in a cuckoo or counting filter
//     copies count, too. One that grows takes more.
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
// # Below
//
// This package is the store with everything it has. What it is made of may be used
// by itself: package kv is the store and the extension mechanism, bloomext, cuckooext
// and countingext are the filters, scalableext is what they have in common, txn is
// transactions, compaction is the service that keeps stored blocks in shape.
package sievekv

import (
	"context"
	"slices"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/compaction"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
	"github.com/sievekv/sievekv/txn"
)

// Options configure a store; nil means the defaults.
type Options = kv.Options

// Durability says when a write is reported as done.
type Durability = kv.Durability

// The levels of durability.
const (
	Always   = kv.Always   // when it is on stable storage
	EverySec = kv.EverySec // at once; it is synced within about a second
	NoSync   = kv.NoSync   // at once; it is synced when the log is
)

// The errors, for errors.Is. Package kv has the rest.
var (
	ErrNotFound   = kv.ErrNotFound  // the key is missing or has expired
	ErrExists     = kv.ErrExists    // the key is there, and must not be
	ErrWrongType  = kv.ErrWrongType // the key holds another type
	ErrTooLarge   = kv.ErrTooLarge
	ErrNotInteger = kv.ErrNotInteger // the string is no integer of 64 bits
	ErrOverflow   = kv.ErrOverflow   // the sum would not be one
	ErrLocked     = kv.ErrLocked     // another process has the store open
	ErrNoSpace    = kv.ErrNoSpace    // the disk is almost full; lookups go on
	ErrFailed     = kv.ErrFailed     // the disk failed: close the store and open it again
	ErrBusy       = kv.ErrBusy       // another transaction is open, and does nothing
	ErrNested     = kv.ErrNested     // inside of a transaction, and not part of it
	ErrClosed     = kv.ErrClosed
	ErrCorrupt    = kv.ErrCorrupt
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

// Bloom is a handle on the Bloom filter under a key.
type Bloom = bloomext.Filter

// BloomConfig says what a new Bloom filter is for.
type BloomConfig = bloomext.Config

// BloomInfo describes a Bloom filter.
type BloomInfo = bloomext.Info

// Cuckoo is a handle on the cuckoo filter under a key.
type Cuckoo = cuckooext.Filter

// CuckooConfig says what a new cuckoo filter is for.
type CuckooConfig = cuckooext.Config

// CuckooInfo describes a cuckoo filter.
type CuckooInfo = cuckooext.Info

// Counting is a handle on the counting Bloom filter under a key.
type Counting = countingext.Filter

// CountingConfig says what a new counting filter is for.
type CountingConfig = countingext.Config

// CountingInfo describes a counting filter.
type CountingInfo = countingext.Info

// MaxCount is what Counting.Count answers of an item that was added as often, or more often.
const MaxCount = countingext.MaxCount

// DB is an open store. What it has of kv.DB is below what it has itself: methods
// here take strings for keys, and write at the level of durability of With.
type DB struct {
	*kv.DB
	level Durability
}

// Open opens the store in dir, making both if they are not there; nil options mean
// the defaults. Modules in the options come in addition to the store's own; one of
// the name of an own module takes its place. The errors are those of kv.Open.
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
	return &DB{DB: db}, nil
}

// withOwn returns the modules of a store: its own, and those given.
func withOwn(modules []kv.Module) []kv.Module {
	var all []kv.Module
	for _, own := range []kv.Module{
		bloomext.Module(), cuckooext.Module(), countingext.Module(), compaction.Module(), txn.Module(),
	} {
		if !slices.ContainsFunc(modules, func(m kv.Module) bool { return m.Name == own.Name }) {
			all = append(all, own)
		}
	}
	return append(all, modules...)
}

// Tx is a transaction: what it is made of, besides strings and keys, is what Bloom, Cuckoo
// and Counting return. See package txn.
type Tx struct{ *txn.Tx }

// Bloom returns a handle on the Bloom filter under a key, in the transaction.
func (tx *Tx) Bloom(key string) *Bloom { return bloomext.New(tx.DB(), key).In(tx) }

// Cuckoo returns a handle on the cuckoo filter under a key, in the transaction.
func (tx *Tx) Cuckoo(key string) *Cuckoo { return cuckooext.New(tx.DB(), key).In(tx) }

// Counting returns a handle on the counting Bloom filter under a key, in the transaction.
func (tx *Tx) Counting(key string) *Counting { return countingext.New(tx.DB(), key).In(tx) }

// Snapshot is a view of the store as of one commit, for reading.
type Snapshot struct{ *txn.Snapshot }

// Bloom returns a handle on the Bloom filter under a key, as it was.
func (s *Snapshot) Bloom(key string) *Bloom { return bloomext.New(s.DB(), key).In(s) }

// Cuckoo returns a handle on the cuckoo filter under a key, as it was.
func (s *Snapshot) Cuckoo(key string) *Cuckoo { return cuckooext.New(s.DB(), key).In(s) }

// Counting returns a handle on the counting Bloom filter under a key, as it was.
func (s *Snapshot) Counting(key string) *Counting { return countingext.New(s.DB(), key).In(s) }

// Update runs f in a transaction: all that f does through tx is one commit if f returns nil,
// and nothing if it returns an error. No other write comes in between. A write inside of f
// that is not through tx, be it by a handle of db's, would wait for f's end, and so for
// itself: it returns ErrNested or ErrBusy.
//
//	err := db.Update(ctx, func(tx *sievekv.Tx) error {
//		if _, err := tx.Bloom("seen").AddString("order:17"); err != nil {
//			return err
//		}
//		return tx.Set("order:17", row)
//	})
func (db *DB) Update(ctx context.Context, f func(tx *Tx) error) error {
	return txn.Update(ctx, db.DB, db.level, func(tx *txn.Tx) error { return f(&Tx{tx}) })
}

// View runs f with a view of the store as of one commit. It keeps nobody waiting.
func (db *DB) View(ctx context.Context, f func(s *Snapshot) error) error {
	return txn.View(ctx, db.DB, func(s *txn.Snapshot) error { return f(&Snapshot{s}) })
}

// BeginTx begins a transaction that Commit or Rollback ends, or the end of its context.
// Prefer Update, which cannot be left open.
func (db *DB) BeginTx(ctx context.Context) (*Tx, error) {
	tx, err := txn.Begin(ctx, db.DB, db.level)
	if err != nil {
		return nil, err
	}
	return &Tx{tx}, nil
}

// Bloom returns a handle on the Bloom filter under a key. It reads nothing: the
// filter may be made later, and the handle follows the key when it is deleted,
// renamed, or replaced.
func (db *DB) Bloom(key string) *Bloom { return bloomext.New(db.DB, key).With(db.level) }

// Cuckoo returns a handle on the cuckoo filter under a key, as Bloom does on a Bloom filter.
func (db *DB) Cuckoo(key string) *Cuckoo { return cuckooext.New(db.DB, key).With(db.level) }

// Counting returns a handle on the counting Bloom filter under a key, as Bloom does on a Bloom filter.
func (db *DB) Counting(key string) *Counting { return countingext.New(db.DB, key).With(db.level) }
