package expiry

import (
	"bytes"

	"github.com/sievekv/sievekv/internal/format"
)

// Notes reads stored notes in order, as an iterator of Pebble does.
type Notes interface {
	First() bool
	Next() bool
	Key() []byte                  // valid until the next call
	ValueAndErr() ([]byte, error) // valid until the next call
	Error() error                 // why First or Next returned false, nil at the end
}

// Note says when a key expires.
type Note struct {
	At     int64 // Unix milliseconds
	Key    []byte
	Object bool // the key has an object; else it is a string
}

// Stored returns the key that the note is stored under.
func (n Note) Stored() []byte { return format.AppendExpiryKey(nil, n.At, n.Key) }

// Batch says which notes a sweep takes at a time.
type Batch struct {
	Now   int64                 // expired is what expires by then
	Notes int                   // at most
	Bytes int                   // about the most that the commit that removes their keys may take; at least one note is taken
	Free  func(key []byte) bool // whether a key can be removed now: a locked one must not hold up those behind it
}

// Take returns the notes of expired keys that are free, one batch at most, the first note that it leaves, and whether there
// are more such notes. It lowers the hint to the notes of keys that are not free.
func (h *Hint) Take(from Notes, b Batch) (notes []Note, next []byte, more bool, err error) {
	room := b.Bytes
	for ok := from.First(); ok; ok = from.Next() {
		at, key, err := format.DecodeExpiryKey(from.Key())
		if err != nil {
			return nil, nil, false, err
		}
		if at <= b.Now && !b.Free(key) {
			h.Lower(from.Key())
			continue
		}
		room -= 2*len(key) + 1024 // a header, a note, a count
		if at > b.Now || len(notes) == b.Notes || room < 0 && len(notes) > 0 {
			return notes, bytes.Clone(from.Key()), at <= b.Now, nil
		}
		value, err := from.ValueAndErr()
		if err != nil {
			return nil, nil, false, err
		}
		notes = append(notes, Note{at, bytes.Clone(key), len(value) > 0})
	}
	if err := from.Error(); err != nil {
		return nil, nil, false, err
	}
	return notes, End, false, nil
}

// Of returns the stored keys of one key's notes, for a key whose header cannot say when it expires. It reads all notes.
func Of(key []byte, from Notes) (stored [][]byte, err error) {
	for ok := from.First(); ok; ok = from.Next() {
		if _, of, err := format.DecodeExpiryKey(from.Key()); err == nil && bytes.Equal(of, key) {
			stored = append(stored, bytes.Clone(from.Key()))
		}
	}
	return stored, from.Error()
}
