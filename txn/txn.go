// Package txn makes many reads and writes as one: a filter and the data it guards
// change together or not at all, and can be looked at as of one moment.
//
//	err := txn.Update(ctx, db, kv.Always, func(tx *txn.Tx) error {
//		isNew, err := seen.In(tx).AddString("order:17") // sievekv's Tx has Bloom, Cuckoo and Counting
//		...
//		return tx.Set("order:17", row)
//	})
//
// Update is serializable: all of its writes are one commit, no other write of the
// store is between its reads and that commit, and it reads what it has written. Who
// looks meanwhile finds the store as it was, and afterwards all of it. View reads the
// store as of one commit, however long it takes, and keeps nobody waiting.
//
// The module of the package has the commands MULTI, EXEC, DISCARD, WATCH and UNWATCH.
package txn

import (
	"context"
	"fmt"

	"github.com/sievekv/sievekv/kv"
)

// ErrNested is returned by Update, View and Begin for the context of a transaction,
// which would wait for itself.
var ErrNested = kv.ErrNested

// Tx is a transaction that writes. Handles are bound to it by their In. It may be used
// by several goroutines, which take turns, until the function it was given to
// returns: then every use is kv.ErrEnded.
//
// A write that is made inside of Update's function and is not part of the transaction,
// such as one by a handle that is not bound to it, would wait for the function's end, and
// so for itself: it returns kv.ErrNested, or, if that cannot be known because the function
// has another goroutine make it, kv.ErrBusy after Options.MaxIdleTransaction.
type Tx struct{ *kv.Transaction }

// Snapshot is a view of the store as of one commit. Handles are bound to it by their
// In; a write through one is kv.ErrReadOnly.
type Snapshot struct{ *kv.Transaction }

// Update runs f in a transaction, and commits what f did if it returns nil. If f
// returns an error or panics nothing is changed, and Update returns the error, or
// panics too. Other writes of the store wait from before f is called to after it
// returns, but not for the disk. Under kv.Always, Update returns, or panics, when what f
// wrote is on stable storage and everything that it read is, so that no crash takes back
// what an error says. The errors are f's, or in its place kv.ErrFailed; those of
// kv.DB.BeginExclusive; and kv.ErrTooLarge if the writes do not fit into one commit, a
// quarter of Options.MemTableSize.
func Update(ctx context.Context, db *kv.DB, level kv.Durability, f func(*Tx) error) error {
	return db.Update(ctx, level, func(tx *kv.Transaction) error { return f(&Tx{tx}) })
}

// View runs f with a view of the store. It returns f's error.
func View(ctx context.Context, db *kv.DB, f func(*Snapshot) error) error {
	return db.View(ctx, func(tx *kv.Transaction) error { return f(&Snapshot{tx}) })
}

// Begin begins a transaction that Commit or Rollback ends, or the end of its context.
// Until then all other writes of the store wait. One that waits since before the
// context's end is made then, also if the user of the transaction made it: Update has no
// such case.
func Begin(ctx context.Context, db *kv.DB, level kv.Durability) (*Tx, error) {
	tx, err := db.BeginExclusive(ctx, level)
	if err != nil {
		return nil, err
	}
	return &Tx{tx}, nil
}

// Get returns the string under a key; kv.ErrNotFound if there is none.
func (tx *Tx) Get(key string) ([]byte, error) { return get(tx.Transaction, key) }

// Get returns the string under a key; kv.ErrNotFound if there was none.
func (s *Snapshot) Get(key string) ([]byte, error) { return get(s.Transaction, key) }

func get(tx *kv.Transaction, key string) (value []byte, err error) {
	err = tx.Read(func(r kv.Reader) error {
		stored, err := r.Get([]byte(key))
		if err == nil && stored == nil {
			err = fmt.Errorf("%w: %q", kv.ErrNotFound, key)
		}
		value = append([]byte{}, stored...)
		return err
	})
	return value, err
}

// Exists returns how many of the keys are there; one named twice counts twice.
func (tx *Tx) Exists(keys ...string) (int, error) { return exists(tx.Transaction, keys) }

// Exists returns how many of the keys were there; one named twice counts twice.
func (s *Snapshot) Exists(keys ...string) (int, error) { return exists(s.Transaction, keys) }

func exists(tx *kv.Transaction, keys []string) (n int, err error) {
	err = tx.Read(func(r kv.Reader) error {
		for _, key := range keys {
			o, err := r.Lookup([]byte(key))
			if err != nil {
				return err
			}
			if o != nil {
				n++
			}
		}
		return nil
	})
	return n, err
}

// Set sets the string under a key, replacing what is there.
func (tx *Tx) Set(key string, value []byte) error {
	_, err := tx.SetWith(key, value, kv.SetOptions{})
	return err
}

// SetWith is Set with options, and reports whether the condition let it write.
func (tx *Tx) SetWith(key string, value []byte, o kv.SetOptions) (done bool, err error) {
	err = tx.Write(func(w *kv.Writer) error {
		done, err = w.Set([]byte(key), value, o)
		return err
	})
	return done, err
}

// Incr adds n to the integer under a key, 0 if it is missing, and returns the sum.
func (tx *Tx) Incr(key string, n int64) (sum int64, err error) {
	err = tx.Write(func(w *kv.Writer) error {
		sum, err = w.Incr([]byte(key), n)
		return err
	})
	return sum, err
}

// Delete removes keys of any type, and returns how many were there.
func (tx *Tx) Delete(keys ...string) (n int, err error) {
	err = tx.Write(func(w *kv.Writer) error {
		for _, key := range keys {
			there, err := w.Delete([]byte(key))
			if err != nil {
				return err
			}
			if there {
				n++
			}
		}
		return nil
	})
	return n, err
}

// Rename moves what is under src to dst, replacing what is there. It returns
// kv.ErrNotFound if src is missing.
func (tx *Tx) Rename(src, dst string) error {
	return tx.Write(func(w *kv.Writer) error { return w.Rename([]byte(src), []byte(dst)) })
}

// Copy copies what is under src to dst, and reports whether src is there and dst is
// free, or replace is set.
func (tx *Tx) Copy(src, dst string, replace bool) (done bool, err error) {
	err = tx.Write(func(w *kv.Writer) error {
		done, err = w.Copy(tx.Context(), []byte(src), []byte(dst), replace)
		return err
	})
	return done, err
}

// Expire sets when a key ceases to exist, in Unix milliseconds, and reports whether it
// is there.
func (tx *Tx) Expire(key string, at int64) (done bool, err error) {
	err = tx.Write(func(w *kv.Writer) error {
		done, err = w.Expire([]byte(key), at, kv.ExpireAlways)
		return err
	})
	return done, err
}
