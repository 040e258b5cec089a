package kv

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/sievekv/sievekv/kv/expiry"
	"github.com/sievekv/sievekv/kv/format"
	"github.com/sievekv/sievekv/kv/storage"
)

// The number of keys with an expiry is the number of their notes. It is not stored. Commits count the notes that they
// write and delete. The notes stored before are counted once, in the background, when the number is first asked for;
// a store that is never asked does not read them.

// expiringKeys is the number of keys with an expiry.
type expiringKeys struct {
	// n is changed by commits, which hold apply, and by the counting. While the counting goes on, n lacks the notes
	// that are not counted yet, and is negative if commits delete some of them.
	n atomic.Int64

	mu    sync.Mutex
	state countState // guarded by mu, like a change of n that no commit makes
}

type countState uint8

const (
	notCounted countState = iota // n is only what commits have changed
	counting
	counted
)

// none is called by a commit that removes every key: nothing is left to count.
func (e *expiringKeys) none() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.n.Store(0)
	e.state = counted
}

// mend is called by a commit that mends notes, of which there are n then, that many more than before.
func (e *expiringKeys) mend(n uint64, more int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state == counted {
		e.n.Store(int64(n))
	} else {
		e.n.Add(more)
	}
}

// known returns the number, and whether all notes are counted.
func (e *expiringKeys) known() (n uint64, all bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return uint64(max(0, e.n.Load())), e.state == counted
}

// add adds counted notes, and reports whether the counting goes on.
func (e *expiringKeys) add(notes int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state != counting {
		return false // meanwhile every key was removed
	}
	e.n.Add(notes)
	return true
}

// end sets the state that the counting ends in, unless a commit removed every key meanwhile.
func (e *expiringKeys) end(state countState) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state == counting {
		e.state = state
	}
}

// ExpiringKeys returns the number of keys that have an expiry, including expired ones that are still stored. The
// first call starts the counting and does not wait for it: until it has ended, ExpiringKeys returns what is counted
// so far. From then on commits keep the number, and the call costs nothing.
func (db *DB) ExpiringKeys() (uint64, error) {
	if err := db.awaitSequence(); err != nil {
		return 0, err
	}
	if err := db.countExpiring(); err != nil {
		return 0, err
	}
	n, _ := db.expiring.known()
	return n, nil
}

// countExpiring starts the counting, unless that was done.
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
	// With apply held no commit is in between: the iterator has all notes of a commit, or n gets what the commit
	// changes.
	db.lockApply()
	defer db.apply.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state != notCounted {
		db.exit()
		return nil
	}
	it, err := db.iterate(context.Background(), []byte{format.TagExpiry}, expiry.End)
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

// countNotes counts the notes of an iterator. Close ends it early and waits for it. If the notes cannot be read, the
// next call of ExpiringKeys starts the counting anew.
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
			_ = it.Close() // an error of what was read does not matter any more
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
