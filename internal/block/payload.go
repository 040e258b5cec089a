package block

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// The payloads of values: positions, slots and words. The append functions write them. The check functions take any
// bytes. They return the number of the bit behind the last one that the payload changes, or false if it is not valid.
// The readers must be given only payloads that were checked.

// appendPosition adds position p to positions that end with prev; -1 means that there are none.
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

// appendOnes adds the set bits of words to positions that end with prev, or -1, and returns the new last one. The first
// bit of words is bit base of the block.
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

// shortUvarint decodes a uvarint of up to three bytes. n is 0 if there is none or it is longer than necessary.
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

// positionReader reads positions in portions. So the loop that decodes contains no calls. Most operands are one
// portion, which is decoded only once, in check: decoding costs more than everything that is then done with the
// positions.
type positionReader struct {
	few  [128]uint16 // the portion
	n    int         // the length of the first portion, set by check
	rest []byte      // the bytes behind the portion
	prev int         // the last position before rest
}

// check makes the reader read the positions in b, which may be any bytes.
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

// first returns the first portion. It may be called once after check.
func (r *positionReader) first() []uint16 { return r.few[:r.n] }

// next returns the next portion, or none at the end. It overwrites the portion before.
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

// appendSlot adds a slot to slots of the given width that end with index prev; -1 means that there are none. Bits of
// the value above the width are dropped.
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

// orWords unites the words of a payload with the first words of the block.
func orWords(words []uint64, payload []byte) {
	words = words[:len(payload)/8]
	for i := range words {
		words[i] |= binary.LittleEndian.Uint64(payload[8*i:])
	}
}

// copyWords copies the words of a payload to the first words of the block, and returns their number.
func copyWords(words []uint64, payload []byte) int {
	words = words[:len(payload)/8]
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(payload[8*i:])
	}
	return len(words)
}
