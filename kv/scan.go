package kv

import (
	"context"
	"iter"
	"math"
	"math/rand/v2"

	"github.com/cockroachdb/pebble/v2"
)

// Keys are stored by a hash of 64 bits, and a cursor is the least hash not yet
// seen. So a cursor is a place that means the same at any time, in any process: a
// scan keeps no state, and goes on after a restart. A key that is there from the
// beginning of a scan to its end is returned exactly once; one that comes or goes
// meanwhile may be returned or not. Keys of one hash, which are as good as
// impossible, are returned together.

// ScanOptions say which keys a scan returns. The zero value means all.
type ScanOptions struct {
	// Match is a pattern as of the command KEYS; "" matches every key.
	Match string

	// Type is the name of a type as TYPE prints it, in any case; "" means all.
	Type string

	empty bool // Match is an empty pattern, not none
}

func (o ScanOptions) wants(key []byte, h *header) bool {
	return (o.Type == "" || fold(o.Type) == fold(h.typeName)) &&
		(o.Match == "" && !o.empty || Match(o.Match, string(key)))
}

// Scan returns the keys, in no meaningful order. It sees the store as it is while
// it runs: a key that is there all the time is returned exactly once. An error ends
// it. Between keys nothing is held.
func (db *DB) Scan(ctx context.Context, o ScanOptions) iter.Seq2[string, error] {
	const batch = 1000
	return func(yield func(string, error) bool) {
		for cursor := uint64(0); ; {
			keys, next, err := db.ScanFrom(ctx, cursor, batch, o)
			if err != nil {
				yield("", err)
				return
			}
			for _, key := range keys {
				if !yield(key, nil) {
					return
				}
			}
			if cursor = next; cursor == 0 {
				return
			}
		}
	}
}

// ScanFrom looks at count keys from a cursor on, at least one, and returns those
// wanted and the cursor to go on with; 0 begins, and is returned at the end.
func (db *DB) ScanFrom(ctx context.Context, cursor uint64, count int, o ScanOptions) (keys []string, next uint64, err error) {
	looked := false
	err = db.eachHeader(ctx, cursor, func(hash uint64, key []byte, h *header) bool {
		if count < 1 && looked && hash != next-1 {
			return false
		}
		count, looked = count-1, true
		next = hash + 1 // 0 after the last hash there is: the end
		if o.wants(key, h) {
			keys = append(keys, string(key))
		}
		return true
	}, func() { next = 0 })
	return keys, next, err
}

// eachHeader calls f for the live keys from a hash on until it returns false, or
// end if it never did. Key and header are valid during the call.
func (db *DB) eachHeader(ctx context.Context, from uint64, f func(hash uint64, key []byte, h *header) bool, end func()) error {
	if err := db.settle(); err != nil {
		return err
	}
	if err := db.enter(); err != nil {
		return err
	}
	defer db.exit()
	it, err := db.pebble.NewIterWithContext(ctx, &pebble.IterOptions{
		LowerBound: appendHeaderKey(nil, from, nil), UpperBound: []byte{tagHeader + 1},
	})
	if err != nil {
		return db.readError(err, "scan")
	}
	now := db.Now()
	for ok := it.First(); ok; ok = it.Next() {
		hash, key, err := decodeHeaderKey(it.Key())
		var h *header
		if err == nil {
			var value []byte
			if value, err = it.ValueAndErr(); err == nil {
				h, err = decodeHeaderShared(value)
			}
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			_ = it.Close() // the first error is the one to tell
			return db.readError(err, "scan: key %q", key)
		}
		if h.expiry != 0 && h.expiry <= now {
			continue
		}
		if !f(hash, key, h) {
			return it.Close()
		}
	}
	if err := it.Close(); err != nil {
		return db.readError(err, "scan")
	}
	end()
	return nil
}

// RandomKey returns one of the keys at random, each nearly as likely as another;
// false if there is none.
func (db *DB) RandomKey(ctx context.Context) (key string, ok bool, err error) {
	first := func(_ uint64, k []byte, _ *header) bool {
		key, ok = string(k), true
		return false
	}
	err = db.eachHeader(ctx, rand.Uint64N(math.MaxUint64), first, func() {})
	if err == nil && !ok {
		err = db.eachHeader(ctx, 0, first, func() {})
	}
	return key, ok, err
}
