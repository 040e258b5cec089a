package kv

import (
	"context"
	"errors"
	"fmt"

	"github.com/sievekv/sievekv/kv/format"
	"github.com/sievekv/sievekv/kv/storage"
)

// DeleteAll removes every key in one commit.
func (db *DB) DeleteAll(level Durability) error {
	w, err := db.beginAll(context.Background(), level)
	if err != nil {
		return err
	}
	return w.run((*Writer).DeleteAll)
}

// Reader is what a lookup through Read looks with.
type Reader struct {
	db     *DB
	steady bool    // apply is held, shared
	w      *Writer // in a transaction that writes
	view   *view   // in a view
	at     int64   // the moment that it looks at, if neither of them is set: see now

	// headers is what the headers of several keys are read from, as of one moment;
	// nil if only one is.
	headers storage.Reader

	large func(value []byte) error // see access
}

// DB returns the store.
func (r Reader) DB() *DB { return r.db }

// readKeys is Read of headers of several keys alone, which are seen as of one moment.
// A commit that touches a single string is not under the sequence lock, but is one
// in a snapshot, as all are.
func (db *DB) readKeys(large func(value []byte) error, look func(Reader) error) error {
	if err := db.settle(); err != nil {
		return err
	}
	if err := db.enter(); err != nil {
		return err
	}
	defer db.exit()
	keys, done := db.store.Keys()
	defer done()
	return look(Reader{db: db, headers: keys, large: large, at: db.Now()})
}

// header returns the header of a key, nil if there is nothing under it.
func (r Reader) header(key []byte) (*format.Header, error) {
	if r.headers == nil {
		o, err := r.lookup(key)
		if o == nil || err != nil {
			return nil, err
		}
		return o.header, nil
	}
	if len(key) > MaxKeyLen {
		return nil, keyTooLong(key)
	}
	h, err := r.db.readHeader(r.headers, key, r.large)
	if h == nil || err != nil || h.Expiry != 0 && h.Expiry <= r.Now() {
		return nil, err
	}
	return h, nil
}

// Lookup returns the live object under a key; nil, nil if there is none. Of a string it says no
// more than that it is one.
func (r Reader) Lookup(key []byte) (*Object, error) {
	r.large = withoutValue
	return r.lookup(key)
}

func (r Reader) lookup(key []byte) (*Object, error) {
	switch {
	case r.w != nil:
		return r.w.find(key, r.large)
	case r.view != nil:
		return r.view.find(key, r.large)
	}
	return r.db.lookup(key, access{r.steady, r.large}, r.at)
}

// Now returns the time by which keys have expired for the Reader, in Unix milliseconds. It is
// one moment: keys that expire together are all there, or all missing.
func (r Reader) Now() int64 {
	switch {
	case r.w != nil:
		return r.w.Now()
	case r.view != nil:
		return r.view.now
	}
	return r.at
}

// Fixed reports whether nothing changes under the Reader: what it reads is a
// transaction's, or a view.
func (r Reader) Fixed() bool { return r.w != nil || r.view != nil }

// Counter returns counter i of a layer.
func (r Reader) Counter(l *Layer, i int) uint64 {
	if r.w != nil {
		return r.w.Counter(l, i)
	}
	return l.Counter(i)
}

// Count returns how many of the keys are there. One that is named twice counts twice. It ends with
// the context.
func (r Reader) Count(ctx context.Context, keys [][]byte) (n int, err error) {
	r.large = withoutValue
	for i, key := range keys {
		if err := GivenUp(ctx, i); err != nil {
			return 0, err
		}
		h, err := r.header(key)
		if err != nil {
			return 0, err
		}
		if h != nil {
			n++
		}
	}
	return n, nil
}

// Load returns a block, resident or read from disk, never nil without an error.
// Its lines may be read with atomic loads; it may lack commits applied after
// Load began.
func (r Reader) Load(o *Object, l *Layer, blk uint64) (*Line, error) {
	switch {
	case r.w != nil:
		return r.w.stagedBlock(o, l, blk)
	case r.view != nil:
		return r.view.load(o, l, blk)
	}
	return r.db.load(o, l, blk, r.steady)
}

// Read runs a lookup so that it sees no part of a commit that touches more than
// one key or replaces an object. If one was under way or applied meanwhile, the
// lookup may have seen some of it, or read from disk what is left of an object
// that was dropped, which is nothing: it is repeated, with such commits held
// off. That an object was closed to save memory is no reason: its blocks have
// everything up to then, which is after the lookup began. An error of the first
// time does not count if it is repeated: it may rest on half a commit.
//
// Look must not write, and must look with the Reader alone, but for DB.Touch: the second time it
// runs with a lock held that other lookups of the DB take too.
func (db *DB) Read(look func(Reader) error) error { return db.read(nil, look) }

// ReadOptions say how ReadWith reads. The zero value is the way of Read.
type ReadOptions struct {
	// Large, if set, is told of each stored string of more than LargeValue bytes before it is copied. An
	// error of its ends the lookup of that string.
	Large func(value []byte) error

	// Keys is for a lookup of the headers of several keys, and of nothing else: it sees all of
	// them as of one moment.
	Keys bool

	// Long is for a lookup that takes long: it sees everything as of one moment, and keeps no
	// commit waiting.
	Long bool
}

// ReadWith is Read with options.
func (db *DB) ReadWith(o ReadOptions, look func(Reader) error) error {
	switch {
	case o.Long:
		return db.readLong(o.Large, look)
	case o.Keys:
		return db.readKeys(o.Large, look)
	}
	return db.read(o.Large, look)
}

func (db *DB) readLong(large func(value []byte) error, look func(Reader) error) error {
	v, err := db.newView()
	if err != nil {
		return err
	}
	defer v.close()
	return look(Reader{db: db, view: v, large: large})
}

func (db *DB) read(large func(value []byte) error, look func(Reader) error) error {
	if err := db.settle(); err != nil {
		return err
	}
	db.pauseAt("read: settled")
	before := db.word.Load()
	err := look(Reader{db: db, large: large, at: db.Now()})
	if before&seqOdd == 0 && db.word.Load() == before || errors.Is(err, ErrClosed) || errors.Is(err, ErrFailed) {
		return err
	}
	db.pauseAt("read: again")
	db.apply.RLock()
	defer db.apply.RUnlock()
	return look(Reader{db: db, steady: true, large: large, at: db.Now()})
}

// TypeOf returns the type of a key as TYPE prints it, "none" if it is missing.
func (db *DB) TypeOf(key []byte) (string, error) {
	o, err := db.Lookup(key)
	if err != nil || o == nil {
		return "none", err
	}
	return o.TypeName(), nil
}

// Size returns the number of keys. It includes expired ones that were not removed
// yet.
func (db *DB) Size() (n uint64, err error) {
	err = db.Read(func(Reader) error { n = db.keys.Load(); return nil })
	return n, err
}

// As returns the object's body as a module's own type. The errors are
// ErrNotFound for a nil object, ErrNoModule and ErrWrongType.
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

// ObjectBytes returns an estimate of the bytes an object's blocks take on disk,
// what is in memtables not included, and the bytes of those in memory.
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
		resident += l.residentBlocks() * uint64(l.blockBytes())
	}
	return disk, resident, nil
}

// Expiry returns when the object ceases to exist, in Unix milliseconds; 0 means
// never.
func (o *Object) Expiry() int64 { return o.header.Expiry }

// Now returns the time by the store's clock, in Unix milliseconds. A time before 1970, as
// a board without a battery may tell after it starts, is 0: expiries are positive.
func (db *DB) Now() int64 { return max(0, db.opts.Clock().UnixMilli()) }
