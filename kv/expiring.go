package kv

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/sievekv/sievekv/kv/format"
	"github.com/sievekv/sievekv/kv/storage"
)

// The number of keys with an expiry is that of their notes. It is not stored: commits count the notes they write and
// take away, and those there were before are counted once, in the background, from when somebody first asks. A store
// that nobody asks is not read through.

// expiringKeys is the number of keys with an expiry.
type expiringKeys struct {
	// n is written by commits, which hold apply, and by the counting. While that goes
	// on it lacks the notes not counted yet, and is negative if they are taken away.
	n atomic.Int64

	mu    sync.Mutex
	state countState // guarded by mu, as is a change of n that is not a commit's
}

type countState uint8

const (
	notCounted countState = iota // n is what commits have changed, and no more
	counting
	counted
)

// none is for a commit that removes every key: there is nothing left to count.
func (e *expiringKeys) none() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.n.Store(0)
	e.state = counted
}

// known returns the number, and whether it is that of all.
func (e *expiringKeys) known() (n uint64, all bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return uint64(max(0, e.n.Load())), e.state == counted
}

// add adds notes that were counted, and reports whether to go on.
func (e *expiringKeys) add(notes int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state != counting {
		return false // every key was removed meanwhile
	}
	e.n.Add(notes)
	return true
}

// end ends the counting in a state, unless there was nothing left to count.
func (e *expiringKeys) end(state countState) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state == counting {
		e.state = state
	}
}

// ExpiringKeys returns the number of keys that have an expiry. As that of Size, it includes those that have expired
// and were not removed yet. The first call has the keys counted, which it does not wait for: until that is done the
// number is of those counted so far. From then on it is kept by commits, and costs nothing.
func (db *DB) ExpiringKeys() (uint64, error) {
	if err := db.settle(); err != nil {
		return 0, err
	}
	if err := db.countExpiring(); err != nil {
		return 0, err
	}
	n, _ := db.expiring.known()
	return n, nil
}

// countExpiring has the keys that expire counted, if they are not.
func (db *DB) countExpiring() error {
	e := &db.expiring
	e.mu.Lock()
	begun := e.state != notCounted
	e.mu.Unlock()
	if begun {
		return nil
	}
	if err := db.enter(); err != nil {
		return err
	}
	// Of a commit applied before the iterator is made the notes are counted, of another
	// what it changes: none is in between.
	db.lockApply()
	defer db.apply.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state != notCounted {
		db.exit()
		return nil
	}
	it, err := db.iterate(context.Background(), []byte{format.TagExpiry}, expiryEnd)
	if err != nil {
		db.exit()
		return storage.ReadError(err, "keys that expire")
	}
	e.n.Store(0)
	e.state = counting
	go func() {
		defer db.exit()
		db.countNotes(it)
	}()
	return nil
}

// countNotes counts the notes of an iterator. Close waits for it, and has it end early. If
// they cannot be read, the next who asks has them counted anew.
func (db *DB) countNotes(it *storage.Iterator) {
	defer db.pauseAt("expiring: ended")
	const few = 1024
	e := &db.expiring
	notes := int64(0)
	for ok := it.First(); ok; ok = it.Next() {
		if notes++; notes < few {
			continue
		}
		db.pauseAt("expiring: counted some")
		if db.closing.Load() || !e.add(notes) {
			_ = it.Close() // what it read does not matter any more
			return
		}
		notes = 0
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		err = storage.ReadError(err, "keys that expire")
		db.opts.Logger.Warn("sievekv: keys that expire cannot be counted", "dir", db.dir, "error", err.Error())
		e.end(notCounted)
		return
	}
	e.add(notes)
	e.end(counted)
}
