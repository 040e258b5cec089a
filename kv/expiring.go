package kv

import (
	"context"
	"errors"

	"github.com/sievekv/sievekv/kv/expiry"
	"github.com/sievekv/sievekv/kv/format"
	"github.com/sievekv/sievekv/kv/storage"
)

// The number of keys with an expiry is the number of their notes. It is not stored. Commits count the notes that they
// write and delete. The notes stored before are counted once, in the background, when the number is first asked for;
// a store that is never asked does not read them.

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
	n, _ := db.expiring.Known()
	return n, nil
}

// countExpiring starts the counting, unless that was done.
func (db *DB) countExpiring() error {
	if db.expiring.Begun() {
		return nil
	}
	if err := db.enter(); err != nil {
		return err
	}
	// With apply held no commit is in between: the iterator has all notes of a commit, or n gets what the commit
	// changes.
	db.lockApply()
	defer db.apply.Unlock()
	var it *storage.Iterator
	begun, err := db.expiring.Begin(func() (err error) {
		if it, err = db.iterate(context.Background(), []byte{format.TagExpiry}, expiry.End); err != nil {
			err = storage.ReadError(err, "keys that expire")
		}
		return err
	})
	if err != nil || !begun {
		db.exit()
		return err
	}
	go func() {
		defer db.exit()
		db.countNotes(it)
	}()
	return nil
}

// countNotes counts the notes of an iterator, and closes it. Close ends it early and waits for it. If the notes cannot be
// read, the next call of ExpiringKeys starts the counting anew.
func (db *DB) countNotes(it *storage.Iterator) {
	defer db.pauseAt("expiring: ended")
	err := db.expiring.Read(it, func() bool {
		db.pauseAt("expiring: counted some")
		return !db.closing.Load()
	})
	if err = errors.Join(err, it.Close()); err != nil {
		err = storage.ReadError(err, "keys that expire")
		db.opts.Logger.Warn("sievekv: keys that expire cannot be counted", "dir", db.dir, "error", err.Error())
	}
}
