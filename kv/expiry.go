package kv

import (
	"context"
	"errors"
	"math"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// A key that has expired is missing for everyone who looks, from that moment on,
// by the clock alone. What is left of it is removed by Sweep, which finds it by a
// note that the commit giving a key its expiry writes, and each commit that changes
// or removes the key takes away: sorted by time, so that a sweep reads no more than
// has expired.

// expiryHint is a time before which no key expires. The notes of swept keys are
// deleted, but reading past what is left of them in tables takes as long as they
// were many: a search begins at the hint.
//
// A sweep raises it to the end of time, then looks, and lowers it to the first note
// it leaves. A commit lowers it after it is applied: so either the sweep sees the
// note, or the lowering comes after the raising.
type expiryHint struct{ from atomic.Int64 }

func (h *expiryHint) lower(at int64) {
	for {
		old := h.from.Load()
		if old <= at || h.from.CompareAndSwap(old, at) {
			return
		}
	}
}

// ExpireIf says for which keys Expire sets a new time, by the one they have. The
// conditions may be combined as in Redis: ExpireIfSet with one of the last two.
type ExpireIf uint8

// The conditions of Expire. A key that does not expire counts as expiring after
// everything.
const (
	ExpireAlways  ExpireIf = 0
	ExpireIfUnset ExpireIf = 1 << iota // it does not expire
	ExpireIfSet                        // it expires
	ExpireIfLater                      // the new time is later
	ExpireIfSooner
)

func (c ExpireIf) holds(old, at int64) bool {
	switch {
	case c&ExpireIfUnset != 0 && old != 0,
		c&ExpireIfSet != 0 && old == 0,
		c&ExpireIfLater != 0 && (old == 0 || at <= old),
		c&ExpireIfSooner != 0 && old != 0 && at >= old:
		return false
	}
	return true
}

// Expire stages the time at which a key ceases to exist, in Unix milliseconds, and
// reports whether it is there and the condition let it. A time that has passed
// removes the key at once.
func (w *Writer) Expire(key []byte, at int64, cond ExpireIf) (bool, error) {
	o, err := w.Object(key)
	if err != nil || o == nil || !cond.holds(o.header.expiry, at) {
		return false, err
	}
	if at <= w.db.Now() {
		_, err := w.Delete(key)
		return true, err
	}
	return true, w.setExpiry(key, o, at)
}

// Persist stages that a key does not expire, and reports whether it was to.
func (w *Writer) Persist(key []byte) (bool, error) {
	o, err := w.Object(key)
	if err != nil || o == nil || o.header.expiry == 0 {
		return false, err
	}
	return true, w.setExpiry(key, o, 0)
}

func (w *Writer) setExpiry(key []byte, o *Object, at int64) error {
	h := *o.header
	h.expiry = at
	timed, err := newObject(w.db, o.key, &h, o.layers)
	if err != nil {
		return err
	}
	w.setView(key, timed)
	w.handed = append(w.handed, o)
	return nil
}

// sweepBatch is how many keys a sweep removes in one commit: the locks of that many
// are held for a few hundred microseconds.
const sweepBatch = 64

// Sweep removes keys that have expired, and reports whether there may be more. Each
// call is one commit, of 64 keys at most.
func (db *DB) Sweep(ctx context.Context) (more bool, err error) {
	if err := db.enter(); err != nil {
		return false, err
	}
	defer db.exit()
	now := db.Now()
	if db.expiry.from.Load() > now {
		return false, nil
	}
	from := db.expiry.from.Swap(math.MaxInt64)
	notes, next, err := db.expiredNotes(ctx, from, now)
	if err == nil {
		err = db.sweep(notes)
	}
	if err != nil {
		next = from
	}
	db.expiry.lower(next)
	return err == nil && next <= now, err
}

// ExpiredKeys returns how many keys were removed by Sweep since Open.
func (db *DB) ExpiredKeys() uint64 { return db.stats.expired.Load() }

type expiryNote struct {
	at  int64
	key []byte
}

// expiredNotes returns the notes of keys that have expired, of a batch at most, and
// the time of the first it leaves.
func (db *DB) expiredNotes(ctx context.Context, from, now int64) (notes []expiryNote, next int64, err error) {
	it, err := db.pebble.NewIterWithContext(ctx, &pebble.IterOptions{
		LowerBound: appendExpiryKey(nil, max(0, from), nil), UpperBound: []byte{tagExpiry + 1},
	})
	if err != nil {
		return nil, 0, db.readError(err, "expired keys")
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	next = math.MaxInt64
	for ok := it.First(); ok; ok = it.Next() {
		at, key, err := decodeExpiryKey(it.Key())
		if err != nil {
			return nil, 0, err
		}
		if at > now || len(notes) == sweepBatch {
			next = at
			break
		}
		notes = append(notes, expiryNote{at, append([]byte{}, key...)})
	}
	if err := it.Error(); err != nil {
		return nil, 0, db.readError(err, "expired keys")
	}
	return notes, next, nil
}

func (db *DB) sweep(notes []expiryNote) error {
	if len(notes) == 0 {
		return nil
	}
	keys := make([][]byte, len(notes))
	for i, n := range notes {
		keys[i] = n.key
	}
	w, err := db.Begin(NoSync, keys...)
	if err != nil {
		return err
	}
	w.unseen = true
	var unread error
	for _, n := range notes {
		old, err := w.stored(n.key)
		if err != nil {
			unread = err // the others can go all the same
			continue
		}
		if old == nil || old.header.expiry != n.at || !old.expired() {
			continue // another commit came first, and took the note away
		}
		w.dropObject(old)
		w.setView(n.key, nil)
		db.stats.expired.Add(1)
	}
	return errors.Join(w.Commit(), unread)
}
