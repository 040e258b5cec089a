package kv

import (
	"context"
	"errors"
)

// Writes and reads of keys and strings by Go programs, each a commit of its own. Names and rules are as in Redis's
// commands.

// write commits a change of keys. With an error its result is the zero value.
func write[T any](db *DB, level Durability, keys [][]byte, change func(*Writer) (T, error)) (result T, err error) {
	err = db.Write(level, keys, func(w *Writer) error {
		result, err = change(w)
		return err
	})
	if err != nil {
		return *new(T), err
	}
	return result, nil
}

// Get returns the string under a key. The errors are ErrNotFound and ErrWrongType.
func (db *DB) Get(key []byte) (value []byte, err error) {
	err = db.Read(func(r Reader) error {
		value, err = r.copied(key)
		if err == nil && value == nil {
			err = notFound(key)
		}
		return err
	})
	return value, err
}

// MGet returns the strings under keys as of one commit, nil for each key that is missing or holds another type.
func (db *DB) MGet(keys ...[]byte) (values [][]byte, err error) {
	values = make([][]byte, len(keys))
	err = db.ReadWith(ReadOptions{Keys: true}, func(r Reader) error {
		for i, key := range keys {
			value, err := r.copied(key)
			if err != nil && !errors.Is(err, ErrWrongType) {
				return err
			}
			values[i] = value
		}
		return nil
	})
	return values, err
}

// Set sets the string under a key, whatever was there, and reports whether the condition holds.
func (db *DB) Set(level Durability, key, value []byte, o SetOptions) (done bool, err error) {
	return write(db, level, [][]byte{key}, func(w *Writer) (bool, error) { return w.Set(key, value, o) })
}

// Incr adds n to the integer under a key, 0 if it is missing, and returns the sum.
// The errors are ErrNotInteger, ErrOverflow and ErrWrongType.
func (db *DB) Incr(level Durability, key []byte, n int64) (sum int64, err error) {
	return write(db, level, [][]byte{key}, func(w *Writer) (int64, error) { return w.Incr(key, n) })
}

// Expire sets when a key ceases to exist, in Unix milliseconds; a time that has passed, 0 too, removes it. It reports
// false if the key is missing or the condition does not hold.
func (db *DB) Expire(level Durability, key []byte, at int64, cond ExpireIf) (done bool, err error) {
	return write(db, level, [][]byte{key}, func(w *Writer) (bool, error) { return w.Expire(key, at, cond) })
}

// Persist removes the expiry of a key, and reports whether it had one.
func (db *DB) Persist(level Durability, key []byte) (done bool, err error) {
	return write(db, level, [][]byte{key}, func(w *Writer) (bool, error) { return w.Persist(key) })
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

// Delete removes keys in one commit and returns how many existed. The time does not depend on the size of what is
// removed.
func (db *DB) Delete(level Durability, keys ...[]byte) (n int, err error) {
	return write(db, level, keys, func(w *Writer) (int, error) { return w.DeleteKeys(context.Background(), keys) })
}

// Rename moves what is under src to dst in one commit, and replaces what is there. Lookups of dst find the old value
// or the new one, never none. It returns ErrNotFound if src is missing. Src and dst may be equal.
func (db *DB) Rename(level Durability, src, dst []byte) error {
	return db.Write(level, [][]byte{src, dst}, func(w *Writer) error { return w.Rename(src, dst) })
}

// RenameIfFree is Rename unless something is under dst, and reports whether it renamed.
func (db *DB) RenameIfFree(level Durability, src, dst []byte) (done bool, err error) {
	return write(db, level, [][]byte{src, dst}, func(w *Writer) (bool, error) { return w.RenameIfFree(src, dst) })
}

// Copy copies what is under src, its expiry included, to dst. It reports false if src is missing, or if dst is taken
// and replace is not set. Writers of both keys wait meanwhile. With the context of a transaction that writes it
// returns ErrNested.
func (db *DB) Copy(ctx context.Context, level Durability, src, dst []byte, replace bool) (done bool, err error) {
	if err := db.Outside(ctx); err != nil {
		return false, err
	}
	return write(db, level, [][]byte{src, dst}, func(w *Writer) (bool, error) { return w.Copy(ctx, src, dst, replace) })
}

// Exists returns how many of the keys exist, as of one commit. A key that is named twice counts twice.
func (db *DB) Exists(keys ...[]byte) (n int, err error) {
	// The object of a single key may be open, which saves reading the disk.
	err = db.ReadWith(ReadOptions{Large: withoutValue, Keys: len(keys) > 1}, func(r Reader) error {
		n, err = r.Count(context.Background(), keys)
		return err
	})
	return n, err
}
