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
		if db.closing.Load() || !e.Found(notes) {
			_ = it.Close() // an error of what was read does not matter any more
			return
		}
		notes = 0
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		err = storage.ReadError(err, "keys that expire")
		db.opts.Logger.Warn("sievekv: keys that expire cannot be counted", "dir", db.dir, "error", err.Error())
		e.End(false)
		return
	}
	e.Found(notes)
	e.End(true)
}
