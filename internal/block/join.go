package block

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/sievekv/sievekv/internal/probe"
)

// The changes that commits make to a block are joined before they are stored. Until then a change is an operand, or has
// a form that takes less time to make: the hashes of items, or all positions however many. The shortest operand is
// chosen once, for all of them together.

// kindUnjoined begins hashes of items that are not stored yet: lines, hashes and lines per item of the layout, its
// blocks as a uvarint, and 8 bytes for each item. It is not a kind of stored values.
const kindUnjoined = 0xff

// IsUnjoined reports whether a change is not stored as it is.
func IsUnjoined(change []byte) bool { return len(change) > 0 && change[0] == kindUnjoined }

// AppendChange appends the bits of the set to dst in a form for Joiner and Patcher, and returns the extended slice.
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
	case s.words != nil:
		return AppendBitsOperand(dst, s.AppendTo(nil))
	}
	dst = append(dst, kindBits)
	prev := -1
	for _, p := range s.positions {
		dst = appendPosition(dst, prev, int(p))
		prev = int(p)
	}
	return dst
}

// ChangeSize returns an upper bound of the bytes of these bits in the operand that Joiner makes of them and others,
// besides MaxHeader.
func (s *BitSet) ChangeSize() int {
	if s.HasItems() { // as items, or as positions of up to 2 bytes
		return len(s.items) * 2 * max(8, int(s.layout.Hashes))
	}
	if s.words != nil { // a bitmap
		return Size
	}
	return 8*len(s.run) + 3*len(s.positions)
}

// MaxHeader is the most bytes that an operand of Joiner has besides its changes.
const MaxHeader = 32

// Joiner joins changes of blocks. The zero value is ready. It keeps memory from one call to the next.
type Joiner struct {
	positions []uint16
	slots     []Slot
	hashes    []uint64
	words     []byte
	val       value
	unjoined  unjoined
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
	header, ok := j.unjoined.read(changes[0])
	if !ok {
		return dst, false
	}
	j.hashes = j.hashes[:0]
	for _, change := range changes {
		if len(change) < header || string(change[:header]) != string(changes[0][:header]) {
			return dst, false
		}
		j.hashes = appendHashes(j.hashes, change[header:])
	}
	return AppendShorter(dst, &j.unjoined.layout, blk, j.hashes, &j.positions), true
}

// unjoined is the layout of hashes that are not stored yet. It is kept because most have the same.
type unjoined struct{ layout probe.Layout }

// read reads the layout, and returns how many bytes it takes.
func (u *unjoined) read(change []byte) (header int, ok bool) {
	if len(change) < 5 {
		return 0, false
	}
	blocks, n := binary.Uvarint(change[4:])
	lines, hashes, linesPerItem := uint32(change[1]), change[2], change[3]
	if l := &u.layout; l.Blocks != blocks || l.Lines != lines || l.Hashes != hashes || l.LinesPerItem != linesPerItem {
		layout, err := probe.NewLayout(blocks, uint64(lines), uint64(hashes), uint64(linesPerItem))
		if err != nil {
			return 0, false
		}
		*l = layout
	}
	return 4 + n, true
}

func appendHashes(hashes []uint64, data []byte) []uint64 {
	for ; len(data) >= 8; data = data[8:] {
		hashes = append(hashes, binary.LittleEndian.Uint64(data))
	}
	return hashes
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

// appendRun joins runs that each begin where the one before ends.
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

// appendSlots joins new values of slots. The last value of a slot counts.
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

// Patcher makes changes in blocks in memory. It keeps memory from one to the next. The zero value is ready.
type Patcher struct {
	val      value
	unjoined unjoined
	hashes   []uint64
}

// Patch makes a change in a block, as the function Patch makes an operand.
func (p *Patcher) Patch(words []uint64, fam Family, change []byte) error {
	if !IsUnjoined(change) {
		return p.val.patch(words, fam, change)
	}
	header, ok := p.unjoined.read(change)
	if layout := &p.unjoined.layout; !ok || fam != FamilyBits || int(layout.Lines)*LineWords != len(words) {
		return fmt.Errorf("%w: items of %d lines in a block of %d, of %v", ErrCorrupt, layout.Lines, len(words)/LineWords, fam)
	}
	p.hashes = appendHashes(p.hashes[:0], change[header:])
	patchHashes(words, &p.unjoined.layout, p.hashes)
	return nil
}

// patchHashes sets the bits of items.
func patchHashes(words []uint64, layout *probe.Layout, hashes []uint64) {
	if manyProbes(layout, len(hashes), words) {
		var block [MaxWords]uint64
		for _, h := range hashes {
			layout.Set(block[:len(words)], h)
		}
		patchWords(words, block[:len(words)])
		return
	}
	layout.Fetch((*probe.Line)(words), hashes) // a word that is set makes the processor wait for all memory
	var probes [probe.MaxHashes]uint16
	for _, h := range hashes {
		patchBits(words, layout.AppendProbes(probes[:0], h))
	}
}
