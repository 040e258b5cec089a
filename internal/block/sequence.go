package block

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// sequence is the result of applying values in memory, oldest first. It has room for two full blocks. What an
// operation on it costs depends only on the lines that were changed. The zero sequence is empty.
type sequence struct {
	family   Family
	inputs   int
	operands uint32
	lines    int  // length of the blocks seen; 0 if there was none
	end      int  // the bit behind the last one changed, perhaps more, see lastEnd
	mixed    bool // an input is not a run

	// first is the first input. If it is the only one, it is also what the sequence is stored as. It belongs to the
	// caller of add.
	first []byte

	// words are the bits of the result. In a slots family, as long as there was no block, mask has all bits of the
	// slots that got a value. Both are zero in lines that are not marked in touched.
	words, mask [MaxWords]uint64
	touched     [MaxLines / 64]uint64
}

// accepts reports whether the sequence still has a meaning when v is added. The answer for a set of values depends
// neither on their order nor on how they were merged before. It is no if there are two families, or if a change reaches
// behind the end of the shortest block. A longer block counts as such a change.
func (s *sequence) accepts(v *value) bool {
	if s.inputs == 0 {
		return true
	}
	lines := s.lines
	if lines == 0 || v.lines != 0 && v.lines < lines {
		lines = v.lines
	}
	return s.family == v.family && (lines == 0 || max(s.end, v.end) <= lines*LineBits ||
		max(s.lastEnd(), v.lastEnd()) <= lines*LineBits)
}

// lastEnd returns the bit behind the last one changed; behind a block, its length in bits.
func (s *sequence) lastEnd() int {
	if s.family != FamilyBits {
		return s.end
	}
	end := 0
	for line := range s.touchedLines {
		for i, w := range s.line(line) {
			if w != 0 {
				end = line*LineBits + i<<6 + bits.Len64(w)
			}
		}
	}
	return max(end, s.lines*LineBits)
}

// add applies v, which the sequence must accept. raw are the bytes of v.
func (s *sequence) add(v *value, raw []byte) {
	if s.inputs == 0 {
		s.family, s.first = v.family, raw
	}
	s.inputs++
	s.mixed = s.mixed || v.layout != layoutRun
	s.operands = addOperands(s.operands, v.operands)
	s.end = max(s.end, v.end)
	switch {
	case v.lines != 0:
		s.addBlock(v)
	case v.layout == layoutPositions:
		s.addPositions(v)
	case v.layout == layoutItems:
		s.touch(int(v.items.layout.Lines))
		v.items.setBits(s.words[:])
	case v.layout == layoutRun:
		for i := v.first; i < v.first+len(v.payload)/8; i++ {
			s.touched[i/LineWords>>6] |= 1 << (i / LineWords & 63)
		}
		orWords(s.words[v.first:], v.payload)
	case v.layout == layoutWords:
		s.touch(len(v.payload) / lineBytes)
		orWords(s.words[:], v.payload)
	default:
		s.addSlots(v.payload)
	}
}

// addOperands adds counts, and stops at the greatest count there is.
func addOperands(a, b uint32) uint32 {
	if sum := a + b; sum >= a {
		return sum
	}
	return math.MaxUint32
}

// touch marks the given number of first lines.
func (s *sequence) touch(lines int) {
	for i := range s.touched {
		if n := lines - 64*i; n >= 64 {
			s.touched[i] = math.MaxUint64
		} else if n > 0 {
			s.touched[i] |= 1<<n - 1
		}
	}
}

func (s *sequence) addBlock(v *value) {
	words := s.words[:v.lines*LineWords]
	if s.family != FamilyBits {
		clear(words)
	}
	s.lines = v.lines
	s.touch(v.lines)
	v.fill(words)
}

func (s *sequence) addPositions(v *value) {
	for ps := v.positions.first(); len(ps) > 0; ps = v.positions.next() {
		for _, p := range ps {
			s.words[p>>6] |= 1 << (p & 63)
			s.touched[p>>15] |= 1 << (p >> 9 & 63)
		}
	}
}

func (s *sequence) addSlots(payload []byte) {
	width := s.family.Width()
	r := readSlots(payload, width)
	for i, v, ok := r.next(); ok; i, v, ok = r.next() {
		setSlot(s.words[:], width, i, v)
		if s.lines != 0 {
			continue
		}
		setSlot(s.mask[:], width, i, 1<<width-1)
		first, last := i*width/LineBits, (i*width+width-1)/LineBits
		s.touched[first>>6] |= 1 << (first & 63)
		s.touched[last>>6] |= 1 << (last & 63)
	}
}

// touchedLines yields the number of every line touched, in ascending order.
func (s *sequence) touchedLines(yield func(line int) bool) {
	for i, t := range s.touched {
		for ; t != 0; t &= t - 1 {
			if !yield(i<<6 + bits.TrailingZeros64(t)) {
				return
			}
		}
	}
}

// appendTo appends the value of the sequence, which must not be empty.
func (s *sequence) appendTo(dst []byte) []byte {
	switch {
	case s.inputs == 1:
		return append(dst, s.first...)
	case s.lines != 0:
		return appendBlock(dst, s.family, s.words[:s.lines*LineWords], s.operands)
	case s.family == FamilyBits:
		return s.appendBits(dst)
	}
	return s.appendSlots(dst)
}

// appendBits appends runs as one, and chooses another encoding by the same rules as AppendBitsOperand.
func (s *sequence) appendBits(dst []byte) []byte {
	if !s.mixed {
		return s.appendRun(dst)
	}
	start := len(dst)
	size := bitmapSize(s.lastEnd() - 1)
	ones := 0
	for line := range s.touchedLines {
		ones += Count(s.line(line))
	}
	if ones == 0 || ones <= maxPositions && ones < size {
		dst = binary.AppendUvarint(append(dst, kindBitsMerged), uint64(s.operands))
		payload, prev := len(dst), -1
		for line := range s.touchedLines {
			dst, prev = appendOnes(dst, prev, s.line(line), line*LineBits)
		}
		if ones == 0 || len(dst)-payload < size {
			return dst
		}
		dst = dst[:start]
	}
	dst = binary.AppendUvarint(append(dst, kindBitmap), uint64(s.operands))
	return appendWords(dst, s.words[:size/8])
}

// appendRun appends the words from the first to the last that is not zero. Inputs that are runs come from a list that
// grows at its end: there are hardly any zeros between them.
func (s *sequence) appendRun(dst []byte) []byte {
	first, end := -1, (s.lastEnd()+63)/64
	for line := range s.touchedLines {
		for i, w := range s.line(line) {
			if w != 0 && first < 0 {
				first = line*LineWords + i
			}
		}
	}
	if first < 0 {
		return appendRun(dst, s.operands, 0, s.words[:1])
	}
	return appendRun(dst, s.operands, first, s.words[first:end])
}

func (s *sequence) line(i int) []uint64 {
	return s.words[i*LineWords : (i+1)*LineWords]
}

func (s *sequence) appendSlots(dst []byte) []byte {
	dst = binary.AppendUvarint(append(dst, kindSlotsMerged+slotsCode(s.family)), uint64(s.operands))
	width, first, prev := s.family.Width(), firstBits[s.family], -1
	for line := range s.touchedLines {
		for k := line * LineWords; k < (line+1)*LineWords; k++ {
			for m := s.mask[k] & first[k%len(first)]; m != 0; m &= m - 1 {
				i := (k<<6 + bits.TrailingZeros64(m)) / width
				dst = appendSlot(dst, width, prev, Slot{uint16(i), slotAt(s.words[:], width, i)})
				prev = i
			}
		}
	}
	return dst
}

// firstBits has masks for the words of a block, by family. They select the first bit of each slot. They repeat after a
// few words, when a slot begins with a word again.
var firstBits = func() map[Family][]uint64 {
	all := make(map[Family][]uint64)
	for _, f := range slotFamilies {
		odd := f.Width() >> bits.TrailingZeros(uint(f.Width()))
		masks := make([]uint64, odd)
		for p := 0; p < 64*odd; p += f.Width() {
			masks[p>>6] |= 1 << (p & 63)
		}
		all[f] = masks
	}
	return all
}()

// reset empties the sequence.
func (s *sequence) reset() {
	for line := range s.touchedLines {
		clear(s.line(line))
		clear(s.mask[line*LineWords : (line+1)*LineWords])
	}
	s.touched = [MaxLines / 64]uint64{}
	s.family, s.inputs, s.operands, s.lines, s.end, s.first, s.mixed = 0, 0, 0, 0, 0, nil, false
}
