package kv

import (
	"fmt"
	"math"
	"strconv"

	"github.com/sievekv/sievekv/kv/format"
	"github.com/sievekv/sievekv/kv/text"
)

// Strings are kept in their headers, so that a read is one read and a write one record. The functions here behave as
// Redis does; the commands only parse and reply.

// maxString is the longest string that Redis allows, in bytes.
const maxString = 512 << 20

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

	// KeepTTL keeps the expiry of an existing key, or that it has none. Then Expiry is only for a missing key.
	KeepTTL bool
}

// stringOf returns the string in a header. The caller must not change it.
func stringOf(h *format.Header) ([]byte, error) {
	if h.TypeVersion > format.StringVersion {
		return nil, fmt.Errorf("%w: string has format %d, this program knows %d", ErrUnsupportedVersion, h.TypeVersion, format.StringVersion)
	}
	if len(h.Params) == 0 || h.Params[0] != format.EncodingBytes {
		return nil, fmt.Errorf("%w: string with encoding %x, this program knows %d", ErrUnsupportedVersion, h.Params[:min(1, len(h.Params))], format.EncodingBytes)
	}
	return h.Params[1:], nil
}

// stringIn returns the string that the header of a key has.
func stringIn(key []byte, h *format.Header) ([]byte, error) {
	if h.TypeName != format.StringType {
		return nil, fmt.Errorf("%w: %q holds a %s", ErrWrongType, key, h.TypeName)
	}
	value, err := stringOf(h)
	if err != nil {
		return nil, fmt.Errorf("key %q: %w", key, err)
	}
	return value, nil
}

// stringHeader returns the header of a string.
func stringHeader(params []byte, expiry int64) *format.Header {
	return &format.Header{
		TypeName: format.StringType, Module: format.BuiltInModule, TypeVersion: format.StringVersion, Expiry: expiry, Params: params,
	}
}

// keepsInMemory reports whether stringHeader makes the header from its parameters and expiry. A large string was
// perhaps not read whole.
func keepsInMemory(h *format.Header) bool {
	return h.TypeName == format.StringType && h.TypeVersion == format.StringVersion && h.ID == 0 && h.Family == 0 &&
		len(h.Layers) == 0 && len(h.Params) > 1
}

// Get returns the string under a key, nil if there is none. The caller must not change it. The errors are
// ErrWrongType and those of reading.
func (r Reader) Get(key []byte) ([]byte, error) {
	o, err := r.find(key)
	if err != nil || o == nil {
		return nil, err
	}
	return stringIn(key, o.header)
}

// Peek calls f with the string under a key, nil if there is none. The string is valid during the call, and a large
// one is not copied. The errors are those of Get.
func (r Reader) Peek(key []byte, f func(value []byte)) error {
	seen := false
	r.large = func(stored []byte) error {
		f(stored[1:]) // without the encoding, which Get checks
		seen = true
		return errNoValue
	}
	value, err := r.Get(key)
	if err == nil && !seen {
		f(value)
	}
	return err
}

// Get returns the string under a key, with this writer's changes, nil if there is none. The caller must not change
// it.
func (w *Writer) Get(key []byte) ([]byte, error) {
	o, err := w.Object(key)
	if err != nil || o == nil {
		return nil, err
	}
	return stringIn(key, o.header)
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
		return fmt.Errorf("%w: value of %d bytes under key %q, at most %d (a quarter of Options.MemTableSize)", ErrTooLarge, len(value), key, n)
	}
	if expiry != 0 && expiry <= w.Now() {
		_, err := w.Delete(key)
		return err
	}
	params := append(append(make([]byte, 0, 1+len(value)), format.EncodingBytes), value...)
	o, err := newObject(w.db, string(key), stringHeader(params, expiry), nil)
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

// MaxValueLen is the length of the longest string, in bytes, that fits into a commit.
func (db *DB) MaxValueLen() int { return min(maxString, db.MaxCommit()-db.MaxCommit()/8) }

// Append stages a string with tail appended, and returns the new length.
func (w *Writer) Append(key, tail []byte) (int, error) {
	value, err := w.Get(key)
	if err != nil {
		return 0, err
	}
	if err := w.checkLength(key, uint64(len(value))+uint64(len(tail))); err != nil {
		return 0, err
	}
	joined := append(append(make([]byte, 0, len(value)+len(tail)), value...), tail...)
	return len(joined), w.change(key, joined)
}

// SetRange stages a string with the bytes from offset on overwritten, after zeros if the string is shorter than
// offset, and returns the new length. An empty part changes nothing.
func (w *Writer) SetRange(key []byte, offset uint64, part []byte) (int, error) {
	value, err := w.Get(key)
	if err != nil || len(part) == 0 {
		return len(value), err
	}
	if offset > maxString {
		return 0, ErrStringTooLong
	}
	end := offset + uint64(len(part))
	if err := w.checkLength(key, end); err != nil {
		return 0, err
	}
	written := make([]byte, max(uint64(len(value)), end))
	copy(written, value)
	copy(written[offset:], part)
	return len(written), w.change(key, written)
}

// checkLength returns an error for a length that is too large, before memory is allocated for it.
func (w *Writer) checkLength(key []byte, n uint64) error {
	switch limit := uint64(w.db.MaxValueLen()); {
	case n > maxString:
		return ErrStringTooLong
	case n > limit:
		return fmt.Errorf("%w: value of %d bytes under key %q, at most %d (a quarter of Options.MemTableSize)", ErrTooLarge, n, key, limit)
	}
	return nil
}

// Incr stages a string that is an integer increased by n, and returns the sum. A missing key counts as 0. The errors
// are ErrNotInteger and ErrOverflow.
func (w *Writer) Incr(key []byte, n int64) (int64, error) {
	value, err := w.Get(key)
	if err != nil {
		return 0, err
	}
	var old int64
	if value != nil {
		var ok bool
		if old, ok = text.ParseInt(value); !ok {
			return 0, ErrNotInteger
		}
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
	value, err := w.Get(key)
	if err != nil {
		return nil, err
	}
	if value == nil {
		value = []byte("0")
	}
	a, ok := text.ParseLong(value)
	if !ok {
		return nil, ErrNotFloat
	}
	b, ok := text.ParseLong(n)
	if !ok {
		return nil, ErrNotFloat
	}
	if a.IsInf() || b.IsInf() {
		return nil, ErrNotFinite
	}
	sum := text.AppendLong(nil, a.Add(a, b))
	return sum, w.change(key, sum)
}
