package sievekv

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
)

// Tx is a transaction that writes: see DB.Update and DB.BeginTx. It reads what it has written. Several goroutines may
// use it, one at a time, until it ends; later uses of it, and of handles that it has made, return ErrEnded. It has
// the methods of DB for keys and filters, with the same errors. It does not have the others: With, Size, Sync, Health,
// Check, Store and Close, nor Update, View and BeginTx.
type Tx struct{ tx *kv.Transaction }

// Snapshot is the store as of one commit, for reading: see DB.View. Keys that had not expired at its beginning do not
// expire in it. A write through one of its handles returns ErrReadOnly; every use after the function of View has
// returned returns ErrEnded.
type Snapshot struct{ tx *kv.Transaction }

// Update runs f in a transaction. If f returns nil, everything that it wrote through tx is one commit. If it returns
// an error or panics, nothing is written, and Update returns the error or panics too. Other writes of the store wait
// while f runs. Lookups go on: they see the store as it was before or as it is afterwards.
//
// Inside f, write only through tx. A write that is not part of the transaction, such as one by a handle of db, would
// wait for f to return, and so for itself. It returns ErrNested, or, if another goroutine makes it, ErrBusy after
// Options.MaxIdleTransaction, 10 seconds by default. Everything that f writes must fit into one commit, which may
// have a quarter of Options.MemTableSize, 8 MiB by default; otherwise the error is ErrTooLarge.
//
// If the context ends while f runs, the transaction is rolled back: later uses of it return ErrEnded together with
// the context's error, and so does Update.
//
// In this example the filter must exist: adding to a missing filter returns ErrNotFound, and then nothing is written.
//
//	err := db.Update(ctx, func(tx *sievekv.Tx) error {
//		if _, err := tx.Bloom("seen").AddString("order:17"); err != nil {
//			return err
//		}
//		return tx.Set("order:17", row)
//	})
func (db *DB) Update(ctx context.Context, f func(tx *Tx) error) error {
	return db.store.Update(ctx, db.level, func(tx *kv.Transaction) error { return f(&Tx{tx}) })
}

// View runs f with the store as of one commit, and returns the error of f. No write waits for it, however long it
// takes. Until f returns, data that is overwritten or deleted meanwhile keeps its space on the disk. After the
// context has ended, every use of the snapshot returns an error.
func (db *DB) View(ctx context.Context, f func(s *Snapshot) error) error {
	return db.store.View(ctx, func(tx *kv.Transaction) error { return f(&Snapshot{tx}) })
}

// BeginTx begins a transaction, which ends with Commit, Rollback, or the end of its context, which rolls it back.
// Until then all other writes of the store wait, as in Update. Prefer Update, which cannot be left open.
func (db *DB) BeginTx(ctx context.Context) (*Tx, error) {
	tx, err := db.store.BeginExclusive(ctx, db.level)
	if err != nil {
		return nil, err
	}
	return &Tx{tx}, nil
}

// Commit ends a transaction of BeginTx and writes all of it as one commit. After ErrFailed the outcome is unknown; after
// any other error nothing is written. In the function of Update, which commits by itself, Commit returns an error and does
// nothing.
func (tx *Tx) Commit() error { return tx.tx.Commit() }

// Rollback ends a transaction and writes nothing. After Commit it does nothing, so it can be deferred. If the function
// of Update calls Rollback and returns nil, Update returns ErrEnded.
func (tx *Tx) Rollback() error { return tx.tx.Rollback() }

// Scope returns the transaction of package kv, for handles of other packages.
func (tx *Tx) Scope() *kv.Transaction {
	if tx == nil {
		return nil
	}
	return tx.tx
}

// Scope returns the transaction of package kv, for handles of other packages.
func (s *Snapshot) Scope() *kv.Transaction {
	if s == nil {
		return nil
	}
	return s.tx
}

// Bloom returns a handle on the Bloom filter under a key, in the transaction.
func (tx *Tx) Bloom(key string) *Bloom { return &Bloom{*bloomext.New(tx.tx.DB(), key).In(tx)} }

// Cuckoo returns a handle on the cuckoo filter under a key, in the transaction.
func (tx *Tx) Cuckoo(key string) *Cuckoo { return &Cuckoo{*cuckooext.New(tx.tx.DB(), key).In(tx)} }

// Counting returns a handle on the counting Bloom filter under a key, in the transaction.
func (tx *Tx) Counting(key string) *Counting {
	return &Counting{*countingext.New(tx.tx.DB(), key).In(tx)}
}

// Bloom returns a handle on the Bloom filter under a key, as it was.
func (s *Snapshot) Bloom(key string) *Bloom { return &Bloom{*bloomext.New(s.tx.DB(), key).In(s)} }

// Cuckoo returns a handle on the cuckoo filter under a key, as it was.
func (s *Snapshot) Cuckoo(key string) *Cuckoo { return &Cuckoo{*cuckooext.New(s.tx.DB(), key).In(s)} }

// Counting returns a handle on the counting Bloom filter under a key, as it was.
func (s *Snapshot) Counting(key string) *Counting {
	return &Counting{*countingext.New(s.tx.DB(), key).In(s)}
}

// Get returns the string under a key. The errors are ErrNotFound and ErrWrongType.
func (tx *Tx) Get(key string) ([]byte, error) { return get(tx.tx, key) }

// Get returns the string under a key. The errors are ErrNotFound and ErrWrongType.
func (s *Snapshot) Get(key string) ([]byte, error) { return get(s.tx, key) }

func get(tx *kv.Transaction, key string) (value []byte, err error) {
	err = tx.Read(func(r kv.Reader) error {
		stored, err := r.Get([]byte(key))
		if err == nil && stored == nil {
			err = fmt.Errorf("%w: %q", ErrNotFound, key)
		}
		value = append([]byte{}, stored...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return value, nil
}

// MGet returns the strings under keys, nil for each key that is missing or holds another type.
func (tx *Tx) MGet(keys ...string) ([][]byte, error) { return mget(tx.tx, keys) }

// MGet returns the strings under keys, nil for each key that was missing or held another type.
func (s *Snapshot) MGet(keys ...string) ([][]byte, error) { return mget(s.tx, keys) }

func mget(tx *kv.Transaction, keys []string) ([][]byte, error) {
	values := make([][]byte, len(keys))
	err := tx.Read(func(r kv.Reader) error {
		for i, key := range keys {
			stored, err := r.Get([]byte(key))
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
	if err != nil {
		return nil, err
	}
	return values, nil
}

// Exists returns how many of the keys exist; a key given twice counts twice.
func (tx *Tx) Exists(keys ...string) (int, error) { return exists(tx.tx, keys) }

// Exists returns how many of the keys existed; a key given twice counts twice.
func (s *Snapshot) Exists(keys ...string) (int, error) { return exists(s.tx, keys) }

func exists(tx *kv.Transaction, keys []string) (n int, err error) {
	for _, key := range keys {
		err := lookup(tx, key, func(_ kv.Reader, o *kv.Object) {
			if o != nil {
				n++
			}
		})
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

// lookup calls look with the object under a key, nil if the key is missing.
func lookup(tx *kv.Transaction, key string, look func(kv.Reader, *kv.Object)) error {
	return tx.Read(func(r kv.Reader) error {
		o, err := r.Lookup([]byte(key))
		if err == nil {
			look(r, o)
		}
		return err
	})
}

// TypeOf returns the type of a key, see DB.TypeOf, "none" if it is missing.
func (tx *Tx) TypeOf(key string) (string, error) { return typeOf(tx.tx, key) }

// TypeOf returns the type of a key, see DB.TypeOf, "none" if it was missing.
func (s *Snapshot) TypeOf(key string) (string, error) { return typeOf(s.tx, key) }

func typeOf(tx *kv.Transaction, key string) (string, error) {
	name := "none"
	err := lookup(tx, key, func(_ kv.Reader, o *kv.Object) {
		if o != nil {
			name = o.TypeName()
		}
	})
	return name, err
}

// TTL returns the time to live of a key, 0 if it does not expire. It returns ErrNotFound for a missing key.
func (tx *Tx) TTL(key string) (time.Duration, error) { return ttl(tx.tx, key) }

// TTL returns the time to live that a key had, 0 if it did not expire. It returns ErrNotFound for a missing key.
func (s *Snapshot) TTL(key string) (time.Duration, error) { return ttl(s.tx, key) }

func ttl(tx *kv.Transaction, key string) (left time.Duration, err error) {
	found := false
	err = lookup(tx, key, func(r kv.Reader, o *kv.Object) {
		if o != nil {
			found, left = true, remaining(o.Expiry(), r.Now())
		}
	})
	if err == nil && !found {
		err = fmt.Errorf("%w: %q", ErrNotFound, key)
	}
	return left, err
}

// Scan is DB.Scan for the keys as the transaction has left them.
func (tx *Tx) Scan(ctx context.Context, o ScanOptions) iter.Seq2[string, error] {
	return scan(ctx, tx.tx, o)
}

// Scan is DB.Scan for the keys as they were, each once.
func (s *Snapshot) Scan(ctx context.Context, o ScanOptions) iter.Seq2[string, error] {
	return scan(ctx, s.tx, o)
}

func scan(ctx context.Context, tx *kv.Transaction, o ScanOptions) iter.Seq2[string, error] {
	const batch = 1000
	return func(yield func(string, error) bool) {
		for cursor := uint64(0); ; {
			var keys []string
			from := cursor // Read may call the function again
			err := tx.Read(func(r kv.Reader) (err error) {
				keys, cursor, err = r.ScanFrom(ctx, from, batch, o)
				return err
			})
			if err != nil {
				yield("", err)
				return
			}
			for _, key := range keys {
				if !yield(key, nil) {
					return
				}
			}
			if cursor == 0 {
				return
			}
		}
	}
}

// Set sets the string under a key, replacing an existing key of any type. The key does not expire.
func (tx *Tx) Set(key string, value []byte) error {
	_, err := tx.SetWith(key, value, SetOptions{})
	return err
}

// SetWith is Set with options, and reports whether If held; then the string was set.
func (tx *Tx) SetWith(key string, value []byte, o SetOptions) (bool, error) {
	opts, err := o.stored(tx.tx.DB())
	if err != nil {
		return false, err
	}
	return tx.write(func(w *kv.Writer) (bool, error) { return w.Set([]byte(key), value, opts) })
}

// write runs a change, and returns its answer.
func (tx *Tx) write(change func(*kv.Writer) (bool, error)) (done bool, err error) {
	err = tx.tx.Write(func(w *kv.Writer) error {
		done, err = change(w)
		return err
	})
	return done && err == nil, err
}

// MSet sets strings, as Set does.
func (tx *Tx) MSet(values map[string][]byte) error {
	return tx.tx.Write(func(w *kv.Writer) error { return mset(w, inBytes(slices.Collect(maps.Keys(values))), values) })
}

// Incr adds n to the integer under a key, and returns the sum. A missing key counts as 0. The errors are
// ErrNotInteger, ErrOverflow and ErrWrongType.
func (tx *Tx) Incr(key string, n int64) (sum int64, err error) {
	err = tx.tx.Write(func(w *kv.Writer) error {
		sum, err = w.Incr([]byte(key), n)
		return err
	})
	return sum, err
}

// Delete removes keys of any type, and returns how many existed.
func (tx *Tx) Delete(keys ...string) (n int, err error) {
	err = tx.tx.Write(func(w *kv.Writer) error {
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
	if err != nil {
		return 0, err
	}
	return n, nil
}

// Rename renames src to dst, replacing an existing dst. It returns ErrNotFound if src is missing.
func (tx *Tx) Rename(src, dst string) error {
	return tx.tx.Write(func(w *kv.Writer) error { return w.Rename([]byte(src), []byte(dst)) })
}

// RenameIfFree is Rename if dst does not exist, and reports whether it renamed. It returns ErrNotFound if src is
// missing.
func (tx *Tx) RenameIfFree(src, dst string) (bool, error) {
	return tx.write(func(w *kv.Writer) (bool, error) { return w.RenameIfFree([]byte(src), []byte(dst)) })
}

// Copy copies src with its expiry to dst. It reports whether it did, see DB.Copy.
func (tx *Tx) Copy(ctx context.Context, src, dst string, replace bool) (bool, error) {
	return tx.write(func(w *kv.Writer) (bool, error) { return w.Copy(ctx, []byte(src), []byte(dst), replace) })
}

// Expire sets the time to live of a key from now on, and reports whether the key exists. A ttl below a millisecond
// removes the key.
func (tx *Tx) Expire(key string, ttl time.Duration) (bool, error) {
	return tx.expire(key, after(tx.tx.DB(), ttl))
}

// ExpireAt sets when a key expires, and reports whether the key exists. A past time removes the key.
func (tx *Tx) ExpireAt(key string, at time.Time) (bool, error) { return tx.expire(key, millis(at)) }

func (tx *Tx) expire(key string, at int64) (bool, error) {
	return tx.write(func(w *kv.Writer) (bool, error) { return w.Expire([]byte(key), at, kv.ExpireAlways) })
}

// Persist removes the expiry of a key, and reports whether it had one.
func (tx *Tx) Persist(key string) (bool, error) {
	return tx.write(func(w *kv.Writer) (bool, error) { return w.Persist([]byte(key)) })
}
