package kv

import (
	"context"
	"errors"
)

// Reader is what a lookup reads the store with. DB.Read, Transaction.Read and a type's Describe pass one.
type Reader struct {
	db     *DB
	source source
	now    int64                    // Unix milliseconds: keys that have expired by then are missing
	large  func(value []byte) error // see ReadOptions
}

// DB returns the store.
func (r Reader) DB() *DB { return r.db }

// Now returns the time by which keys have expired for the Reader, in Unix milliseconds. It does not change: keys that
// expire at the same time are all there, or all missing.
func (r Reader) Now() int64 { return r.now }

// Remembers reports whether later lookups find the same objects as the Reader, until a commit replaces them. It is
// false in a transaction or a snapshot.
func (r Reader) Remembers() bool { return !r.source.fixed() }

// AsOfOneCommit returns nil if all that the Reader reads is as of one commit, as in a transaction or a snapshot. Otherwise the
// lookup returns the error, and DB.Read runs it again on a snapshot.
func (r Reader) AsOfOneCommit() error {
	if r.source.fixed() {
		return nil
	}
	return errMoved
}

// Lookup returns the live object under a key; nil, nil if there is none. The value of a string is not read.
func (r Reader) Lookup(key []byte) (*Object, error) {
	r.large = withoutValue
	return r.find(key)
}

func (r Reader) find(key []byte) (*Object, error) { return r.source.find(key, r.large, r.now) }

// Count returns how many of the keys exist. A key that is named twice counts twice. Count returns the context's error
// when the context ends.
func (r Reader) Count(ctx context.Context, keys [][]byte) (n int, err error) {
	for i, key := range keys {
		if err := GivenUp(ctx, i); err != nil {
			return 0, err
		}
		o, err := r.Lookup(key)
		if err != nil {
			return 0, err
		}
		if o != nil {
			n++
		}
	}
	return n, nil
}

// Load returns a block, resident or read from disk, never nil without an error. The caller must read its lines with
// atomic loads. The block may lack commits that were applied after Load began.
func (r Reader) Load(o *Object, l *Layer, blk uint64) (*Line, error) { return r.source.load(o, l, blk) }

// Counter returns counter i of a layer, from 0 to 7.
func (r Reader) Counter(l *Layer, i int) uint64 { return r.source.counter(l, i) }

// Read runs a lookup so that what it has read was true at one moment: it sees no part of a commit that touches more than one
// key, replaces an object or changes slots. If such a commit was under way or was applied meanwhile, the lookup may have seen part
// of it, or have found blocks missing because their object had been dropped. Then Read runs the lookup again, and finally on a
// snapshot. The error of a run that may have seen half a commit is ignored. Strings in headers are read one at a time, so several
// may not belong to one moment: see ReadOptions.
//
// Look must not write, and must read with the Reader alone, except for DB.Touch.
func (db *DB) Read(look func(Reader) error) error { return db.ReadWith(ReadOptions{}, look) }

// ReadOptions say how ReadWith reads. With the zero value it reads as Read does.
type ReadOptions struct {
	// Large, if set, is called with each stored string of more than LargeValue bytes before it is copied. If it
	// returns an error, the lookup of that string returns the error.
	Large func(value []byte) error

	// Keys is for a lookup that reads keys and strings, and nothing else. It sees all of them as of one commit.
	Keys bool

	// Long is for a lookup that takes long. It sees everything as of one commit, and keeps no commit waiting.
	Long bool
}

// ReadWith is Read with options.
func (db *DB) ReadWith(o ReadOptions, look func(Reader) error) error {
	err := errMoved
	switch {
	case o.Long:
	case o.Keys:
		err = db.readKeys(o.Large, look)
	default:
		err = db.read(o.Large, look)
	}
	if errors.Is(err, errMoved) || errors.Is(err, errInBlocks) {
		return db.readLong(o.Large, look)
	}
	return err
}

func (db *DB) readLong(large func(value []byte) error, look func(Reader) error) error {
	v, err := db.newSnapshot()
	if err != nil {
		return err
	}
	defer v.close()
	return v.lookup(func() error { return look(Reader{db, v, v.now, large}) })
}

func (db *DB) read(large func(value []byte) error, look func(Reader) error) error {
	for range 2 {
		if err := db.awaitSequence(); err != nil {
			return err
		}
		db.pauseAt("read: begins")
		s := db.live()
		err := look(Reader{db, s, db.Now(), large})
		valid := s.valid()
		s.end()
		if valid || errors.Is(err, ErrClosed) || errors.Is(err, ErrFailed) {
			return err
		}
		db.pauseAt("read: again")
	}
	return errMoved
}

// readKeys runs a lookup that reads several keys and nothing else, as of one commit. The sequence lock is not enough:
// a commit that touches one string does not take it. Pebble's snapshot has all of such a commit or nothing.
func (db *DB) readKeys(large func(value []byte) error, look func(Reader) error) error {
	if err := db.awaitSequence(); err != nil {
		return err
	}
	if err := db.enter(); err != nil {
		return err
	}
	defer db.exit()
	before := db.Now()
	keys, done := db.store.Keys()
	defer done()
	return look(Reader{db, &headers{db.live(), keys, before}, db.Now(), large})
}
