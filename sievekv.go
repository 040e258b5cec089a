// Package sievekv is an embedded store of durable, transactional probabilistic filters. A filter is a set that
// answers "was this item added" from memory, with a false-positive rate that you choose, and without false negatives
// as long as items are deleted only if they were added, and not more often than they were added. Filters survive
// crashes.
//
//	db, err := sievekv.Open("data", nil)
//	...
//	seen := db.Bloom("seen")
//	err = seen.OpenOrReserve(sievekv.Capacity(1e6, 0.001), nil)
//	...
//	isNew, err := seen.AddString("https://example.org/") // true, and on stable storage
//	maybe, err := seen.MayContainString("https://example.org/")
//
// There are three types of filters. Bloom filters are the smallest. Cuckoo filters can also delete items, and count
// copies:
//
//	revoked := db.Cuckoo("revoked")
//	err = revoked.OpenOrReserve(sievekv.Capacity(1e6, 1e-4), nil)
//	...
//	isNew, err := revoked.AddString("token 17")
//	was, err := revoked.DeleteString("token 17")
//
// Counting Bloom filters, db.Counting, can delete items and count up to 15. They can be merged, as Bloom filters can,
// and take four times the space of a Bloom filter. The interface Filter has what all types share.
//
// Bitmaps, db.Bitmap, are exact sets of numbers. The store also keeps strings. DB.Update writes strings, bitmaps and
// filters together:
//
//	err = db.Update(ctx, func(tx *sievekv.Tx) error {
//		if _, err := tx.Bloom("seen").AddString("order:17"); err != nil {
//			return err
//		}
//		return tx.Set("order:17", row)
//	})
//
// A filter must be made before it is used: adding to a missing filter returns ErrNotFound.
//
// # Terminology
//
//   - item: what is added to a filter and looked up: any bytes or a string. Uint64 makes an item from an integer.
//   - key: the name of a filter or a string in the store, up to 64 KiB of any bytes.
//   - capacity: the number of distinct items that a filter is made for; in a cuckoo or counting filter copies count too. A
//     filter grows beyond it, unless it is made with NonScaling or Bits.
//   - layer: a filter of fixed size. A filter starts with one layer and grows by further ones; RedisBloom says sub-filter.
//   - commit: writes that after a crash are there together or not at all: the writes of one call (up to 65,536 items of an
//     AddMany), or of one transaction. Lookups see a transaction, and a call that writes several keys, as a whole; they may
//     see an AddMany item by item.
//   - block: a part of a layer of up to 8 KiB, the unit that is stored and cached.
//   - error rate: the highest probability that a lookup of an item that was never added returns true. It holds for any
//     number of items up to the capacity, and beyond it in a filter that grows.
//   - durability: what a write waits for before it returns. At the level Always, the default, it waits until it is on
//     stable storage. The method With of a DB or a handle chooses another level.
//
// # Concurrency
//
// A DB and its handles may be used by any number of goroutines. Lookups of blocks in memory take no lock. Adds to the
// same key run one after the other, adds to different keys mostly at the same time (256 locks serve all keys), and all
// writes that wait for the disk share its syncs.
//
// # Errors
//
// The errors are for errors.Is. Their messages add the key or the option, and the wrong values. Each method documents
// its own errors. Besides these,
//
//   - methods that use the store return ErrClosed after Close, ErrFailed after the disk has failed, ErrCorrupt if
//     they read damaged data, and ErrTooLarge for a key above 64 KiB;
//   - writes return ErrNoSpace while the disk is almost full. Those that change nothing, or only remove whole keys,
//     succeed until the reserve (Options.BallastSize) is used up. Writes return ErrOptions for a level of durability
//     that does not exist, and ErrNested or ErrBusy instead of waiting for ever for a transaction: see DB.Update. A
//     lookup whose filter changes several times meanwhile waits for the writer, and may return ErrBusy too;
//   - everything in a transaction or a snapshot returns ErrEnded after its end.
//
// After ErrFailed and ErrOutcomeUnknown the outcome of a write is unknown. After any other error nothing is written, with one exception: if
// AddMany or DeleteMany returns an *ItemError, the items before that item are written; AddMany of a cuckoo filter also
// writes later items that find room.
//
// # Limits
//
// A string that is set may have 7/32 of Options.MemTableSize, 7 MiB by default; a Bitmap has no such limit. All
// writes of a transaction together may have a quarter of it, 8 MiB by default, where each key and each block written
// counts 256 bytes more. Otherwise the error is ErrTooLarge. Times are truncated to milliseconds.
//
// # Related packages
//
// DB.Store returns the engine, of package kv, for server.New and for other types of filters. Package module extends
// the store with a program's own types and commands; coreext has the built-in commands. bloomext, cuckooext and
// countingext are the filters, scalableext is what they share, txn has transactions, and compaction maintains stored
// blocks in the background.
//
// Some types here are other names for types of these packages: Options, for instance, is kv.Options. The comments here list the
// most used fields. For all of them look there, as in go doc github.com/sievekv/sievekv/kv.Options.
package sievekv

import (
	"context"
	"io"
	"slices"

	"github.com/sievekv/sievekv/backup"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/compaction"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/metrics"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/scalableext"
	"github.com/sievekv/sievekv/txn"
)

// Options configure a store; nil means the defaults. Most programs need at most
//
//   - Durability: the level of writes that do not ask for another, Always by default;
//   - CacheSize: the memory for blocks, in bytes, 256 MiB by default;
//   - Memory: the memory for all caches and memtables together, in bytes, in place of a number for each;
//   - MaxFilterBytes: the largest filter, in bytes, 64 GiB by default;
//   - InMemory: nothing is kept, and the directory is ignored;
//   - MustExist: Open makes no store, but returns ErrNotExist if there is none;
//   - ReadOnly: nothing is changed, and others can read at the same time;
//   - Logger: receives what an operator should know, slog.Default() by default.
//
// See [kv.Options] for the others.
type Options = kv.Options

// Durability says when a write returns: Always, EverySec or NoSync. The zero value means Options.Durability.
type Durability = kv.Durability

// The levels of durability. Whatever the level, a crash keeps or loses each commit as a whole.
const (
	Always   = kv.Always   // a write returns when it is on stable storage: no crash loses it
	EverySec = kv.EverySec // a write returns at once, and is synced within about a second: a crash may lose that second
	NoSync   = kv.NoSync   // a write returns at once: a crash of the process may lose about the last 50 ms and 32 KiB of log, a crash of the machine more
)

// Hash is the hash of a filter's items, for the field Hash of a BloomConfig, CuckooConfig or CountingConfig. The zero
// value means HashKeyed.
type Hash = hash.Kind

// The hashes of items. docs/GUARANTEES.md says which items an attacker can choose.
const (
	HashKeyed = hash.Keyed // with a secret of the filter, of its group, or of Options.Seed: without it nobody can choose items that collide
	HashXXH64 = hash.XXH64 // unkeyed, for filters that other programs build too, see Options.Seed: anyone can choose items that collide
)

// Layout says where the bits or slots of an item are, for the field Layout of a BloomConfig or CuckooConfig. The zero value means
// LayoutNative.
type Layout = scalableext.Layout

// The layouts of filters.
const (
	LayoutNative     = scalableext.LayoutNative     // an item lies in one block, and its hash is the one asked for
	LayoutCompatible = scalableext.LayoutCompatible // RedisBloom's, with a public hash: anyone can choose items that collide
	LayoutForeign    = scalableext.LayoutForeign    // of Bloom.ImportForeign alone: another library's, with its public hash
)

// The errors, for errors.Is. Package kv has the rest.
var (
	ErrNotFound           = kv.ErrNotFound           // the key is missing or has expired
	ErrExists             = kv.ErrExists             // the key exists, and must not
	ErrWrongType          = kv.ErrWrongType          // the key holds another type
	ErrTooLarge           = kv.ErrTooLarge           // the key, value, filter or commit is too large
	ErrNotInteger         = kv.ErrNotInteger         // the string is not a 64-bit integer
	ErrOverflow           = kv.ErrOverflow           // the sum does not fit into 64 bits
	ErrLocked             = kv.ErrLocked             // the store is open already, in this process or another
	ErrNoSpace            = kv.ErrNoSpace            // the disk is almost full; lookups go on
	ErrFailed             = kv.ErrFailed             // the disk failed: close the store and open it again
	ErrUnfinishedBackup   = kv.ErrUnfinishedBackup   // the backup was not made; there is nothing under its name
	ErrBusy               = kv.ErrBusy               // the write has waited too long for an open transaction that does nothing
	ErrNotLeader          = kv.ErrNotLeader          // the store is of a group, and another leads it; nothing was written
	ErrOutcomeUnknown     = kv.ErrOutcomeUnknown     // the store ceased to lead its group meanwhile: the write may or may not have been made
	ErrNested             = kv.ErrNested             // the write is inside a transaction, but not part of it
	ErrClosed             = kv.ErrClosed             // the store is closed
	ErrCorrupt            = kv.ErrCorrupt            // stored data is damaged
	ErrOptions            = kv.ErrOptions            // a value of Options or SetOptions is out of range, or excludes another
	ErrNotDirectory       = kv.ErrNotDirectory       // the path given to Open is a file
	ErrNotExist           = kv.ErrNotExist           // there is no store, and Options.MustExist is set
	ErrEnded              = kv.ErrEnded              // the transaction, or the snapshot, has ended
	ErrReadOnly           = kv.ErrReadOnly           // the write is to a snapshot, or to a store that is open read-only
	ErrOtherStore         = kv.ErrOtherStore         // the transaction is of another store
	ErrNoModule           = kv.ErrNoModule           // the key holds a type of a module that Options.Modules does not have
	ErrUnsupportedVersion = kv.ErrUnsupportedVersion // a newer version of this package, or of a module, wrote the bytes
)

// The errors of filters, for errors.Is. They are the same for all types. Their messages name the key or the field,
// and the wrong values.
var (
	ErrFull       = scalableext.ErrFull       // the filter has no room for the item and does not grow, or a cuckoo filter has too many copies of it
	ErrCannotGrow = scalableext.ErrCannotGrow // the filter has no room for the item, and can have no further layer
	ErrMismatch   = scalableext.ErrMismatch   // the filter was made with other parameters
	ErrUnequal    = scalableext.ErrUnequal    // the filters differ too much to be merged
	ErrRate       = scalableext.ErrRate       // the union of the filters would exceed the error rate
	ErrConfig     = scalableext.ErrConfig     // a value of a Size, BloomConfig, CuckooConfig or CountingConfig is out of range
	ErrLength     = scalableext.ErrLength     // the answers given to a method of many items are not as many as the items
)

// DB is an open store. Its writes have the level of durability that With has chosen, by default
// Options.Durability. It may be used by any number of goroutines.
type DB struct {
	store *kv.DB
	level Durability
}

// Open opens the store in dir. If the store or the directory is missing, it makes them, readable by this user only.
// Nil options mean the defaults. Only one process at a time can have a store open, and only once; Close closes it.
//
// The errors are ErrLocked if the store is open already, ErrNotDirectory for a file, ErrNotExist with Options.MustExist, ErrOptions, which lists
// every option out of range, ErrCorrupt, ErrFailed, ErrUnsupportedVersion for a store of a newer version, and
// errors of the file system.
//
// If Options.Modules is a *module.Table, its modules are added to Modules, or replace modules of the same name.
// Options.Modules of another type replace all of them.
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

// Modules returns the modules that Open gives to every store: the built-in commands, the filters, compaction, and
// transactions.
func Modules() []module.Module {
	return []module.Module{
		coreext.Module(), bloomext.Module(), cuckooext.Module(), countingext.Module(), compaction.Module(), txn.Module(),
	}
}

// withOwn returns the store's own modules and the modules of a table. If modules is not a table, withOwn returns it
// unchanged.
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

// Store returns the engine below the DB, for package server and for extensions.
func (db *DB) Store() *kv.DB { return db.store }

// Close syncs everything written, and closes the store. Open transactions are rolled back. Later uses of the store,
// its handles and Close return ErrClosed. If the store has failed, Close returns ErrFailed: writes below level Always
// may be lost.
func (db *DB) Close() error { return db.store.Close() }

// Sync returns when every earlier commit is on stable storage.
func (db *DB) Sync() error { return db.store.Sync() }

// Health returns nil if the store takes reads and writes, ErrNoSpace if it takes only reads and deletions of whole
// keys, and ErrFailed, with the cause, or ErrClosed if it takes neither.
func (db *DB) Health() error { return db.store.Health() }

// CheckReport is the result of Check. Its fields are the numbers of Keys, Blocks and Bytes that Check has read; the
// Problems, a list of errors, empty if the store is sound; Notes about what is unlikely or could not be checked; the
// Damaged keys, each with what it has lost; and what was Repaired.
type CheckReport = kv.CheckReport

// CheckOptions are Deep, which has a check read all of every table and compare its checksums, and Repair, which mends
// what needs no guessing.
type CheckOptions = kv.CheckOptions

// Check reads everything stored, as of one moment, and reports damage. Writes go on meanwhile. It returns an error
// only if it cannot go on; damage is in the report.
func (db *DB) Check(ctx context.Context) (*CheckReport, error) { return db.store.Check(ctx) }

// CheckWith is Check with options.
func (db *DB) CheckWith(ctx context.Context, o CheckOptions) (*CheckReport, error) {
	return db.store.CheckWith(ctx, o)
}

// Backup makes a second store, as of one commit, in dir, which must not exist. It has everything that was committed
// before; other operations go on meanwhile. Tables are linked where the file system can do it, and else copied. The new
// store is opened before it gets its name: after an error, ErrUnfinishedBackup with its cause, there is nothing in dir.
// Package backup has options, and restores archives.
func (db *DB) Backup(ctx context.Context, dir string) error {
	return backup.Make(ctx, db.store, dir, backup.Options{})
}

// BackupTo writes such a backup to w, as a tar archive for backup.Restore.
func (db *DB) BackupTo(ctx context.Context, w io.Writer) error {
	return backup.WriteTo(ctx, db.store, w, backup.Options{})
}

// NewCollector returns a Prometheus collector of the store's metrics, whose names begin with "sievekv_". A program
// that serves the store with package server needs no collector: Server.MetricsHandler has these metrics and the
// server's own. If several stores share a registry, register each with prometheus.WrapRegistererWith and its own
// label.
func NewCollector(db *DB) prometheus.Collector { return metrics.New(db.store) }

// Size returns the number of keys, whatever they hold. It counts expired keys that are not removed yet.
func (db *DB) Size() (uint64, error) { return db.store.Size() }

// Bloom returns a handle on the Bloom filter under a key. It reads nothing: the filter may be made later.
func (db *DB) Bloom(key string) *Bloom { return &Bloom{*bloomext.New(db.store, key).With(db.level)} }

// Cuckoo returns a handle on the cuckoo filter under a key. It reads nothing: the filter may be made later.
func (db *DB) Cuckoo(key string) *Cuckoo {
	return &Cuckoo{*cuckooext.New(db.store, key).With(db.level)}
}

// Counting returns a handle on the counting Bloom filter under a key. It reads nothing: the filter may be made later.
func (db *DB) Counting(key string) *Counting {
	return &Counting{*countingext.New(db.store, key).With(db.level)}
}
