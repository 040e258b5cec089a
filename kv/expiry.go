package kv

import (
	"context"
	"errors"
	"slices"

	"github.com/sievekv/sievekv/internal/expiry"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/storage"
)

// From its expiry on, every lookup finds a key missing, by the clock alone. Later Sweep removes what is stored under
// it. Sweep finds the key by a note: the commit that gives a key its expiry writes the note, and each commit that
// changes or removes the key deletes it. Notes are sorted by time, so a sweep reads only notes of keys that have
// expired, from a hint on (package expiry).

// ExpireIf says for which keys Expire sets a new time, see expiry.If.
type ExpireIf = expiry.If

// The conditions of Expire. They can be combined as in Redis: ExpireIfSet with one of the last two.
const (
	ExpireAlways   = expiry.Always
	ExpireIfUnset  = expiry.IfUnset // the key does not expire
	ExpireIfSet    = expiry.IfSet   // the key expires
	ExpireIfLater  = expiry.IfLater // the new time is later than the key's
	ExpireIfSooner = expiry.IfSooner
)

// Expire stages the time at which a key ceases to exist, in Unix milliseconds. It reports false if the key is
// missing, or the condition does not hold. A time that has passed removes the key at once.
func (w *Writer) Expire(key []byte, at int64, cond ExpireIf) (bool, error) {
	o, err := w.Object(key)
	if err != nil || o == nil || !cond.Holds(o.header.Expiry, at) {
		return false, err
	}
	if at <= w.Now() {
		_, err := w.Delete(key)
		return true, err
	}
	return true, w.setExpiry(key, o, at, false)
}

// Persist stages that a key does not expire, and reports whether it had an expiry.
func (w *Writer) Persist(key []byte) (bool, error) {
	o, err := w.Object(key)
	if err != nil || o == nil || o.header.Expiry == 0 {
		return false, err
	}
	return true, w.setExpiry(key, o, 0, false)
}

// Hide stages when a hidden object ceases to exist, in Unix milliseconds. With 0 the object is no longer hidden.
func (w *Writer) Hide(o *Object, until int64) error {
	return w.setExpiry([]byte(o.key), o, until, until != 0)
}

func (w *Writer) setExpiry(key []byte, o *Object, at int64, hidden bool) error {
	h := *o.header
	h.Expiry, h.Hidden = at, hidden
	timed, err := newObject(w.db, o.key, &h, o.layers)
	if err != nil {
		return err
	}
	w.setKey(key, timed)
	return nil
}

// sweepBatch is how many keys a sweep removes in one commit. It holds their locks for about a hundred microseconds.
const sweepBatch = 16

// Sweep, for services, removes keys that have expired, in one commit of at most 16 keys. It leaves keys that a writer
// has locked. It reports whether there may be more, including keys that another call is about to remove, but not
// whether locked keys are left: while the writer goes on, another call would do nothing. In a group the leader sweeps.
func (db *DB) Sweep(ctx context.Context) (more bool, err error) {
	if err := db.enter(); err != nil {
		return false, err
	}
	defer db.exit()
	if db.follows() {
		return false, nil
	}
	now := db.Now()
	if due, more := db.expiry.Due(now); !due {
		return more, nil
	}
	from := db.expiry.Raise()
	notes, next, more, err := db.expiredNotes(ctx, from, now)
	db.pauseAt("sweep: found")
	could := false
	if err == nil {
		could, err = db.sweep(notes)
	} else {
		next = from
	}
	db.expiry.Leave(next)
	return more && could && err == nil, err
}

// ExpiredKeys is Metrics.ExpiredKeys: how many keys Sweep has removed.
func (db *DB) ExpiredKeys() uint64 { return db.stats.expired.Load() }

// expiredNotes returns the notes, from a key on, that expiry.Hint.Take selects for a sweep.
func (db *DB) expiredNotes(ctx context.Context, from []byte, now int64) (notes []expiry.Note, next []byte, more bool, err error) {
	lower := from
	if len(lower) == 0 {
		lower = []byte{format.TagExpiry}
	}
	it, err := db.iterate(ctx, lower, expiry.End)
	if err == nil {
		notes, next, more, err = db.expiry.Take(it, expiry.Batch{Now: now, Notes: sweepBatch, Bytes: db.MaxCommit() / 2, Free: db.isKeyFree})
		err = errors.Join(err, it.Close())
	}
	if err != nil {
		return nil, nil, false, storage.ReadError(err, "expired keys")
	}
	return notes, next, more, nil
}

// sweep removes the keys of notes, and reports whether it could: it cannot while a transaction holds the gate.
func (db *DB) sweep(notes []expiry.Note) (could bool, err error) {
	if len(notes) == 0 {
		return true, nil
	}
	w, err := db.newWriter(NoSync)
	if err != nil {
		db.expiry.Lower(notes[0].Stored())
		return false, err
	}
	w.unseen = true
	var unread error
	var removed uint64
	err = w.run(func(w *Writer) error {
		if could = w.lockFor(notes); !could {
			return nil
		}
		for _, n := range notes {
			if !slices.Contains(w.keys, db.keyLockIndex(n.Key)) {
				continue
			}
			gone, err := w.removeExpired(n)
			if err != nil {
				unread = err // the others can be removed all the same; the next Open counts these
			}
			if gone {
				removed++
			}
		}
		return nil
	})
	if err != nil {
		db.expiry.Lower(notes[0].Stored())
		return could, errors.Join(err, unread)
	}
	db.stats.expired.Add(removed)
	return could, unread
}

// lockFor locks the keys of notes whose locks are free, and reports whether the sweep goes on. A sweep never waits
// for a writer, as other writers would then wait for the sweep. A later sweep comes to the others.
func (w *Writer) lockFor(notes []expiry.Note) bool {
	db := w.db
	free := db.gate.TryRLock()
	if free {
		w.gate = gateShared
	}
	for _, n := range notes {
		i := db.keyLockIndex(n.Key)
		switch {
		case free && slices.Contains(w.keys, i):
		case free && db.keyLocks[i].TryLock():
			w.keys = append(w.keys, i)
		default:
			db.expiry.Lower(n.Stored())
		}
	}
	return free
}

// removeExpired stages the removal of an expired key, and reports whether the key is there: if another commit came
// first, the note is gone. A string is removed by its note alone, without reading its header: the notes of keys that
// expire at the same time are close together, their headers are not.
func (w *Writer) removeExpired(n expiry.Note) (bool, error) {
	value, err := storage.ReadMeta(w.db.store, n.Stored())
	if err != nil || value == nil {
		return false, err
	}
	old := &Object{db: w.db, key: string(n.Key), header: &format.Header{Expiry: n.At}}
	if n.Object = len(value) > 0; n.Object {
		if old, err = w.stored(n.Key); err != nil || old == nil {
			return false, err
		}
		w.dropObject(old)
		w.setKey(n.Key, nil)
		return true, nil
	}
	w.addKey(stagedKey{key: old.key, stored: old, changed: true})
	return true, nil
}
