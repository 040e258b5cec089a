package kv

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/storage"
)

// DeleteAll removes every key in one commit.
func (db *DB) DeleteAll(level Durability) error {
	w, err := db.beginAll(context.Background(), level)
	if err != nil {
		return err
	}
	return w.run((*Writer).DeleteAll)
}

// TypeOf returns the type of a key as TYPE prints it, "none" if it is missing.
func (db *DB) TypeOf(key []byte) (string, error) {
	o, err := db.Lookup(key)
	if err != nil || o == nil {
		return "none", err
	}
	return o.TypeName(), nil
}

// Size returns the number of keys, including expired ones that are still stored.
func (db *DB) Size() (uint64, error) { return db.settled(&db.keys) }

// ExpiringKeys returns the number of keys that have an expiry, including expired ones that are still stored.
func (db *DB) ExpiringKeys() (uint64, error) { return db.settled(&db.expiring) }

// settled returns a number of keys at a moment when no commit is half applied.
func (db *DB) settled(n *atomic.Uint64) (uint64, error) {
	if err := db.awaitSequence(); err != nil {
		return 0, err
	}
	db.apply.RLock()
	defer db.apply.RUnlock()
	return n.Load(), nil
}

// As returns the object's body as a module's own type. The errors are ErrNotFound for a nil object, ErrNoModule and
// ErrWrongType.
func As[T any](key []byte, o *Object) (T, error) {
	var none T
	if o == nil {
		return none, fmt.Errorf("%w: %q", ErrNotFound, key)
	}
	if o.typ == nil && o.header.Module != format.BuiltInModule {
		return none, fmt.Errorf("%w: %q holds a %s of module %q", ErrNoModule, key, o.TypeName(), o.header.Module)
	}
	body, ok := o.body.(T)
	if !ok {
		return none, fmt.Errorf("%w: %q holds a %s", ErrWrongType, key, o.TypeName())
	}
	return body, nil
}

// ObjectBytes returns an estimate of the bytes that an object's blocks take on disk, without what is in memtables,
// and the bytes of its blocks in memory.
func (db *DB) ObjectBytes(o *Object) (disk, resident uint64, err error) {
	if err := db.enter(); err != nil {
		return 0, 0, err
	}
	defer db.exit()
	id := o.header.ID
	disk, err = db.store.Size(format.AppendObjectKey(nil, id), format.AppendObjectKey(nil, id+1))
	if err != nil {
		return 0, 0, storage.ReadError(err, "key %q: disk usage", o.key)
	}
	for _, l := range o.layers {
		resident += l.Blocks() * uint64(l.BlockBytes())
	}
	return disk, resident, nil
}

// Expiry returns when the object ceases to exist, in Unix milliseconds; 0 means never.
func (o *Object) Expiry() int64 { return o.header.Expiry }

// Now returns the time by the store's clock, in Unix milliseconds. A time before 1970, which a board without a
// battery may have after it starts, counts as 0: expiries are positive.
// In a group it is not before the time of the last message.
func (db *DB) Now() int64 { return max(0, db.opts.Clock().UnixMilli(), db.millis.Load()) }
