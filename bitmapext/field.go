package bitmapext

import (
	"context"

	"github.com/sievekv/sievekv/kv"
)

// fieldOp is what BITFIELD does to a field.
type fieldOp uint8

const (
	fieldGet fieldOp = iota
	fieldSet
	fieldIncr
)

// overflow is what BITFIELD does with a value that does not fit.
type overflow uint8

const (
	wrap overflow = iota
	saturate
	fail
)

// field is one operation of a BITFIELD.
type field struct {
	op       fieldOp
	signed   bool
	width    uint64 // in bits, 1 to 64
	offset   uint64 // of its first bit
	value    int64  // to set or to add
	overflow overflow
}

// fieldBytes is the most bytes that a field lies in.
const fieldBytes = 9

// fieldOf returns the value of the field that begins at bit shift, below 8, of b.
func fieldOf(b *[fieldBytes]byte, shift, width uint64) (v uint64) {
	for i := shift; i < shift+width; i++ {
		v = v<<1 | uint64(b[i/8]>>(7-i%8)&1)
	}
	return v
}

func setField(b *[fieldBytes]byte, shift, width, v uint64) {
	for i := shift; i < shift+width; i++ {
		bit := byte(v >> (shift + width - 1 - i) & 1)
		b[i/8] = b[i/8]&^(0x80>>(i%8)) | bit<<(7-i%8)
	}
}

// extended returns the value of a field, with its sign.
func (f *field) extended(v uint64) int64 {
	if f.signed && f.width < 64 && v>>(f.width-1)&1 != 0 {
		v |= ^uint64(0) << f.width
	}
	return int64(v)
}

// fieldsIn answers operations that only read.
func fieldsIn(s *String, ops []field) ([]*int64, error) {
	answers := make([]*int64, len(ops))
	n := s.Len()
	for i := range ops {
		f := &ops[i]
		var b [fieldBytes]byte
		first := f.offset / 8
		if first < n {
			bytes, err := s.Range(first, min(n, first+fieldBytes))
			if err != nil {
				return nil, err
			}
			copy(b[:], bytes)
		}
		v := f.extended(fieldOf(&b, f.offset%8, f.width))
		answers[i] = &v
	}
	return answers, nil
}

// editFields stages operations, some of which write, and answers them. It makes the string long enough for all that
// write. An answer is nil if the value does not fit and the operation's overflow is FAIL.
func editFields(ctx context.Context, w *kv.Writer, key []byte, ops []field) ([]*int64, error) {
	s, err := Staged(w, key)
	if err != nil {
		return nil, err
	}
	least := uint64(1)
	for _, f := range ops {
		if f.op != fieldGet {
			least = max(least, (f.offset+f.width-1)/8+1)
		}
	}
	// Until a value changes, e only reads: edit moves a long string into blocks, and is a change for those that watch
	// the key.
	e, edited := &editor{w: w, key: key, s: s}, false
	edit := func() (err error) {
		if !edited {
			e, err = s.edit(ctx, w, key, least)
			edited = true
		}
		return err
	}
	if least > s.Len() {
		if err := edit(); err != nil {
			return nil, err
		}
	}
	answers := make([]*int64, len(ops))
	for i := range ops {
		f := &ops[i]
		var b [fieldBytes]byte
		if err := e.read(f.offset/8, b[:]); err != nil {
			return nil, err
		}
		old := f.extended(fieldOf(&b, f.offset%8, f.width))
		if f.op == fieldGet {
			answers[i] = &old
			continue
		}
		now, fits := f.change(old)
		if !fits {
			continue
		}
		answers[i] = &now
		if f.op == fieldSet {
			answers[i] = &old
		}
		if now == old {
			continue // as in Redis, this is no change for those that watch the key
		}
		if err := edit(); err != nil {
			return nil, err
		}
		setField(&b, f.offset%8, f.width, uint64(now))
		if err := e.put(f.offset/8, b[:(f.offset%8+f.width+7)/8]); err != nil {
			return nil, err
		}
	}
	return answers, e.done()
}

// change returns the new value of a field, false if it does not fit and the operation says to fail then.
func (f *field) change(old int64) (now int64, fits bool) {
	base, incr := old, f.value
	if f.op == fieldSet {
		base, incr = f.value, 0
	}
	add := f.addUnsigned
	if f.signed {
		add = f.addSigned
	}
	switch wrapped, limit, out := add(base, incr); {
	case !out || f.overflow == wrap:
		return wrapped, true
	case f.overflow == saturate:
		return limit, true
	}
	return 0, false
}

// addUnsigned returns the sum, wrapped around if it is out of the field's range. Then limit is the end of the range that
// it is beyond.
func (f *field) addUnsigned(old, incr int64) (wrapped, limit int64, out bool) {
	base, most := uint64(old), ^uint64(0)>>(64-f.width)
	wrapped = int64((base + uint64(incr)) & most)
	switch {
	case base > most || incr > 0 && uint64(incr) > most-base:
		return wrapped, int64(most), true
	case incr < 0 && uint64(-incr) > base:
		return wrapped, 0, true
	}
	return wrapped, 0, false
}

// addSigned is addUnsigned for a signed field.
func (f *field) addSigned(base, incr int64) (wrapped, limit int64, out bool) {
	most := int64(^uint64(0) >> (65 - f.width))
	least := -most - 1
	wrapped = f.extended(uint64(base+incr) & (^uint64(0) >> (64 - f.width)))
	// These differences can wrap around. Redis' do, and so a value far below the least can count as too large.
	up, down := most-base, least-base
	switch {
	case base > most || f.width < 64 && incr > up || base >= 0 && incr > 0 && incr > up:
		return wrapped, most, true
	case base < least || f.width < 64 && incr < down || base < 0 && incr < 0 && incr < down:
		return wrapped, least, true
	}
	return wrapped, 0, false
}
