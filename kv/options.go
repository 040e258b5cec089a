package kv

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/kv/storage"
)

// DefaultMaxFilterBytes is the default of Options.MaxFilterBytes: 64 GiB.
const DefaultMaxFilterBytes = 64 << 30

// Durability says when a write is reported as done.
type Durability uint8

const (
	// DurabilityDefault means the store's level, Options.Durability; as a store's level it means Always.
	DurabilityDefault Durability = iota

	// Always reports a write as done when it, and everything its answer was based on, is on stable storage.
	Always

	// EverySec reports a write at once and syncs the log once a second: a
	// crash of the machine or of the process loses at most about a second.
	EverySec

	// NoSync reports a write at once and leaves syncing to the log's own pace. Pebble keeps up to 32 KiB of log in
	// the memory of the process, and up to 2,048 small writes of about the last 50 ms are not in the log yet, so that
	// even a kill -9 of the process alone can lose the last writes.
	NoSync
)

// String returns the word the configuration and INFO use.
func (d Durability) String() string {
	switch d {
	case DurabilityDefault:
		return "default"
	case Always:
		return "always"
	case EverySec:
		return "everysec"
	case NoSync:
		return "no"
	}
	return fmt.Sprintf("Durability(%d)", uint8(d))
}

// Options configure a store. The zero value, and a nil *Options, mean the
// defaults named at each field. Options are read by Open and not kept.
type Options struct {
	// InMemory keeps the store in memory: Open's directory is ignored and
	// everything is gone after Close. Default false.
	InMemory bool

	// FS is the file system the store lives on. Tests pass crashable or
	// failing ones. Default: the operating system's.
	FS vfs.FS

	// MustExist makes Open fail with ErrNotExist, and write nothing, when the
	// directory holds no store. Default false: a store is created.
	MustExist bool

	// CacheSize is the budget, in bytes, of resident blocks, block tables and
	// open objects together. One block (8 KiB) to 1 TiB. Default 256 MiB.
	CacheSize int64

	// TableCacheSize is the budget, in bytes, of what was read from tables: keys,
	// strings, and blocks on their way into memory, which stay there by CacheSize
	// alone. 1 MiB to 1 TiB. Default an eighth of CacheSize, at least 8 MiB.
	TableCacheSize int64

	// MemTableSize is Pebble's memtable size in bytes; a commit may take up to
	// a quarter of it. 256 KiB to 1 GiB. Default 32 MiB.
	MemTableSize int

	// Durability is the level of writes that ask for no other: Always, EverySec or NoSync. Default Always.
	Durability Durability

	// Seed is what the item hashes of objects created from now on follow from, for filters that are to be the same in
	// several stores, or in each run of a test. With 0, the default, they have the store's own secret of 256 random
	// bits, or with XXH64 its own random seed. Whoever knows the Seed, or can guess it, can choose items that
	// collide. See package hash. Objects that exist keep theirs.
	Seed uint64

	// MaxFilterBytes limits the size, in bytes of bit arrays, of one object.
	// 1 byte to 1 PiB. Default DefaultMaxFilterBytes.
	MaxFilterBytes uint64

	// BallastSize is the size, in bytes, of a file kept in the store's directory to be removed when the disk is full,
	// so that what is in flight can end well, and keys can be deleted. It is as large as the store, in powers of two,
	// but 1 MiB at least, and this at most. 1 byte to 1 PiB. Default 64 MiB; negative means none. Memory stores have
	// none.
	BallastSize int64

	// MinFreeSpace is the free space, in bytes, below which writes other than deletions
	// are refused with ErrNoSpace. 1 byte to 1 PiB. Default: four memtables and 64 MiB;
	// negative means no check. Writes are accepted again at one and a half times the value.
	MinFreeSpace int64

	// FreeSpaceInterval is the time between two looks at the free space. A millisecond to an
	// hour. Default one second.
	FreeSpaceInterval time.Duration

	// MaxIdleTransaction is how long a write waits for a transaction in which nothing is done meanwhile: no read and
	// no write of it is under way, or begins. Then it returns ErrBusy, since one that is made inside of the
	// transaction's function without being part of it would wait for ever. However long a transaction works, others
	// wait. From a millisecond on; negative means without end. Default 10 seconds.
	MaxIdleTransaction time.Duration

	// Logger receives what an operator should know. Panics of it are ignored. Default slog.Default().
	Logger *slog.Logger

	// Modules are the extensions the store is opened with: data types, commands, services and
	// settings, see package module. Default none.
	Modules Modules

	// Clock tells the time for expiry; one before 1970 counts as its beginning. Default time.Now.
	Clock func() time.Time

	// pause is called at named points of slow paths; set by tests to hold a goroutine there.
	pause func(point string)

	// direct has every commit go to Pebble at once, also small ones; set by tests.
	direct bool
}

const (
	minCacheSize      = 8 << 10
	maxCacheSize      = 1 << 40
	minTableCacheSize = 1 << 20
	maxTableCacheSize = 1 << 40
	minMemTableSize   = 256 << 10
	maxMemTableSize   = 1 << 30
	maxDiskSize       = 1 << 50
)

// withDefaults returns a copy with every default filled in, or an error that lists all problems.
func (o *Options) withDefaults() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.InMemory {
		if opts.FS == nil {
			opts.FS = vfs.NewMem()
		}
		opts.BallastSize, opts.MinFreeSpace = -1, -1
	}
	if opts.FS == nil {
		opts.FS = vfs.Default
	}
	if opts.CacheSize == 0 {
		opts.CacheSize = 256 << 20
	}
	if opts.TableCacheSize == 0 {
		opts.TableCacheSize = max(8<<20, opts.CacheSize/8)
	}
	if opts.MemTableSize == 0 {
		opts.MemTableSize = 32 << 20
	}
	if opts.Durability == DurabilityDefault {
		opts.Durability = Always
	}
	if opts.MaxFilterBytes == 0 {
		opts.MaxFilterBytes = DefaultMaxFilterBytes
	}
	if opts.BallastSize == 0 {
		opts.BallastSize = 64 << 20
	}
	if opts.MinFreeSpace == 0 {
		opts.MinFreeSpace = 4*int64(opts.MemTableSize) + 64<<20
	}
	if opts.FreeSpaceInterval == 0 {
		opts.FreeSpaceInterval = time.Second
	}
	if opts.MaxIdleTransaction == 0 {
		opts.MaxIdleTransaction = 10 * time.Second
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	opts.Logger = storage.CalmLogger(opts.Logger)
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	return opts, opts.validate()
}

func (o *Options) validate() error {
	var errs []error
	size := func(name string, value, low, high int64) {
		if value < low || value > high {
			errs = append(errs, fmt.Errorf("%s %d: %d to %d bytes", name, value, low, high))
		}
	}
	size("CacheSize", o.CacheSize, minCacheSize, maxCacheSize)
	size("TableCacheSize", o.TableCacheSize, minTableCacheSize, maxTableCacheSize)
	size("MemTableSize", int64(o.MemTableSize), minMemTableSize, maxMemTableSize)
	size("BallastSize", max(1, o.BallastSize), 1, maxDiskSize)
	size("MinFreeSpace", max(1, o.MinFreeSpace), 1, maxDiskSize)
	if o.MaxFilterBytes > maxDiskSize {
		errs = append(errs, fmt.Errorf("MaxFilterBytes %d: 1 to %d bytes", o.MaxFilterBytes, uint64(maxDiskSize)))
	}
	if d := o.FreeSpaceInterval; d < time.Millisecond || d > time.Hour {
		errs = append(errs, fmt.Errorf("FreeSpaceInterval %v: 1ms to 1h", d))
	}
	if d := o.MaxIdleTransaction; d > 0 && d < time.Millisecond {
		errs = append(errs, fmt.Errorf("MaxIdleTransaction %v: at least 1ms, or negative", d))
	}
	if o.Durability > NoSync {
		errs = append(errs, fmt.Errorf("Durability %d: Always, EverySec or NoSync", o.Durability))
	}
	if _, err := newRegistry(o.Modules); err != nil {
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrOptions, errors.Join(errs...))
}
