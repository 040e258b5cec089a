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

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/glob"
	"github.com/sievekv/sievekv/internal/storage"
	"github.com/sievekv/sievekv/internal/text"
)

// Keys are stored in the order of a 64-bit hash, and a cursor is the smallest hash not seen yet. A cursor means the
// same at any time, in any process: a scan keeps no state, and goes on after a restart. A key that exists from the
// beginning of a scan to its end is returned exactly once. A key that is made or removed meanwhile may be returned or
// not. Keys with the same hash, which hardly exist, are returned together.

// ScanOptions say which keys a scan returns. The zero value means all.
type ScanOptions struct {
	// Match is a pattern as KEYS has it, at most glob.MaxLen bytes; "" matches every key.
	Match string

	// Pattern, if set, is used in place of Match.
	Pattern *glob.Pattern

	// Type is the name of a type as TYPE prints it, in any case; "" means all.
	Type string

	// NoStrings leaves strings out.
	NoStrings bool

	// Charge, if set, is called with the length of each key before it is added to the result. If it returns an error,
	// the scan ends with the error.
	Charge func(bytes int) error
}

func (o ScanOptions) wants(key []byte, h *format.Header) bool {
	return (!o.NoStrings || h.ID != 0) && (o.Type == "" || text.FoldString(o.Type) == text.FoldString(h.TypeName)) &&
		(o.Pattern == nil || o.Pattern.Match(key))
}

// prepare parses the pattern once for all keys of a scan.
func (o *ScanOptions) prepare() (err error) {
	if o.Match == "" || o.Pattern != nil {
		return nil
	}
	if o.Pattern, err = glob.New(o.Match); err != nil {
		err = fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return err
}

// Scan returns the keys, in no meaningful order. It sees commits that are applied while it runs: a key that exists
// all the time is returned exactly once. After an error it ends. Between two keys it holds no lock and no iterator.
func (db *DB) Scan(ctx context.Context, o ScanOptions) iter.Seq2[string, error] {
	const batch = 1000 // keys for one iterator of Pebble's
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

// ScanFrom looks at count keys from a cursor on, at least one, and returns those that the options want, and the
// cursor to go on with. The first cursor is 0; after the last key ScanFrom returns 0.
func (db *DB) ScanFrom(ctx context.Context, cursor uint64, count int, o ScanOptions) (keys []string, next uint64, err error) {
	if err := db.awaitSequence(); err != nil {
		return nil, 0, err
	}
	return Reader{db, db.live(), db.Now(), nil}.ScanFrom(ctx, cursor, count, o)
}

// ScanFrom is DB.ScanFrom for what the Reader reads: in a transaction with its own changes, in a snapshot as of its
// commit.
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
		next = hash + 1 // the hash after the largest one is 0, which is the end
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

// eachHeader calls f for each key from a hash on until f returns false; if f never does, it calls end. live is false
// for a key that has expired, or whose object is hidden. Key and header are valid during the call. For a header that does not decode, f gets an
// empty one.
func (r Reader) eachHeader(ctx context.Context, from uint64, f func(hash uint64, key []byte, h *format.Header, live bool) bool, end func()) (err error) {
	db := r.db
	if err := db.enter(); err != nil {
		return err
	}
	defer db.exit()
	w := r.source.writer()
	staged := w.changedKeys(from)
	// before calls f for the staged keys that come before a stored key, and reports whether to go on.
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
	defer func() { // f is a caller's code, and may panic
		if cerr := it.Close(); err == nil && cerr != nil {
			err = storage.ReadError(cerr, "scan")
		}
	}()
	for ok := it.First(); ok; ok = it.Next() {
		hash, key, err := format.DecodeHeaderKey(it.Key())
		if err != nil {
			continue // Check reports it; no lookup asks for a key that has no name
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
		if live := (h.Expiry == 0 || h.Expiry > r.now) && !h.Hidden; !f(hash, key, h, live) {
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

// changedKeys returns the keys that a writer has changed, from a hash on, in the order of a scan; none for a nil
// writer.
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

// RandomKey returns a key, each with nearly the same probability; false if there is none.
func (db *DB) RandomKey(ctx context.Context) (key string, ok bool, err error) {
	if err := db.awaitSequence(); err != nil {
		return "", false, err
	}
	return Reader{db, db.live(), db.Now(), nil}.RandomKey(ctx)
}

// RandomKey is DB.RandomKey for what the Reader reads.
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
func (r Reader) Size() (uint64, error) { return r.source.size() }
