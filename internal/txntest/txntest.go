// Package txntest is for tests: it runs transactions of package kv, as package sievekv does, on stores that have only some of
// the modules.
package txntest

import (
	"context"
	"fmt"

	"github.com/sievekv/sievekv/kv"
)

// Tx is a transaction that writes. The method In of a handle binds the handle to it. Several goroutines may use it,
// one at a time, until the function of Update returns; later uses return kv.ErrEnded.
//
// A write inside Update's function that is not part of the transaction, such as one by a handle not bound to it,
// would wait for the end of the function, and so for itself. It returns kv.ErrNested. If another goroutine makes it
// on behalf of the function, that cannot be detected, and it returns kv.ErrBusy after Options.MaxIdleTransaction.
type Tx struct{ *kv.Transaction }

// Snapshot is the store as of one commit. The method In of a handle binds the handle to it; a write through such a
// handle returns kv.ErrReadOnly.
type Snapshot struct{ *kv.Transaction }

// Update runs f in a transaction, and commits its writes if f returns nil. If f returns an error or panics, nothing
// changes, and Update returns the error or panics too. Other writes of the store wait while f runs, but not while
// Update waits for the disk.
//
// At level kv.Always, Update returns or panics only when everything that f wrote or read is on stable storage, so that
// no crash takes back what an answer or an error says. The errors are f's, or kv.ErrFailed instead; errors of
// kv.DB.BeginExclusive; and kv.ErrTooLarge if the writes do not fit into one commit, which may have a quarter of
// Options.MemTableSize.
func Update(ctx context.Context, db *kv.DB, level kv.Durability, f func(*Tx) error) error {
	return db.Update(ctx, level, func(tx *kv.Transaction) error { return f(&Tx{tx}) })
}

// View runs f with a snapshot of the store, and returns the error of f.
func View(ctx context.Context, db *kv.DB, f func(*Snapshot) error) error {
	return db.View(ctx, func(tx *kv.Transaction) error { return f(&Snapshot{tx}) })
}

// Begin begins a transaction, which ends with Commit, Rollback, or the end of its context, which rolls it back. Until
// then all other writes of the store wait. When the context ends, they go on, also a write that the user of the
// transaction has made outside of it by mistake. Update fails such a write, see Tx. So prefer Update.
func Begin(ctx context.Context, db *kv.DB, level kv.Durability) (*Tx, error) {
	tx, err := db.BeginExclusive(ctx, level)
	if err != nil {
		return nil, err
	}
	return &Tx{tx}, nil
}

// Get returns the string under a key. The errors are kv.ErrNotFound and kv.ErrWrongType.
func (tx *Tx) Get(key string) ([]byte, error) { return get(tx.Transaction, key) }

// Get returns the string under a key. The errors are kv.ErrNotFound and kv.ErrWrongType.
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

// Exists returns how many of the keys exist; a key given twice counts twice.
func (tx *Tx) Exists(keys ...string) (int, error) { return exists(tx.Transaction, keys) }

// Exists returns how many of the keys existed; a key given twice counts twice.
func (s *Snapshot) Exists(keys ...string) (int, error) { return exists(s.Transaction, keys) }

func exists(tx *kv.Transaction, keys []string) (n int, err error) {
	err = tx.Read(func(r kv.Reader) error {
		n = 0
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

// Set sets the string under a key, replacing an existing key of any type.
func (tx *Tx) Set(key string, value []byte) error {
	_, err := tx.SetWith(key, value, kv.SetOptions{})
	return err
}

// SetWith is Set with options, and reports whether their condition held and the string was set.
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

// Delete removes keys of any type, and returns how many existed.
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

// Rename renames src to dst, replacing an existing dst. It returns kv.ErrNotFound if src is missing.
func (tx *Tx) Rename(src, dst string) error {
	return tx.Write(func(w *kv.Writer) error { return w.Rename([]byte(src), []byte(dst)) })
}

// Copy copies src with its expiry to dst. It reports whether it did: src must exist, and dst must not, unless replace
// is set.
func (tx *Tx) Copy(src, dst string, replace bool) (done bool, err error) {
	err = tx.Write(func(w *kv.Writer) error {
		done, err = w.Copy(tx.Context(), []byte(src), []byte(dst), replace)
		return err
	})
	return done, err
}

// Expire sets when a key expires, at in Unix milliseconds, and reports whether the key exists. A past time removes
// the key.
func (tx *Tx) Expire(key string, at int64) (done bool, err error) {
	err = tx.Write(func(w *kv.Writer) error {
		done, err = w.Expire([]byte(key), at, kv.ExpireAlways)
		return err
	})
	return done, err
}
