package kv

import (
	"context"
	"errors"
)

// What a Go program does to keys and strings, each a commit of its own. The names
// and rules are those of Redis' commands.

// Get returns the string under a key. The errors are ErrNotFound and ErrWrongType.
func (db *DB) Get(key []byte) (value []byte, err error) {
	err = db.Read(func(r Reader) error {
		stored, err := r.Get(key)
		if err == nil && stored == nil {
			err = notFound(key)
		}
		value = append([]byte{}, stored...)
		return err
	})
	return value, err
}

// MGet returns the strings under keys as of one moment, nil for each that is missing or holds another type.
func (db *DB) MGet(keys ...[]byte) (values [][]byte, err error) {
	values = make([][]byte, len(keys))
	err = db.readKeys(nil, func(r Reader) error {
		for i, key := range keys {
			stored, err := r.Get(key)
			if err != nil && !errors.Is(err, ErrWrongType) {
				return err
			}
			values[i] = nil
			if stored != nil {
				values[i] = append([]byte{}, stored...)
			}
		}
		return nil
	})
	return values, err
}

// Set sets the string under a key, replacing what is there of whatever type, and
// reports whether the condition let it.
func (db *DB) Set(level Durability, key, value []byte, o SetOptions) (done bool, err error) {
	err = db.Write(level, [][]byte{key}, func(w *Writer) error {
		done, err = w.Set(key, value, o)
		return err
	})
	return done && err == nil, err
}

// Incr adds n to the integer under a key, 0 if it is missing, and returns the sum.
// The errors are ErrNotInteger, ErrOverflow and ErrWrongType.
func (db *DB) Incr(level Durability, key []byte, n int64) (sum int64, err error) {
	err = db.Write(level, [][]byte{key}, func(w *Writer) error {
		sum, err = w.Incr(key, n)
		return err
	})
	return sum, err
}

// Expire sets when a key ceases to exist, in Unix milliseconds, and reports whether
// it is there and the condition let it.
func (db *DB) Expire(level Durability, key []byte, at int64, cond ExpireIf) (done bool, err error) {
	err = db.Write(level, [][]byte{key}, func(w *Writer) error {
		done, err = w.Expire(key, at, cond)
		return err
	})
	return done && err == nil, err
}

// Persist makes a key not expire, and reports whether it was to.
func (db *DB) Persist(level Durability, key []byte) (done bool, err error) {
	err = db.Write(level, [][]byte{key}, func(w *Writer) error {
		done, err = w.Persist(key)
		return err
	})
	return done && err == nil, err
}

// ExpiryOf returns when a key ceases to exist, in Unix milliseconds, 0 for never.
// It returns ErrNotFound for a missing key.
func (db *DB) ExpiryOf(key []byte) (at int64, err error) {
	err = db.Read(func(r Reader) error {
		o, err := r.Lookup(key)
		if err == nil && o == nil {
			err = notFound(key)
		}
		if err == nil {
			at = o.Expiry()
		}
		return err
	})
	return at, err
}

// Delete removes keys and returns how many were there. Several keys go in one
// commit. The work does not depend on the size of what is removed.
func (db *DB) Delete(level Durability, keys ...[]byte) (n int, err error) {
	err = db.Write(level, keys, func(w *Writer) error {
		n, err = w.DeleteKeys(context.Background(), keys)
		return err
	})
	return n, err
}

// Rename moves what is under src to dst in one commit, replacing what is there. Lookups of dst find the old value or
// the new one, never neither. It returns ErrNotFound if src is missing. Src and dst may be equal.
func (db *DB) Rename(level Durability, src, dst []byte) error {
	return db.Write(level, [][]byte{src, dst}, func(w *Writer) error { return w.Rename(src, dst) })
}

// RenameIfFree is Rename if nothing is under dst, and reports whether that was so.
func (db *DB) RenameIfFree(level Durability, src, dst []byte) (done bool, err error) {
	err = db.Write(level, [][]byte{src, dst}, func(w *Writer) error {
		done, err = w.RenameIfFree(src, dst)
		return err
	})
	return done && err == nil, err
}

// Copy copies what is under src to dst, its expiry too, and reports whether src is there and dst is free, or replace
// is set. Writers of both keys wait. With the context of a transaction that writes it returns ErrNested.
func (db *DB) Copy(ctx context.Context, level Durability, src, dst []byte, replace bool) (done bool, err error) {
	if err := db.Outside(ctx); err != nil {
		return false, err
	}
	err = db.Write(level, [][]byte{src, dst}, func(w *Writer) error {
		done, err = w.Copy(ctx, src, dst, replace)
		return err
	})
	return done && err == nil, err
}

// Exists returns how many of the keys are there; one named twice counts twice. All are seen as of one moment.
func (db *DB) Exists(keys ...[]byte) (n int, err error) {
	read := db.readKeys
	if len(keys) == 1 {
		read = db.read // it may be open
	}
	err = read(withoutValue, func(r Reader) error {
		n, err = r.Count(context.Background(), keys)
		return err
	})
	return n, err
}
