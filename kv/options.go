package kv

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/storage"
)

// DefaultMaxFilterBytes is the default of Options.MaxFilterBytes: 64 GiB.
const DefaultMaxFilterBytes = 64 << 30

// Durability says when a write is reported as done.
type Durability uint8

const (
	// DurabilityDefault is the store's level, Options.Durability. As the store's level it is Always.
	DurabilityDefault Durability = iota

	// Always reports a write as done when it, and everything its answer was based on, is on stable storage.
	Always

	// EverySec reports a write at once and syncs the log once a second: a crash of the machine or the process loses
	// about a second of writes at most.
	EverySec

	// NoSync reports a write at once and leaves syncing to the log. Pebble keeps up to 32 KiB of log in the memory of
	// the process, and small writes of about the last 50 ms are not in the log yet, hundred thousands of items perhaps:
	// even a kill -9 of the process can lose the last writes.
	NoSync
)

// String returns the name that settings and INFO use.
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

// Options configure a store. The zero value and a nil *Options mean the defaults named at each field. Open copies the
// options.
type Options struct {
	// InMemory keeps the store in memory: Open ignores its directory, and Close forgets everything. Default false.
	InMemory bool

	// FS is the file system that the store is on. Tests pass file systems that crash or fail. Default: the operating
	// system's.
	FS vfs.FS

	// MustExist makes Open fail with ErrNotExist, and write nothing, when the
	// directory holds no store. Default false: a store is created.
	MustExist bool

	// ReadOnly opens a store that exists, and changes nothing in its directory: no file is made, written or removed,
	// and no permission to write is needed. Any number of DBs and processes may have a store open read-only at the
	// same time, beside none that writes: Open returns ErrLocked if one does. What is seen is the store as its last
	// writer left it: what is in the log is read into memory, as much as a memtable or a few. Writes return
	// ErrReadOnly, services do not run. Expired keys are not found, but stay stored. Default false.
	ReadOnly bool

	// LockTimeout is how long Open waits for a store that another process, or another DB of this process, has open.
	// After that it returns ErrLocked. Up to a day. Default 0: Open does not wait.
	LockTimeout time.Duration

	// Memory, if it is not 0, is the memory, in bytes, for the next four budgets together. It sets each of them that is
	// 0; see Budget. Garbage that Go has not collected comes on top: a program with a limit gives about half of it
	// here, and sets GOMEMLIMIT. 16 MiB to 1 TiB. Default 0: each budget has its own default.
	Memory int64

	// CacheSize is the budget, in bytes, for resident blocks, block tables and open objects together. One block (8
	// KiB) to 1 TiB. Default 256 MiB.
	CacheSize int64

	// TableCacheSize is the budget, in bytes, for what was read from tables: keys, strings, and blocks on their way
	// into memory (blocks in memory are CacheSize's). 1 MiB to 1 TiB. Default half of CacheSize, at least 8 MiB and at
	// most 32; an eighth of CacheSize where that is more.
	TableCacheSize int64

	// StringCacheSize is the budget, in bytes, for strings kept in memory with their keys, besides CacheSize. The
	// memory is taken as strings are read and written. Up to 1 TiB. Default a quarter of CacheSize; negative means none.
	StringCacheSize int64

	// MemTableSize is the size of Pebble's memtable in bytes. A commit may take up to a quarter of it. 256 KiB to 1
	// GiB. Default 32 MiB.
	MemTableSize int

	// Durability is the level of writes that do not name one: Always, EverySec or NoSync. Default Always.
	Durability Durability

	// Seed determines the item hashes of objects created from now on, so that filters are the same in several stores,
	// or in each run of a test. With 0, the default, item hashes use secrets that follow from 256 random bits of the store, see
	// DB.ItemHash, or with XXH64 its own random seed. A person who knows or guesses the Seed can choose items that collide; see
	// package hash. Existing objects keep their hashes.
	Seed uint64

	// MaxFilterBytes limits the size, in bytes of bit arrays, of one object. Errors name the setting max-filter-bytes.
	// 1 byte to 1 PiB. Default DefaultMaxFilterBytes.
	MaxFilterBytes uint64

	// BallastSize is the maximum size, in bytes, of the ballast: a file in the store's directory that is removed when
	// the disk is full, so that operations under way can end well and keys can be deleted. The ballast is as large as
	// the store, rounded to a power of two, but at least 1 MiB and at most this. 1 byte to 1 PiB. Default 64 MiB;
	// negative means no ballast. Stores in memory have none.
	BallastSize int64

	// MinFreeSpace is the free space, in bytes, below which writes other than deletions are refused with ErrNoSpace.
	// They are accepted again from one and a half times this on. 1 byte to 1 PiB. Default: four memtables and 64 MiB;
	// negative means no check.
	MinFreeSpace int64

	// FreeSpaceInterval is the time between two looks at the free space. A millisecond to an hour. Default one second.
	FreeSpaceInterval time.Duration

	// MaxIdleTransaction is how long a write waits for a transaction that is idle: no read and no write of it is
	// under way or begins. Then the write returns ErrBusy, as a write inside the transaction's function that is not
	// part of the transaction would otherwise wait for ever. While a transaction works, other writes wait as long as
	// it takes. At least a millisecond; negative means no limit. Default 10 seconds.
	MaxIdleTransaction time.Duration

	// Logger receives what an operator should know. A panic of the Logger is ignored. Default slog.Default().
	Logger *slog.Logger

	// Modules are the extensions of the store: data types, commands, services and settings; see package module.
	// Default none.
	Modules Modules

	// Log makes the store a member of a group, and orders its commits; see storage.Log, DB.ApplyMessage, DB.Lead and DB.Follow. At
	// every level a write then is visible in this store at once, or when it is applied, and Always means that it is applied.
	// Lookups by the methods of DB and of handles may see what is not applied yet; a command of a Session waits until what it has
	// read is. Default nil: the store is alone.
	Log storage.Log

	// Identity is the identity of a new store. A store that becomes a member of a group takes the group's. Default: a
	// random one.
	Identity format.StoreMeta

	// LeaveGroup turns a member of a group into a store of its own. Without it Open returns ErrMember for such a store,
	// unless Log or ReadOnly is set. Default false.
	LeaveGroup bool

	// Clock returns the time for expiries. A time before 1970 counts as 1970. It is called while the store holds locks, so
	// it must not use the store. Default time.Now.
	Clock func() time.Time

	// pause is called at named points of slow paths. Tests set it to hold a goroutine there.
	pause func(point string)

	// flushAfter is how long a commit may be pending. Tests set it. 0 means the default, and below 0 none is pending.
	flushAfter time.Duration
}

const (
	minMemory = 16 << 20
	maxMemory = 1 << 40

	defaultMemTableSize = 32 << 20

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
	opts.setBudgets()
	opts.Durability = cmp.Or(opts.Durability, Always)
	opts.MaxFilterBytes = cmp.Or(opts.MaxFilterBytes, DefaultMaxFilterBytes)
	opts.BallastSize = cmp.Or(opts.BallastSize, 64<<20)
	opts.MinFreeSpace = cmp.Or(opts.MinFreeSpace, 4*int64(opts.MemTableSize)+64<<20)
	opts.FreeSpaceInterval = cmp.Or(opts.FreeSpaceInterval, time.Second)
	opts.MaxIdleTransaction = cmp.Or(opts.MaxIdleTransaction, 10*time.Second)
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
			errs = append(errs, fmt.Errorf("%s %d: must be %d to %d bytes", name, value, low, high))
		}
	}
	size("Memory", cmp.Or(o.Memory, minMemory), minMemory, maxMemory)
	size("CacheSize", o.CacheSize, minCacheSize, maxCacheSize)
	size("TableCacheSize", o.TableCacheSize, minTableCacheSize, maxTableCacheSize)
	size("StringCacheSize", max(1, o.StringCacheSize), 1, maxCacheSize)
	size("MemTableSize", int64(o.MemTableSize), minMemTableSize, maxMemTableSize)
	size("BallastSize", max(1, o.BallastSize), 1, maxDiskSize)
	size("MinFreeSpace", max(1, o.MinFreeSpace), 1, maxDiskSize)
	if o.MaxFilterBytes > maxDiskSize {
		errs = append(errs, fmt.Errorf("MaxFilterBytes %d: must be 1 to %d bytes", o.MaxFilterBytes, uint64(maxDiskSize)))
	}
	if d := o.FreeSpaceInterval; d < time.Millisecond || d > time.Hour {
		errs = append(errs, fmt.Errorf("FreeSpaceInterval %v: must be 1ms to 1h", d))
	}
	if d := o.MaxIdleTransaction; d > 0 && d < time.Millisecond {
		errs = append(errs, fmt.Errorf("MaxIdleTransaction %v: at least 1ms, or negative", d))
	}
	if d := o.LockTimeout; d < 0 || d > 24*time.Hour {
		errs = append(errs, fmt.Errorf("LockTimeout %v: must be 0 to 24h", d))
	}
	if o.ReadOnly && o.InMemory {
		errs = append(errs, errors.New("ReadOnly with InMemory: a store in memory is new"))
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
