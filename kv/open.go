package kv

import (
	"context"
	"errors"
	"fmt"

	"github.com/sievekv/sievekv/kv/storage"
)

// Open opens the store in dir, creating dir and the store if need be; nil options mean the defaults. What it creates
// is for the user of the process alone, whatever the umask: modes 0700 and 0600. The errors are ErrOptions,
// ErrLocked, ErrNotExist (only with MustExist), ErrUnsupportedVersion, ErrCorrupt, ErrFailed and those of the file
// system.
func Open(dir string, options *Options) (*DB, error) {
	opts, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	db := &DB{opts: opts, opened: opts.Clock(), idle: make(chan struct{}, 1)}
	if db.registry, err = newRegistry(opts.Modules); err != nil {
		return nil, err // it was checked with the options
	}
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
		FS: opts.FS, InMemory: opts.InMemory, MustExist: opts.MustExist,
		TableCacheSize: opts.TableCacheSize, MemTableSize: opts.MemTableSize, Seed: opts.Seed,
		BallastSize: opts.BallastSize, MinFreeSpace: opts.MinFreeSpace, FreeSpaceInterval: opts.FreeSpaceInterval,
		Logger: opts.Logger, Failed: db.hasFailed, Pause: opts.pause,
	})
	if err != nil {
		return nil, err
	}
	db.dir, db.meta = db.store.Dir, db.store.Meta
	if err := db.readMeta(); err != nil {
		return nil, errors.Join(err, db.closeStore())
	}
	if db.residency, err = newResidency(opts.CacheSize); err != nil {
		return nil, errors.Join(fmt.Errorf("kv: block cache: %w", err), db.closeStore())
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

// closeStore closes a store that nobody has used yet.
func (db *DB) closeStore() error {
	db.store.End(func() bool { return false })
	return db.store.Close()
}

// hasFailed is told when the store fails.
func (db *DB) hasFailed(err error) {
	db.failed.Store(&err)
	db.word.Or(isFailed)
	db.end()
}

// Descriptors returns the limit of descriptors of the process, as it was when the store was opened, 0 if there is none or
// it is not known; and how many of them the store needs, above which it may have to wait for them. A store in memory
// needs none.
func (db *DB) Descriptors() (limit, need int) {
	return db.store.DescriptorLimit, db.store.DescriptorNeed
}
