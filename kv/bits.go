package kv

import (
	"math/bits"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/sievekv/sievekv/kv/block"
)

// bitBlock is the bits that are staged for one block.
type bitBlock struct {
	stagedPlace
	before    int      // the block of the same layer before it, plus 1
	count     int      // of the bits
	positions []uint16 // ascending, while there are few
	words     []uint64 // instead of positions, once there are many
}

// manyPositions is the number of staged bits above which a whole block of bits, 8 KiB, takes hardly more memory than
// their positions and the operand made of them.
const manyPositions = 2048

// addedBit is a bit that was staged since the savepoint.
type addedBit struct {
	block    int // index in changes.bits
	position uint16
}

// SetBits stages the setting of bits of one block, given as ascending positions without repeats, below 512 for each line
// of the block. It returns how many of them were not set before, by an earlier commit or this writer.
func (w *Writer) SetBits(o *Object, l *Layer, blk uint64, positions []uint16) (int, error) {
	first, err := w.block(o, l, blk)
	if err != nil {
		return 0, err
	}
	words, staged := l.Words(first), w.findBits(l, blk)
	changed := 0
	for _, p := range positions {
		if isSet(words, p) {
			continue
		}
		if staged < 0 {
			staged = w.addBitBlock(l, blk)
		}
		if w.bits[staged].add(p) {
			changed++
			w.grow(4)
			w.bitCount++
			if w.savepoint.id != 0 {
				w.added = append(w.added, addedBit{staged, p})
			}
		}
	}
	return changed, w.fits()
}

// HasBits reports whether all of the bits are set, by a commit or this writer.
func (w *Writer) HasBits(o *Object, l *Layer, blk uint64, positions []uint16) (bool, error) {
	first, err := w.block(o, l, blk)
	if err != nil {
		return false, err
	}
	words, staged := l.Words(first), w.findBits(l, blk)
	for _, p := range positions {
		if !isSet(words, p) && (staged < 0 || !w.bits[staged].has(p)) {
			return false, nil
		}
	}
	return true, nil
}

func isSet(words []uint64, p uint16) bool {
	return atomic.LoadUint64(&words[p>>6])>>(p&63)&1 != 0
}

// findBits returns the index of a block in w.bits, -1 if none of its bits are staged.
func (w *Writer) findBits(l *Layer, blk uint64) int {
	if len(w.bits) == 0 {
		return -1
	}
	n := w.ordinal(l)
	if n < 0 {
		return -1
	}
	place := stagedPlace{n, blk}
	if w.bitIndex != nil {
		if i, ok := w.bitIndex[place]; ok {
			return i
		}
		return -1
	}
	for i := len(w.bits) - 1; i >= 0; i-- {
		w.steps++
		if w.bits[i].stagedPlace == place {
			return i
		}
	}
	return -1
}

// addBitBlock adds a block to w.bits that is not there.
func (w *Writer) addBitBlock(l *Layer, blk uint64) int {
	n, i := w.addLayer(l), len(w.bits)
	w.grow(2 * int(unsafe.Sizeof(bitBlock{})))
	s := &w.layers[n]
	if i < cap(w.bits) {
		w.bits = w.bits[:i+1] // its positions keep their memory
	} else {
		w.bits = append(w.bits, bitBlock{})
	}
	b := &w.bits[i]
	*b = bitBlock{stagedPlace: stagedPlace{n, blk}, before: s.bits, positions: b.positions[:0]}
	s.bits = i + 1
	switch {
	case w.bitIndex != nil:
		w.bitIndex[b.stagedPlace] = i
	case len(w.bits) > fewStaged:
		w.bitIndex = make(map[stagedPlace]int)
		for i := range w.bits {
			w.bitIndex[w.bits[i].stagedPlace] = i
		}
	}
	return i
}

// has reports whether a bit is staged.
func (b *bitBlock) has(p uint16) bool {
	if b.words != nil {
		return b.words[p>>6]>>(p&63)&1 != 0
	}
	_, found := slices.BinarySearch(b.positions, p)
	return found
}

// add adds a bit and reports whether it was not there.
func (b *bitBlock) add(p uint16) bool {
	if b.words == nil {
		i, found := slices.BinarySearch(b.positions, p)
		if found {
			return false
		}
		if b.count < manyPositions {
			b.positions = slices.Insert(b.positions, i, p)
			b.count++
			return true
		}
		b.words = make([]uint64, block.MaxWords)
		setPositions(b.words, b.positions)
		b.positions = nil
	}
	if b.words[p>>6]>>(p&63)&1 != 0 {
		return false
	}
	b.words[p>>6] |= 1 << (p & 63)
	b.count++
	return true
}

// remove removes a bit that is staged.
func (b *bitBlock) remove(p uint16) {
	b.count--
	if b.words != nil {
		b.words[p>>6] &^= 1 << (p & 63)
		return
	}
	i, _ := slices.BinarySearch(b.positions, p)
	b.positions = slices.Delete(b.positions, i, i+1)
}

// appendPositions appends the bits, ascending.
func (b *bitBlock) appendPositions(dst []uint16) []uint16 {
	dst = append(dst, b.positions...)
	for i, word := range b.words {
		for ; word != 0; word &= word - 1 {
			dst = append(dst, uint16(i<<6|bits.TrailingZeros64(word)))
		}
	}
	return dst
}

// set sets the bits in a block that no other goroutine uses yet.
func (b *bitBlock) set(words []uint64) {
	setPositions(words, b.positions)
	if b.words != nil {
		for i := range words {
			words[i] |= b.words[i]
		}
	}
}

// takeBackBits takes back the bits staged since the savepoint, when w.bits had n blocks.
func (w *Writer) takeBackBits(n int) {
	for _, bit := range slices.Backward(w.added) {
		w.bits[bit.block].remove(bit.position)
		w.bitCount--
	}
	for i := len(w.bits) - 1; i >= n; i-- {
		b := &w.bits[i]
		w.layers[b.ordinal].bits = b.before
		delete(w.bitIndex, b.stagedPlace)
		b.words = nil
	}
	w.bits = w.bits[:n]
}
