package kv

import (
	"cmp"
	"fmt"
	"math"
	"strconv"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/hot"
	"github.com/sievekv/sievekv/internal/text"
)

// Strings are kept in their headers, so that a read is one read and a write one record. A string that is changed in place
// may be an object of the type "string", which package bitmapext makes and reads. The functions here behave as Redis does.

// SetIf is the condition, on what is under the key, for Set to write.
type SetIf uint8

// The conditions of Set.
const (
	SetAlways SetIf = iota
	SetIfMissing
	SetIfExists
)

// SetOptions say how Set writes. The zero value replaces what is there with a value that does not expire.
type SetOptions struct {
	If SetIf

	// Expiry is when the key ceases to exist, in Unix milliseconds; 0 means never. A time that has passed removes the key.
	Expiry int64

	// KeepTTL keeps the expiry of an existing key, also if it has none. Then Expiry is only for a missing key.
	KeepTTL bool
}

// errInBlocks is returned for a string in blocks that the caller cannot read.
var errInBlocks = fmt.Errorf("%w: for strings in blocks", ErrNoModule)

// string returns the string that an object is. If it is in blocks, it returns the object instead.
func (o *Object) string() (value []byte, blocks *Object, err error) {
	switch {
	case o == nil:
		return nil, nil, nil
	case o.header.TypeName != format.StringType:
		return nil, nil, fmt.Errorf("%w: %q holds a %s", ErrWrongType, o.key, o.header.TypeName)
	case o.inline():
		value, err = format.StringOf(o.header)
	case o.typ == nil:
		err = errInBlocks
	default:
		return nil, o, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("key %q: %w", o.key, err)
	}
	return value, nil, nil
}

// String returns the string under a key, nil if there is none. The caller must not change it. If the string is in
// blocks, String returns the object instead. The errors are ErrWrongType and errors of reading.
func (r Reader) String(key []byte) (value []byte, blocks *Object, err error) {
	o, err := r.find(key)
	if err != nil {
		return nil, nil, err
	}
	return o.string()
}

// Get is String, but reads a string in blocks.
func (r Reader) Get(key []byte) ([]byte, error) {
	value, o, err := r.String(key)
	if o != nil {
		return o.typ.Value(r, o)
	}
	return value, err
}

// copied is Get for a caller that keeps the string.
func (r Reader) copied(key []byte) ([]byte, error) {
	value, o, err := r.String(key)
	switch {
	case o != nil:
		return o.typ.Value(r, o)
	case err != nil || value == nil:
		return nil, err
	}
	return append([]byte{}, value...), nil
}

// StringInMemory appends the string under a key to dst and returns it, nil if the key is missing. If memory does not
// tell, or the store must not be read now, known is false. It takes part in no transaction.
//
// Unlike Read it looks at the sequence lock only before: it reads one key, as some commit has left it, so it cannot see
// half a commit. If a commit has begun since, the old string and the new one are both right. A reader that saw the new
// string waits at the lock before it reads another key of the same commit.
func (db *DB) StringInMemory(key, dst []byte) (value []byte, known bool) {
	if !db.ready() || len(key) > MaxKeyLen {
		return nil, false
	}
	found, stored, expiry := db.strings.Try(db.hash(key), key, dst)
	switch {
	case found == hot.Unknown:
		return nil, false
	case found == hot.Nothing:
		return nil, true
	case stored[len(dst)] != format.EncodingBytes, expiry != 0 && expiry <= db.Now(): // it may have got another expiry since
		return nil, false
	}
	return append(stored[:len(dst)], stored[len(dst)+1:]...), true
}

// Peek is String, but calls f with the string. It is valid during the call, and a large one is not copied. If the
// string is in blocks, Peek does not call f.
func (r Reader) Peek(key []byte, f func(value []byte)) (blocks *Object, err error) {
	seen := false
	r.large = func(stored []byte) error {
		f(stored[1:]) // without the encoding, which String checks
		seen = true
		return errNoValue
	}
	value, blocks, err := r.String(key)
	if err == nil && blocks == nil && !seen {
		f(value)
	}
	return blocks, err
}

// String returns the string under a key, as Reader.String does, with this writer's changes.
func (w *Writer) String(key []byte) (value []byte, blocks *Object, err error) {
	o, err := w.Object(key)
	if err != nil {
		return nil, nil, err
	}
	return o.string()
}

// Get is String, but reads a string in blocks.
func (w *Writer) Get(key []byte) ([]byte, error) {
	return Reader{db: w.db, source: w, now: w.Now()}.Get(key)
}

// number is Get for a string that may be a number. It returns bad if the string is in blocks and too long for a number.
func (w *Writer) number(key []byte, bad error) ([]byte, error) {
	if _, o, _ := w.String(key); o != nil {
		if d, err := o.typ.Describe(Reader{db: w.db, source: w}, o); err != nil || d.Bytes > 5<<10 { // more than a number has
			return nil, cmp.Or(err, bad)
		}
	}
	return w.Get(key)
}

// Set stages a string under a key, whatever is there, and reports whether the condition holds. It returns ErrTooLarge
// for a value longer than DB.MaxValueLen.
func (w *Writer) Set(key, value []byte, s SetOptions) (bool, error) {
	if s.If == SetAlways && !s.KeepTTL {
		return true, w.putString(key, value, s.Expiry)
	}
	v, err := w.look(key)
	if err != nil {
		return false, err
	}
	there := v.object
	if s.If == SetIfMissing && there != nil || s.If == SetIfExists && there == nil {
		return false, nil
	}
	expiry := s.Expiry
	if s.KeepTTL && there != nil {
		expiry = there.header.Expiry
	}
	return true, w.putString(key, value, expiry)
}

// putString stages a string with an expiry.
func (w *Writer) putString(key, value []byte, expiry int64) error {
	if n := w.db.MaxValueLen(); len(value) > n {
		return fmt.Errorf("%w: value of %d bytes under key %q, at most %d (7/32 of Options.MemTableSize)", ErrTooLarge, len(value), key, n)
	}
	if expiry != 0 && expiry <= w.Now() {
		_, err := w.Delete(key)
		return err
	}
	params := append(append(make([]byte, 0, 1+len(value)), format.EncodingBytes), value...)
	o, err := newObject(w.db, string(key), format.StringHeader(params, expiry), nil)
	if err != nil {
		return err
	}
	return w.put(key, o)
}

// change stages a new value of a string, and keeps its expiry.
func (w *Writer) change(key, value []byte) error {
	_, err := w.Set(key, value, SetOptions{KeepTTL: true})
	return err
}

// MaxValueLen is the length of the longest string, in bytes, that fits into a header, and so into a commit.
func (db *DB) MaxValueLen() int { return min(512<<20, db.MaxCommit()-db.MaxCommit()/8) }

// Incr stages a string that is an integer increased by n, and returns the sum. A missing key counts as 0. The errors
// are ErrNotInteger and ErrOverflow.
func (w *Writer) Incr(key []byte, n int64) (int64, error) {
	value, err := w.number(key, ErrNotInteger)
	if err != nil {
		return 0, err
	}
	old, ok := text.ParseInt(value)
	if value != nil && !ok {
		return 0, ErrNotInteger
	}
	if n < 0 && old < math.MinInt64-n || n > 0 && old > math.MaxInt64-n {
		return 0, ErrOverflow
	}
	return old + n, w.change(key, strconv.AppendInt(nil, old+n, 10))
}

// IncrFloat stages a string that is a number increased by n, and returns the sum as it is stored. A missing key
// counts as 0. Both are read and added with the 64-bit mantissa of an x86 long double, as Redis does there; the sum
// has up to 17 digits after the point. The errors are ErrNotFloat and ErrNotFinite.
func (w *Writer) IncrFloat(key, n []byte) ([]byte, error) {
	value, err := w.number(key, ErrNotFloat)
	if err != nil {
		return nil, err
	}
	switch sum, ok := text.AddLong(value, n); {
	case !ok:
		return nil, ErrNotFloat
	case sum == nil:
		return nil, ErrNotFinite
	default:
		return sum, w.change(key, sum)
	}
}
