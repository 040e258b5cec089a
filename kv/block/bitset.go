package block

import (
	"math/bits"
	"slices"
)

// BitSet is a set of bits of one block, such as those that a writer has staged. The zero value is empty.
type BitSet struct {
	count     int
	positions []uint16 // ascending, while there are few
	words     []uint64 // instead of positions, once there are many
}

// manyPositions is the number of bits above which a whole block of bits, 8 KiB, takes hardly more memory than their
// positions and the operand made of them.
const manyPositions = 2048

// Len returns the number of bits.
func (s *BitSet) Len() int { return s.count }

// Few returns the positions of the bits, ascending, nil if there are more than 2048. The set keeps the slice.
func (s *BitSet) Few() []uint16 { return s.positions }

// Has reports whether a bit is in the set.
func (s *BitSet) Has(p uint16) bool {
	if s.words != nil {
		return s.words[p>>6]>>(p&63)&1 != 0
	}
	_, found := slices.BinarySearch(s.positions, p)
	return found
}

// Add adds a bit and reports whether it was not in the set.
func (s *BitSet) Add(p uint16) bool {
	if s.words == nil {
		i, found := slices.BinarySearch(s.positions, p)
		if found {
			return false
		}
		if s.count < manyPositions {
			s.positions = slices.Insert(s.positions, i, p)
			s.count++
			return true
		}
		s.spread()
	}
	if s.words[p>>6]>>(p&63)&1 != 0 {
		return false
	}
	s.words[p>>6] |= 1 << (p & 63)
	s.count++
	return true
}

// AddAll adds bits, given as ascending positions.
func (s *BitSet) AddAll(positions []uint16) {
	if s.count == 0 && s.words == nil && len(positions) <= manyPositions {
		s.positions = append(s.positions, positions...)
		s.count = len(positions)
		return
	}
	for _, p := range positions {
		s.Add(p)
	}
}

// spread moves the positions to words.
func (s *BitSet) spread() {
	s.words = make([]uint64, MaxWords)
	s.Set(s.words)
	s.positions = nil
}

// Remove removes a bit that is in the set.
func (s *BitSet) Remove(p uint16) {
	s.count--
	if s.words != nil {
		s.words[p>>6] &^= 1 << (p & 63)
		return
	}
	i, _ := slices.BinarySearch(s.positions, p)
	s.positions = slices.Delete(s.positions, i, i+1)
}

// AppendTo appends the positions of the bits, ascending.
func (s *BitSet) AppendTo(dst []uint16) []uint16 {
	dst = append(dst, s.positions...)
	for i, word := range s.words {
		for ; word != 0; word &= word - 1 {
			dst = append(dst, uint16(i<<6|bits.TrailingZeros64(word)))
		}
	}
	return dst
}

// Set sets the bits in a block that no other goroutine uses.
func (s *BitSet) Set(words []uint64) {
	for _, p := range s.positions {
		words[p>>6] |= 1 << (p & 63)
	}
	if s.words != nil {
		for i := range words {
			words[i] |= s.words[i]
		}
	}
}

// Reset empties the set. It keeps memory for up to most positions.
func (s *BitSet) Reset(most int) {
	s.count, s.words, s.positions = 0, nil, s.positions[:0]
	if cap(s.positions) > most {
		s.positions = nil
	}
}
