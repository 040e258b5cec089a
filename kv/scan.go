package kv

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/sievekv/sievekv/kv/format"
	"github.com/sievekv/sievekv/kv/glob"
	"github.com/sievekv/sievekv/kv/storage"
	"github.com/sievekv/sievekv/kv/text"
)

// Keys are stored by a hash of 64 bits, and a cursor is the least hash not yet seen. So a cursor is a place that
// means the same at any time, in any process: a scan keeps no state, and goes on after a restart. A key that is there
// from the beginning of a scan to its end is returned exactly once; one that comes or goes meanwhile may be returned
// or not. Keys of one hash, which are as good as impossible, are returned together.

// ScanOptions say which keys a scan returns. The zero value means all.
type ScanOptions struct {
	// Match is a pattern as of the command KEYS, of glob.MaxLen bytes at most; "" matches every key.
	Match string

	// Pattern, if set, takes the place of Match.
	Pattern *glob.Pattern

	// Type is the name of a type as TYPE prints it, in any case; "" means all.
	Type string

	// Objects leaves out strings.
	Objects bool

	// Charge, if set, is told of the bytes of each key that is to be returned. An error of its ends the scan.
	Charge func(bytes int) error
}

func (o ScanOptions) wants(key []byte, h *format.Header) bool {
	return (!o.Objects || h.ID != 0) && (o.Type == "" || text.FoldString(o.Type) == text.FoldString(h.TypeName)) &&
		(o.Pattern == nil || o.Pattern.Match(key))
}

// prepare makes the pattern once for all keys of a scan.
func (o *ScanOptions) prepare() (err error) {
	if o.Match == "" || o.Pattern != nil {
		return nil
	}
	if o.Pattern, err = glob.New(o.Match); err != nil {
		err = fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return err
}

// Scan returns the keys, in no meaningful order. It sees the store as it is while it runs: a key that is there all
// the time is returned exactly once. An error ends it. Between keys nothing is held.
func (db *DB) Scan(ctx context.Context, o ScanOptions) iter.Seq2[string, error] {
	const batch = 1000 // with one iterator of Pebble's
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
	if err := db.settle(); err != nil {
		return nil, 0, err
	}
	return Reader{db, live{db}, db.Now(), nil}.ScanFrom(ctx, cursor, count, o)
}

// ScanFrom is DB.ScanFrom of what the Reader reads: inside a transaction with what
// that has changed, and in a view of what was there.
func (r Reader) ScanFrom(ctx context.Context, cursor uint64, count int, o ScanOptions) (keys []string, next uint64, err error) {
	if err := o.prepare(); err != nil {
		return nil, 0, err
	}
	looked := false
	var refused error
	err = r.eachHeader(ctx, cursor, func(hash uint64, key []byte, h *format.Header, live bool) bool {
		if count < 1 && looked && hash != next-1 {
			return false
		}
		count, looked = count-1, true
		next = hash + 1 // 0 after the last hash there is: the end
		if live && o.wants(key, h) {
			if o.Charge != nil {
				if refused = o.Charge(len(key)); refused != nil {
					return false
				}
			}
			keys = append(keys, string(key))
		}
		return true
	}, func() { next = 0 })
	if err == nil {
		err = refused
	}
	return keys, next, err
}

// eachHeader calls f for the keys from a hash on until it returns false, or end if it never did. Those that are not
// live have expired. Key and header are valid during the call. A header that does not decode is an empty one.
func (r Reader) eachHeader(ctx context.Context, from uint64, f func(hash uint64, key []byte, h *format.Header, live bool) bool, end func()) (err error) {
	db := r.db
	if err := db.enter(); err != nil {
		return err
	}
	defer db.exit()
	w := r.source.writer()
	staged := w.changedKeys(from)
	// before calls f for the staged keys before a place, and reports whether to go on.
	var givenUp error
	before := func(hash uint64, key []byte) bool {
		for len(staged) > 0 && (key == nil || staged[0].before(hash, key)) {
			if givenUp = ctx.Err(); givenUp != nil {
				return false
			}
			s := staged[0]
			staged = staged[1:]
			if s.object != nil && !f(s.hash, []byte(s.key), s.object.header, true) {
				return false
			}
		}
		return true
	}
	if w != nil && w.flush {
		if before(0, nil) {
			end()
		}
		return givenUp
	}
	it, err := r.source.disk().NewIterWithContext(ctx, &storage.IterOptions{
		LowerBound: format.AppendHeaderKey(nil, from, nil), UpperBound: []byte{format.TagHeader + 1},
	})
	if err != nil {
		return storage.ReadError(err, "scan")
	}
	defer func() { // f may be somebody else's code, and panic
		if cerr := it.Close(); err == nil && cerr != nil {
			err = storage.ReadError(cerr, "scan")
		}
	}()
	for ok := it.First(); ok; ok = it.Next() {
		hash, key, err := format.DecodeHeaderKey(it.Key())
		if err != nil {
			continue // Check tells of it: nobody can ask for a key that it does not name
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return storage.ReadError(err, "scan: key %q", key)
		}
		h, err := format.DecodeHeaderShared(value)
		if err != nil {
			h = &format.Header{}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if !before(hash, key) {
			return givenUp
		}
		if w.hasChanged(key) {
			continue
		}
		if live := h.Expiry == 0 || h.Expiry > r.now; !f(hash, key, h, live) {
			return nil
		}
	}
	if err := it.Error(); err != nil {
		return storage.ReadError(err, "scan")
	}
	if before(0, nil) {
		end()
	}
	return givenUp
}

// changedKey is a key that a writer has changed.
type changedKey struct {
	hash   uint64
	key    string
	object *Object
}

func (s *changedKey) before(hash uint64, key []byte) bool {
	return s.hash < hash || s.hash == hash && s.key < string(key)
}

// changedKeys returns the keys a writer has changed, from a hash on, in the order of a
// scan. Those of a writer that is none are none.
func (w *Writer) changedKeys(from uint64) (keys []changedKey) {
	if w == nil {
		return nil
	}
	for i := range w.staged {
		if v := &w.staged[i]; v.changed {
			if hash := w.db.hash([]byte(v.key)); hash >= from {
				keys = append(keys, changedKey{hash, v.key, v.object})
			}
		}
	}
	slices.SortFunc(keys, func(a, b changedKey) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), strings.Compare(a.key, b.key))
	})
	return keys
}

func (w *Writer) hasChanged(key []byte) bool {
	if w == nil {
		return false
	}
	v := w.keyOf(key)
	return v != nil && v.changed
}

// RandomKey returns one of the keys at random, each nearly as likely as another; false if there is none.
func (db *DB) RandomKey(ctx context.Context) (key string, ok bool, err error) {
	if err := db.settle(); err != nil {
		return "", false, err
	}
	return Reader{db, live{db}, db.Now(), nil}.RandomKey(ctx)
}

// RandomKey is DB.RandomKey of what the Reader reads.
func (r Reader) RandomKey(ctx context.Context) (key string, ok bool, err error) {
	first := func(_ uint64, k []byte, _ *format.Header, live bool) bool {
		if live {
			key, ok = string(k), true
		}
		return !live
	}
	err = r.eachHeader(ctx, rand.Uint64N(math.MaxUint64), first, func() {})
	if err == nil && !ok {
		err = r.eachHeader(ctx, 0, first, func() {})
	}
	return key, ok, err
}

// Size returns the number of keys, including expired ones that are still stored.
func (r Reader) Size(ctx context.Context) (uint64, error) { return r.source.size(ctx) }
