package block

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
)

// AppendBitsOperand appends the operand "set these bits" to dst and returns the extended slice. positions must be
// ascending and without repeats; with no positions, the operand changes nothing. The operand takes about 9 bytes for
// six bits in one line, and 1 to 2 bytes a bit when there are many. It is at most 2 bytes longer than the block.
func AppendBitsOperand(dst []byte, positions []uint16) []byte {
	n := len(positions)
	if n == 0 {
		return append(dst, kindBits)
	}
	size := bitmapSize(int(positions[n-1]))
	if n <= maxPositions && n < size {
		start := len(dst)
		dst = append(dst, kindBits)
		prev := -1
		for _, p := range positions {
			dst = appendPosition(dst, prev, int(p))
			prev = int(p)
		}
		if len(dst)-start-1 < size {
			return dst
		}
		dst = dst[:start]
	}
	dst = append(dst, kindBitmap, 1)
	start := len(dst)
	dst = slices.Grow(dst, size)[:start+size]
	bitmap := dst[start:]
	clear(bitmap)
	for _, p := range positions {
		bitmap[p>>3] |= 1 << (p & 7)
	}
	return dst
}

// bitmapSize returns the size, in bytes, of a bitmap whose last set bit is p.
func bitmapSize(p int) int { return (p/LineBits + 1) * lineBytes }

// Slot is a slot of a block of slots and the value it is set to.
type Slot struct {
	Index uint16
	Value uint32
}

// LastOfEach returns the last value of each slot of a log, ascending by index, as AppendSlotsOperand takes them. It uses the
// memory of the log.
func LastOfEach(log []Slot) []Slot {
	slices.SortStableFunc(log, func(a, b Slot) int { return cmp.Compare(a.Index, b.Index) })
	n := 0
	for i, s := range log {
		if i+1 == len(log) || log[i+1].Index != s.Index {
			log[n] = s
			n++
		}
	}
	return log[:n]
}

// AppendSlotsOperand appends the operand "give these slots these values" to dst and returns the extended slice. The
// slots must be ascending by index, without repeats, and must be in the block. Only the lowest fam.Width() bits of a
// value count. It panics if fam is not a slots family.
func AppendSlotsOperand(dst []byte, fam Family, slots []Slot) []byte {
	if !fam.hasSlots() {
		panic(fmt.Sprintf("block: slots operand of %v", fam))
	}
	dst = append(dst, kindSlots+slotsCode(fam))
	prev := -1
	for _, s := range slots {
		dst = appendSlot(dst, fam.Width(), prev, s)
		prev = int(s.Index)
	}
	return dst
}

// AppendBlock appends the value of a freshly folded block to dst and returns the extended slice. It chooses the
// encoding by the number of set bits. The value is at most 4 bytes longer than the block. AppendBlock panics if fam
// is not valid or words is not 1 to 128 whole lines.
func AppendBlock(dst []byte, fam Family, words []uint64) []byte {
	checkBlock(fam, words)
	return appendBlock(dst, fam, words, 0)
}

func appendBlock(dst []byte, fam Family, words []uint64, operands uint32) []byte {
	start := len(dst)
	dst = append(dst, kindRaw, byte(fam), byte(len(words)/LineWords))
	dst = binary.AppendUvarint(dst, uint64(operands))
	payload := len(dst)
	raw := len(words) * 8

	ones := Count(words)
	switch {
	case ones <= maxTiny && ones < raw:
		dst, _ = appendOnes(dst, -1, words, 0)
		if len(dst)-payload < raw {
			dst[start] = kindPositions
			return dst
		}
	case ones > maxTiny && roaringSize(ones) < raw:
		dst[start] = kindRoaring
		return appendRoaring(dst, words, ones)
	}
	return appendWords(dst[:payload], words)
}

// roaringSize returns the size, in bytes, of a roaring bitmap of up to 4096 bits below 65,536: a header and one
// array. It is never less than the size of the same bits as positions. For more than 4096 bits it is never less than
// raw.
func roaringSize(ones int) int { return 16 + 2*ones }

// appendRoaring appends words with up to 4096 set bits as a roaring bitmap of one array, see format.go. The library
// takes several times as long.
func appendRoaring(dst []byte, words []uint64, ones int) []byte {
	const spare = 2 // appendPositions needs room for one position more
	dst = slices.Grow(dst, roaringSize(ones)+spare)
	dst = binary.LittleEndian.AppendUint32(dst, roaringCookie)
	dst = binary.LittleEndian.AppendUint32(dst, 1)                      // containers
	dst = binary.LittleEndian.AppendUint32(dst, uint32(ones-1)<<16)     // the key, 0, and the number of positions
	dst = binary.LittleEndian.AppendUint32(dst, uint32(roaringSize(0))) // where the positions begin
	n := len(dst)
	putPositions(dst[n:n+2*ones+spare], words)
	return dst[:n+2*ones]
}

// putPositions writes the positions of the set bits, of two bytes each. dst must have room for one more. Branches that
// the processor cannot foresee take most of the time when few bits are set. So the words with set bits are listed first,
// and the second position of a word is written whether there is one or not: that takes 2 us for 512 bits, not 5 (2 cores
// of an AMD EPYC, Go 1.26, 2026-11).
func putPositions(dst []byte, words []uint64) {
	var list [MaxWords]uint16
	n := 0
	for i, w := range words {
		list[n] = uint16(i)
		if w != 0 {
			n++
		}
	}
	for _, i := range list[:n] {
		w, base := words[i], i<<6
		binary.LittleEndian.PutUint16(dst, base|uint16(bits.TrailingZeros64(w)))
		w &= w - 1
		binary.LittleEndian.PutUint16(dst[2:], base|uint16(bits.TrailingZeros64(w)&63))
		dst = dst[2:]
		if w != 0 {
			dst = dst[2:]
		}
		for w &= w - 1; w != 0; w &= w - 1 {
			binary.LittleEndian.PutUint16(dst, base|uint16(bits.TrailingZeros64(w)))
			dst = dst[2:]
		}
	}
}
