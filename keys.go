package sievekv

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/sievekv/sievekv/kv"
)

// With returns the same store with another level of durability for its writes, and for the writes of handles made from it:
// Always, EverySec or NoSync, or 0 for Options.Durability. With another value every write returns ErrOptions.
func (db *DB) With(level Durability) *DB { return &DB{store: db.store, level: level} }

// SetOptions say how SetWith writes. The zero value makes it behave like Set.
type SetOptions struct {
	// If is the condition: IfMissing or IfExists; 0 means none.
	If SetIf

	// At most one of the fields below may be set. With none the key does not expire.
	TTL      time.Duration // the time to live, at least a millisecond
	ExpireAt time.Time     // when the key expires; a past time removes the key
	KeepTTL  bool          // an existing key keeps its expiry; a new key does not expire
}

// SetIf is a condition of SetWith: IfMissing or IfExists. The zero value means none.
type SetIf = kv.SetIf

// The conditions of SetWith. They hold for keys of any type.
const (
	IfMissing = kv.SetIfMissing // the key must be missing
	IfExists  = kv.SetIfExists  // the key must exist
)

// Get returns a copy of the string under a key. The errors are ErrNotFound, and ErrWrongType for a filter.
func (db *DB) Get(key string) ([]byte, error) { return db.store.Get([]byte(key)) }

// MGet returns the strings under keys as of one moment, nil for each key that is missing or holds another type.
func (db *DB) MGet(keys ...string) ([][]byte, error) { return db.store.MGet(inBytes(keys)...) }

// Set sets the string under a key, replacing an existing string or filter. The key does not expire. The error is
// ErrTooLarge for a string above the limit.
func (db *DB) Set(key string, value []byte) error {
	_, err := db.store.Set(db.level, []byte(key), value, kv.SetOptions{})
	return err
}

// SetWith is Set with options, and reports whether If held; then the string was set. The errors are ErrOptions for
// options that are out of range or exclude each other, and ErrTooLarge.
func (db *DB) SetWith(key string, value []byte, o SetOptions) (bool, error) {
	opts, err := o.stored(db.store)
	if err != nil {
		return false, err
	}
	return db.store.Set(db.level, []byte(key), value, opts)
}

// stored returns the options in the form of package kv.
func (o SetOptions) stored(store *kv.DB) (kv.SetOptions, error) {
	if o.If != kv.SetAlways && o.If != IfMissing && o.If != IfExists {
		return kv.SetOptions{}, fmt.Errorf("%w: SetOptions.If is %d, want IfMissing, IfExists or 0", ErrOptions, o.If)
	}
	opts := kv.SetOptions{If: o.If, KeepTTL: o.KeepTTL}
	given := 0
	if o.TTL != 0 {
		given++
		opts.Expiry = after(store, o.TTL)
	}
	if !o.ExpireAt.IsZero() {
		given++
		opts.Expiry = max(1, millis(o.ExpireAt))
	}
	if o.KeepTTL {
		given++
	}
	if given > 1 {
		return kv.SetOptions{}, fmt.Errorf("%w: SetOptions has TTL %v, ExpireAt %v and KeepTTL %t, want at most one of them",
			ErrOptions, o.TTL, o.ExpireAt, o.KeepTTL)
	}
	if o.TTL != 0 && o.TTL < time.Millisecond {
		return kv.SetOptions{}, fmt.Errorf("%w: SetOptions.TTL is %v, want at least %v", ErrOptions, o.TTL, time.Millisecond)
	}
	return opts, nil
}

func after(store *kv.DB, ttl time.Duration) int64 { return store.Now() + ttl.Milliseconds() }

// millis returns a time in Unix milliseconds, the nearest there is if it is more than 292 million years away: UnixMilli would
// wrap around, and a time like time.Unix(math.MaxInt64, 0), which stands for never, would be in the past.
func millis(at time.Time) int64 {
	const most = math.MaxInt64 / 1000
	switch s := at.Unix(); {
	case s >= most:
		return math.MaxInt64
	case s <= -most:
		return math.MinInt64
	}
	return at.UnixMilli()
}

// MSet sets strings in one commit, as Set does: all of them or none.
func (db *DB) MSet(values map[string][]byte) error {
	keys := inBytes(slices.Collect(maps.Keys(values)))
	return db.store.Write(db.level, keys, func(w *kv.Writer) error { return mset(w, keys, values) })
}

func mset(w *kv.Writer, keys [][]byte, values map[string][]byte) error {
	for _, key := range keys {
		if _, err := w.Set(key, values[string(key)], kv.SetOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// Incr adds n to the integer under a key, a decimal string, and returns the sum. A missing key counts as 0. The key
// keeps its expiry. The errors are ErrNotInteger, ErrOverflow and ErrWrongType.
func (db *DB) Incr(key string, n int64) (int64, error) {
	return db.store.Incr(db.level, []byte(key), n)
}

// Delete removes keys in one commit, and returns how many existed.
func (db *DB) Delete(keys ...string) (int, error) {
	return db.store.Delete(db.level, inBytes(keys)...)
}

// Exists returns how many of the keys exist; a key given twice counts twice.
func (db *DB) Exists(keys ...string) (int, error) { return db.store.Exists(inBytes(keys)...) }

// TypeOf returns the type of a key as the command TYPE prints it: "string", "MBbloom--" for a Bloom filter,
// "MBbloomCF" for a cuckoo filter, "CBloom---" for a counting filter, the name of a type of another module, and
// "none" if the key is missing.
func (db *DB) TypeOf(key string) (string, error) { return db.store.TypeOf([]byte(key)) }

// Rename renames src to dst in one commit, replacing an existing dst. A lookup of dst always finds the old or the new
// one. The expiry of src goes with it. It returns ErrNotFound if src is missing.
func (db *DB) Rename(src, dst string) error {
	return db.store.Rename(db.level, []byte(src), []byte(dst))
}

// RenameIfFree is Rename if dst does not exist, and reports whether it renamed. It returns ErrNotFound if src is
// missing.
func (db *DB) RenameIfFree(src, dst string) (bool, error) {
	return db.store.RenameIfFree(db.level, []byte(src), []byte(dst))
}

// Copy copies src with its expiry to dst. It reports whether it did: false without an error if src is missing, is
// dst, or dst is taken and replace is not set. Meanwhile other writes to both keys wait. If the context ends before
// the copy is complete, nothing changes.
func (db *DB) Copy(ctx context.Context, src, dst string, replace bool) (bool, error) {
	return db.store.Copy(ctx, db.level, []byte(src), []byte(dst), replace)
}

// Expire sets the time to live of a key from now on, and reports whether the key exists. A ttl below a millisecond
// removes the key.
func (db *DB) Expire(key string, ttl time.Duration) (bool, error) {
	return db.store.Expire(db.level, []byte(key), after(db.store, ttl), kv.ExpireAlways)
}

// ExpireAt sets when a key expires, and reports whether the key exists. A past time removes the key.
func (db *DB) ExpireAt(key string, at time.Time) (bool, error) {
	return db.store.Expire(db.level, []byte(key), millis(at), kv.ExpireAlways)
}

// Persist removes the expiry of a key, and reports whether it had one.
func (db *DB) Persist(key string) (bool, error) { return db.store.Persist(db.level, []byte(key)) }

// TTL returns the time to live of a key, 0 if it does not expire. It returns ErrNotFound for a missing key.
func (db *DB) TTL(key string) (time.Duration, error) {
	at, err := db.store.ExpiryOf([]byte(key))
	if err != nil {
		return 0, err
	}
	return remaining(at, db.store.Now()), nil
}

// remaining returns the time from now until at, in Unix milliseconds: at least a millisecond, and 0 if at is 0.
func remaining(at, now int64) time.Duration {
	if at == 0 {
		return 0
	}
	const longest = math.MaxInt64 / int64(time.Millisecond) // 292 years
	return time.Duration(min(max(1, at-now), longest)) * time.Millisecond
}

// ScanOptions say which keys Scan returns; the zero value means all. Most programs need at most
//
//   - Match: a pattern as in the command KEYS, with *, ?, [abc], and \ before a character that stands for itself;
//   - Type: the name of a type as TypeOf returns it, in any case;
//   - NoStrings: leaves strings out.
//
// See [kv.ScanOptions] for the others.
type ScanOptions = kv.ScanOptions

// Scan returns an iterator over the keys, in no meaningful order. A key that exists all the time is returned exactly
// once; a key that comes or goes meanwhile is returned once or not at all. An error, such as the error of a context that
// has ended, comes with the key "" and ends the iteration. Keys may be written meanwhile.
func (db *DB) Scan(ctx context.Context, o ScanOptions) iter.Seq2[string, error] {
	return db.store.Scan(ctx, o)
}

func inBytes(keys []string) [][]byte {
	list := make([][]byte, len(keys))
	for i, key := range keys {
		list[i] = []byte(key)
	}
	return list
}
