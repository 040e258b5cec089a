package block

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

// A run is some words of a block of bits, one behind the other. A list of numbers of 64 bits is stored in blocks of
// bits, each number a word. Numbers that are added to the list are a run, of 8 bytes each; the positions of their bits
// would take four times that.

var errRun = errors.New("run cut short or out of range")

// AppendRunOperand appends the operand "set the bits of these words" to dst and returns the extended slice. The words
// begin with number first. There must be one at least, and the last must be in a block of MaxWords.
func AppendRunOperand(dst []byte, first int, words []uint64) []byte {
	return appendRun(dst, 1, first, words)
}

func appendRun(dst []byte, operands uint32, first int, words []uint64) []byte {
	dst = binary.AppendUvarint(append(dst, kindRun), uint64(operands))
	return appendWords(binary.LittleEndian.AppendUint16(dst, uint16(first)), words)
}

// parseRun takes a run apart.
func (v *value) parseRun(r reader) error {
	v.operands = r.uvarint32()
	v.first = int(r.byte()) | int(r.byte())<<8
	if r.bad || v.operands == 0 {
		return errHeader
	}
	n := len(r.rest) / 8
	if len(r.rest)%8 != 0 || n == 0 || v.first+n > MaxWords {
		return errRun
	}
	v.family, v.layout, v.end = FamilyBits, layoutRun, 0
	for ; n > 0; n-- { // zeros at the end may be behind the block
		if w := binary.LittleEndian.Uint64(r.rest[8*(n-1):]); w != 0 {
			v.end = (v.first+n-1)*64 + bits.Len64(w)
			break
		}
	}
	if v.payload = r.rest[:8*n]; n == 0 {
		v.first = 0
	}
	return nil
}

// AddWord adds the bits of word i of the block. Neither the block nor the set may have any of them. A set of words that
// were added in ascending order, without a gap, is kept as a run, and so is its operand. A set has no other bits then.
func (s *BitSet) AddWord(i int, word uint64) {
	if s.words == nil && len(s.positions) == 0 && !s.HasItems() && (len(s.run) == 0 || i == s.first+len(s.run)) {
		if len(s.run) == 0 {
			s.first = i
		}
		s.run = append(s.run, word)
		s.count += bits.OnesCount64(word)
		return
	}
	s.expandRun()
	s.addBits(i, word)
}

// expandRun replaces the run by its bits.
func (s *BitSet) expandRun() {
	run, first := s.run, s.first
	if len(run) == 0 {
		return
	}
	s.run, s.count, s.first = nil, 0, 0
	for i, word := range run {
		s.addBits(first+i, word)
	}
}

func (s *BitSet) addBits(i int, word uint64) {
	for ; word != 0; word &= word - 1 {
		s.Add(uint16(i<<6 | bits.TrailingZeros64(word)))
	}
}
