package kv

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/hot"
	"github.com/sievekv/sievekv/internal/residency"
	"github.com/sievekv/sievekv/internal/storage"
	"github.com/sievekv/sievekv/internal/text"
)

// Open opens the store in dir. It creates dir and the store if they do not exist. Nil options mean the defaults.
// Whatever the umask, only the user of the process can use what Open creates: modes 0700 and 0600. The errors are
// ErrOptions, ErrNotDirectory, ErrLocked, ErrUnfinished, ErrStray, ErrMember, ErrNotExist (only with MustExist or
// ReadOnly), ErrUnsupportedVersion, ErrCorrupt, ErrFailed and errors of the file system.
func Open(dir string, options *Options) (*DB, error) {
	opts, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	if dir == "" && !opts.InMemory && opts.FS == vfs.Default {
		return nil, fmt.Errorf(`%w: the directory is "": name one, or set InMemory`, ErrOptions)
	}
	if info, err := opts.FS.Stat(dir); !opts.InMemory && err == nil && !info.IsDir() { // to open a named pipe could take for ever
		return nil, fmt.Errorf("%w: %s", ErrNotDirectory, dir)
	}
	db := &DB{opts: opts, opened: opts.Clock(), idle: make(chan struct{}, 1)}
	db.clock = db.Now
	db.registry, _ = newRegistry(opts.Modules) // withDefaults has looked for errors
	if opts.Modules != nil {
		db.running = opts.Modules.Attach(db)
	}
	db.ending, db.end = context.WithCancel(context.Background())
	for i := range db.shards {
		db.shards[i].objects = make(map[string]*Object)
	}
	for i := range db.stripes {
		db.stripes[i].flights = make(map[flightKey]*flight)
	}
	db.store, err = storage.Open(dir, storage.Options{
		FS: opts.FS, InMemory: opts.InMemory, MustExist: opts.MustExist, ReadOnly: opts.ReadOnly, LockTimeout: opts.LockTimeout,
		TableCacheSize: opts.TableCacheSize, MemTableSize: opts.MemTableSize, Seed: opts.Seed, Identity: opts.Identity,
		BallastSize: opts.BallastSize, MinFreeSpace: opts.MinFreeSpace, FreeSpaceInterval: opts.FreeSpaceInterval,
		Logger: opts.Logger, Failed: db.hasFailed, FlushAfter: opts.flushAfter, Pause: opts.pause, Log: opts.Log,
		LeaveGroup: opts.LeaveGroup,
	})
	if err != nil {
		return nil, err
	}
	db.dir, db.meta = db.store.Dir, db.store.Meta
	if g := db.store.Group; g != nil {
		db.millis.Store(g.Applied().Millis)
	}
	db.strings = hot.New(opts.StringCacheSize, db.store.Fresh)
	if err := db.readMeta(); err != nil {
		return nil, errors.Join(err, db.closeStore())
	}
	if db.residency, err = residency.New(opts.CacheSize); err != nil {
		return nil, errors.Join(text.After(err, "kv: block cache"), db.closeStore())
	}
	db.stopKeeper, db.keeperDone = make(chan struct{}), make(chan struct{})
	go db.keep()
	if db.running != nil {
		if err := db.running.Start(); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return db, nil
}

// closeStore closes a store that Open could not finish.
func (db *DB) closeStore() error {
	db.store.End(func() bool { return false })
	return db.store.Close()
}

// hasFailed is called once, when the store fails.
func (db *DB) hasFailed(err error) {
	db.failed.Store(&err)
	db.word.Or(isFailed)
	db.shutAll()
	db.end()
}

// Descriptors returns the process's limit of file descriptors when the store was opened, 0 if there is none or it is
// not known, and how many descriptors the store needs. If fewer are left for it, the store may have to wait for some.
// A store in memory needs none.
func (db *DB) Descriptors() (limit, need int) {
	return db.store.DescriptorLimit, db.store.DescriptorNeed
}
