package block

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// The payloads of values: positions, slots and words. The append functions write them; the check functions take bytes
// that may be anything and return the number of the bit behind the last one the payload changes, or false. Only a
// payload so checked may be given to the readers.

// appendPosition adds position p to positions whose last is prev, or -1.
func appendPosition(dst []byte, prev, p int) []byte {
	if prev < 0 {
		return append(dst, byte(p), byte(p>>8))
	}
	gap := p - prev - 1
	if gap < 0x80 {
		return append(dst, byte(gap))
	}
	return binary.AppendUvarint(dst, uint64(gap))
}

// appendOnes adds the set bits of words, the first of which is bit base of the
// block, to positions whose last is prev, or -1. It returns the new last one.
func appendOnes(dst []byte, prev int, words []uint64, base int) ([]byte, int) {
	for i, w := range words {
		for ; w != 0; w &= w - 1 {
			p := base + i<<6 + bits.TrailingZeros64(w)
			dst = appendPosition(dst, prev, p)
			prev = p
		}
	}
	return dst, prev
}

func appendWords(dst []byte, words []uint64) []byte {
	start := len(dst)
	dst = slices.Grow(dst, 8*len(words))[:start+8*len(words)]
	for i, w := range words {
		binary.LittleEndian.PutUint64(dst[start+8*i:], w)
	}
	return dst
}

// shortUvarint decodes a uvarint of up to three bytes; n is 0 if there is none or it is not minimal.
func shortUvarint(b []byte) (x, n int) {
	for n < 3 && n < len(b) {
		c := b[n]
		x |= int(c&0x7f) << (7 * n)
		n++
		if c < 0x80 {
			if c == 0 && n > 1 {
				return 0, 0
			}
			return x, n
		}
	}
	return 0, 0
}

// positionReader reads positions in portions, so that the loop that decodes has no calls in it and most operands are
// decoded once, which costs more than all that is then done with them:
//
//	for ps := r.first(); len(ps) > 0; ps = r.next() { ... }
type positionReader struct {
	few  [128]uint16 // the portion
	n    int         // its length, after check
	rest []byte      // what follows
	prev int         // the last position before rest
}

// check makes the reader one of the positions in b, which may be anything.
func (r *positionReader) check(b []byte) (end int, ok bool) {
	r.n, r.rest = 0, nil
	if len(b) < 2 {
		return 0, len(b) == 0
	}
	first := int(binary.LittleEndian.Uint16(b))
	r.few[0] = uint16(first)
	p, n := first, 1
	for i := 2; i < len(b); n++ {
		gap, size := int(b[i]), 1
		if gap >= 0x80 {
			if gap, size = shortUvarint(b[i:]); size == 0 {
				return 0, false
			}
		}
		p += gap + 1
		if p >= Bits {
			return 0, false
		}
		i += size
		r.few[n%len(r.few)] = uint16(p)
	}
	r.n = n
	if n > len(r.few) {
		r.few[0], r.n = uint16(first), 1
		r.rest, r.prev = b[2:], first
	}
	return p + 1, true
}

// first returns the first portion, once after check.
func (r *positionReader) first() []uint16 { return r.few[:r.n] }

// next returns the next portion, in place of the one before, or none at the end.
func (r *positionReader) next() []uint16 {
	if len(r.rest) == 0 {
		return nil
	}
	b, p, i, n := r.rest, r.prev, 0, 0
	for ; n < len(r.few) && i < len(b); n++ {
		gap, size := int(b[i]), 1
		if gap >= 0x80 {
			gap, size = shortUvarint(b[i:])
		}
		p += gap + 1
		i += size
		r.few[n] = uint16(p)
	}
	r.rest, r.prev = b[i:], p
	return r.few[:n]
}

// appendSlot adds a slot to slots of the given width whose last index is prev, or
// -1. Bits of the value above the width are dropped.
func appendSlot(dst []byte, width, prev int, s Slot) []byte {
	low := width % 8
	gap := uint64(int(s.Index) - prev - 1)
	dst = binary.AppendUvarint(dst, gap<<low|uint64(s.Value)&(1<<low-1))
	v := s.Value >> low
	for n := width / 8; n > 0; n-- {
		dst = append(dst, byte(v))
		v >>= 8
	}
	return dst
}

func checkSlots(b []byte, width int) (end int, ok bool) {
	low, size := width%8, width/8
	next := 0
	for len(b) > 0 {
		x, n := shortUvarint(b)
		if n == 0 || len(b) < n+size {
			return 0, false
		}
		next += x>>low + 1
		if next*width > Bits {
			return 0, false
		}
		b = b[n+size:]
	}
	return next * width, true
}

// slotReader reads slots one by one.
type slotReader struct {
	rest  []byte
	width int
	prev  int
}

func readSlots(payload []byte, width int) slotReader {
	return slotReader{rest: payload, width: width, prev: -1}
}

func (r *slotReader) next() (i int, v uint32, ok bool) {
	if len(r.rest) == 0 {
		return 0, 0, false
	}
	low, size := r.width%8, r.width/8
	x, n := shortUvarint(r.rest)
	for k := size - 1; k >= 0; k-- {
		v = v<<8 | uint32(r.rest[n+k])
	}
	v = v<<low | uint32(x&(1<<low-1))
	r.prev += x>>low + 1
	r.rest = r.rest[n+size:]
	return r.prev, v, true
}

func checkBitmap(b []byte) (end int, ok bool) {
	if len(b) == 0 || len(b) > Size || len(b)%lineBytes != 0 {
		return 0, false
	}
	for i := len(b) - 8; i >= len(b)-lineBytes; i -= 8 {
		if w := binary.LittleEndian.Uint64(b[i:]); w != 0 {
			return i*8 + bits.Len64(w), true
		}
	}
	return 0, false
}

// orWords unites the words of a payload with as many of the block.
func orWords(words []uint64, payload []byte) {
	words = words[:len(payload)/8]
	for i := range words {
		words[i] |= binary.LittleEndian.Uint64(payload[8*i:])
	}
}

// copyWords sets the first words of the block to those of a payload, and returns how many these are.
func copyWords(words []uint64, payload []byte) int {
	words = words[:len(payload)/8]
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(payload[8*i:])
	}
	return len(words)
}
