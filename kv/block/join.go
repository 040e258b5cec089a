package block

import (
	"encoding/binary"
	"slices"

	"github.com/sievekv/sievekv/kv/probe"
)

// The changes that commits make to a block are joined before they are stored. Until then a change is an operand, or has a
// form that takes less time to make: the hashes of items, or all positions however many. Which operand is shortest is
// decided once, of all of them together.

// kindUnjoined begins hashes of items that are not stored yet: lines, hashes and lines per item of the layout, its blocks as a
// uvarint, and 8 bytes for each item. It is no kind of stored values.
const kindUnjoined = 0xff

// AppendChange appends the bits of the set to dst in a form for Joiner, and returns the extended slice.
func (s *BitSet) AppendChange(dst []byte) []byte {
	switch {
	case s.HasItems():
		l := s.layout
		dst = binary.AppendUvarint(append(dst, kindUnjoined, byte(l.Lines), l.Hashes, l.LinesPerItem), l.Blocks)
		for _, h := range s.items {
			dst = binary.LittleEndian.AppendUint64(dst, h)
		}
		return dst
	case len(s.run) > 0:
		return AppendRunOperand(dst, s.first, s.run)
	}
	dst = append(dst, kindBits)
	prev := -1
	for _, p := range s.positions {
		dst = appendPosition(dst, prev, int(p))
		prev = int(p)
	}
	return dst
}

// ChangeSize returns an upper bound of what the bits take in the operand that Joiner makes of them and others, besides
// MaxHeader.
func (s *BitSet) ChangeSize() int {
	if s.HasItems() { // as items, or as positions of up to 2 bytes
		return len(s.items) * 2 * max(8, int(s.layout.Hashes))
	}
	return 8*len(s.run) + 3*len(s.positions)
}

// MaxHeader is the most bytes of an operand that Joiner makes that are not those of its changes.
const MaxHeader = 32

// Joiner joins changes of blocks. The zero value is ready. It keeps memory from one call to the next.
type Joiner struct {
	positions []uint16
	slots     []Slot
	hashes    []uint64
	words     []byte
	val       value
}

// Append appends to dst the operand that makes all given changes of block blk, oldest first, and returns the extended slice.
// There must be one at least. Changes of one kind become an operand that counts as one in Info.
func (j *Joiner) Append(dst []byte, blk uint64, changes [][]byte) []byte {
	joined, ok := dst, false
	switch kind := changes[0][0]; {
	case kind == kindUnjoined:
		joined, ok = j.appendItems(dst, blk, changes)
	case kind == kindBits:
		joined, ok = j.appendPositions(dst, changes)
	case kind == kindRun:
		joined, ok = j.appendRun(dst, changes)
	case kind&0xf0 == kindSlots:
		joined, ok = j.appendSlots(dst, changes)
	}
	if ok {
		return joined
	}
	return j.merge(dst, blk, changes)
}

// merge joins changes of any kinds.
func (j *Joiner) merge(dst []byte, blk uint64, changes [][]byte) []byte {
	w := workspaces.Get().(*workspace)
	w.limit = maxInputs
	for i, change := range changes {
		if change[0] == kindUnjoined {
			change, _ = j.appendItems(nil, blk, changes[i:i+1])
		}
		w.newer = append(w.newer, w.collect(change))
		w.bound()
	}
	dst = append(dst, w.merge()...)
	w.release()
	return dst
}

// appendItems joins items of one layout.
func (j *Joiner) appendItems(dst []byte, blk uint64, changes [][]byte) ([]byte, bool) {
	first := changes[0]
	blocks, n := binary.Uvarint(first[4:])
	header := 4 + n
	j.hashes = j.hashes[:0]
	for _, change := range changes {
		if len(change) < header || string(change[:header]) != string(first[:header]) {
			return dst, false
		}
		for rest := change[header:]; len(rest) > 0; rest = rest[8:] {
			j.hashes = append(j.hashes, binary.LittleEndian.Uint64(rest))
		}
	}
	if l := &j.val.items.layout; l.Blocks != blocks || l.Lines != uint32(first[1]) || l.Hashes != first[2] || l.LinesPerItem != first[3] {
		layout, err := probe.NewLayout(blocks, uint64(first[1]), uint64(first[2]), uint64(first[3]))
		if err != nil {
			return dst, false
		}
		*l = layout
	}
	return AppendShorter(dst, &j.val.items.layout, blk, j.hashes, &j.positions), true
}

// appendPositions joins positions.
func (j *Joiner) appendPositions(dst []byte, changes [][]byte) ([]byte, bool) {
	j.positions = j.positions[:0]
	for _, change := range changes {
		if change[0] != kindBits || j.val.parse(change) != nil {
			return dst, false
		}
		for ps := j.val.positions.first(); len(ps) > 0; ps = j.val.positions.next() {
			j.positions = append(j.positions, ps...)
		}
	}
	slices.Sort(j.positions)
	j.positions = slices.Compact(j.positions)
	return AppendBitsOperand(dst, j.positions), true
}

// appendRun joins runs of which each begins where the one before ends.
func (j *Joiner) appendRun(dst []byte, changes [][]byte) ([]byte, bool) {
	const header = 4 // of a run of one operand
	first, next := 0, 0
	j.words = j.words[:0]
	for i, change := range changes {
		if change[0] != kindRun || j.val.parse(change) != nil {
			return dst, false
		}
		at := int(binary.LittleEndian.Uint16(change[2:]))
		if i == 0 {
			first, next = at, at
		}
		if at != next {
			return dst, false
		}
		j.words = append(j.words, change[header:]...)
		next += (len(change) - header) / 8
	}
	return append(appendRun(dst, 1, first, nil), j.words...), true
}

// appendSlots joins new values of slots. The last of a slot counts.
func (j *Joiner) appendSlots(dst []byte, changes [][]byte) ([]byte, bool) {
	j.slots = j.slots[:0]
	for _, change := range changes {
		if change[0] != changes[0][0] || j.val.parse(change) != nil {
			return dst, false
		}
		r := readSlots(j.val.payload, j.val.family.Width())
		for i, v, ok := r.next(); ok; i, v, ok = r.next() {
			j.slots = append(j.slots, Slot{uint16(i), v})
		}
	}
	j.slots = LastOfEach(j.slots)
	return AppendSlotsOperand(dst, j.val.family, j.slots), true
}
