package block

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/sievekv/sievekv/internal/probe"
)

// Kind is the form in which a value holds a block.
type Kind uint8

const (
	// KindAbsent is the empty value, a block of zeros.
	KindAbsent Kind = iota
	// KindSparse is a block stored as the positions of its set bits.
	KindSparse
	// KindDense is a block stored word by word.
	KindDense
	// KindOperands is one or more operands without a block.
	KindOperands
)

// String returns the name of the kind in lower case.
func (k Kind) String() string {
	switch k {
	case KindAbsent:
		return "absent"
	case KindSparse:
		return "sparse"
	case KindDense:
		return "dense"
	case KindOperands:
		return "operands"
	}
	return fmt.Sprintf("unknown kind %d", uint8(k))
}

// Info describes a value.
type Info struct {
	Kind Kind
	// Operands is the number of single operands merged since the block was last folded. An operand of many items counts
	// as several, see itemsPerOperand. It stops at 4,294,967,295.
	Operands uint32
}

func (v *value) info() Info {
	switch {
	case v.lines == 0:
		return Info{KindOperands, v.operands}
	case v.layout == layoutWords:
		return Info{KindDense, v.operands}
	}
	return Info{KindSparse, v.operands}
}

// Decode fills words, 1 to 128 whole lines, with the block that a value stands for. It overwrites all of words. fam
// must be valid. The error wraps ErrCorrupt if the value cannot be decoded, is of another family or another length,
// or reaches behind the end of words; the content of words is then undefined.
func Decode(words []uint64, fam Family, val []byte) (Info, error) {
	if len(val) == 0 {
		clear(words)
		return Info{}, nil
	}
	var v value
	if err := v.parse(val); err != nil {
		return Info{}, err
	}
	if err := v.fits(words, fam); err != nil {
		return Info{}, err
	}
	if v.layout == layoutWords {
		clear(words[copyWords(words, v.payload):])
	} else {
		clear(words)
		v.fill(words)
	}
	return v.info(), nil
}

// fits returns an error if v cannot be applied to a block of this length and family.
func (v *value) fits(words []uint64, fam Family) error {
	switch {
	case v.family != fam:
		return fmt.Errorf("%w: %v in a block of %v", ErrCorrupt, v.family, fam)
	case v.lines != 0 && v.lines*LineWords != len(words):
		return fmt.Errorf("%w: %d lines in a block of %d", ErrCorrupt, v.lines, len(words)/LineWords)
	case v.end > len(words)*64 && v.lastEnd() > len(words)*64:
		return fmt.Errorf("%w: bit %d in a block of %d", ErrCorrupt, v.lastEnd()-1, len(words)*64)
	}
	return nil
}

// lastEnd returns the bit behind the last one changed.
func (v *value) lastEnd() int {
	if v.layout == layoutItems {
		return v.items.end()
	}
	return v.end
}

// fill applies v to words. v must fit. If v is a block of slots, words must be zero.
func (v *value) fill(words []uint64) {
	switch v.layout {
	case layoutWords:
		orWords(words, v.payload)
	case layoutRoaring:
		// This unites the bitmap with words. Only a bitmap container would replace words, and parse refuses a bitmap
		// long enough to have one.
		v.roaring.WriteDenseTo(words)
	case layoutPositions:
		for ps := v.positions.first(); len(ps) > 0; ps = v.positions.next() {
			for _, p := range ps {
				words[p>>6] |= 1 << (p & 63)
			}
		}
	case layoutItems:
		v.items.setBits(words)
	case layoutRun:
		orWords(words[v.first:], v.payload)
	case layoutSlots:
		r := readSlots(v.payload, v.family.Width())
		for i, s, ok := r.next(); ok; i, s, ok = r.next() {
			setSlot(words, r.width, i, s)
		}
	}
}

// Patch applies a value, most often one operand, to a block in memory, which other goroutines may be reading with
// atomic loads. The caller makes sure that no other goroutine writes to the block. An operand sets its bits or slots.
// A block unites with the bits, or replaces the slots, as in a merge. The empty value changes nothing.
//
// Every word is changed by one atomic operation. So a reader sees each bit, and each slot within a word, as it was
// before or as it is after. A 12-bit slot in two words is changed in two steps; so are several slots. Readers that
// must not see half of that compare a version that the caller changes before and after. For operands Patch does not
// allocate.
//
// The error wraps ErrCorrupt, in the same cases as Decode's. Then nothing has been changed.
func Patch(words []uint64, fam Family, val []byte) error {
	var v value
	return v.patch(words, fam, val)
}

// patch is Patch with v as memory for the decoded value.
func (v *value) patch(words []uint64, fam Family, val []byte) error {
	if len(val) == 0 {
		return nil
	}
	if err := v.parse(val); err != nil {
		return err
	}
	if err := v.fits(words, fam); err != nil {
		return err
	}
	switch {
	case v.lines != 0:
		v.patchBlock(words)
	case v.layout == layoutPositions:
		v.patchPositions(words)
	case v.layout == layoutItems:
		v.patchItems(words)
	case v.layout == layoutWords:
		patchPayload(words, v.payload)
	case v.layout == layoutRun:
		patchPayload(words[v.first:], v.payload)
	default:
		patchSlots(words, v.payload, v.family.Width())
	}
	return nil
}

// patchWord sets bits. It does not write a word whose bits are all set: a write would take the cache line away from
// all readers.
func patchWord(w *uint64, set uint64) {
	if atomic.LoadUint64(w)&set != set {
		atomic.OrUint64(w, set)
	}
}

// patchPayload sets the bits of each word of a payload.
func patchPayload(words []uint64, payload []byte) {
	for i := 0; i < len(payload); i += 8 {
		patchWord(&words[i/8], binary.LittleEndian.Uint64(payload[i:]))
	}
}

// patchWords sets the bits of each word.
func patchWords(words, set []uint64) {
	for i := range set {
		patchWord(&words[i], set[i])
	}
}

// manyProbes reports whether it is faster to collect the bits of items, and to set the bits of each word of the block
// at once.
func manyProbes(layout *probe.Layout, items int, words []uint64) bool {
	return items*int(layout.Hashes) > len(words)/2
}

func patchBits(words []uint64, positions []uint16) {
	for _, p := range positions {
		patchWord(&words[p>>6], 1<<(p&63))
	}
}

func (v *value) patchPositions(words []uint64) {
	for ps := v.positions.first(); len(ps) > 0; ps = v.positions.next() {
		patchBits(words, ps)
	}
}

// patchItems sets the bits of a few items one by one. It collects the bits of many items: writing the words of a block
// in order, and each once, is faster.
func (v *value) patchItems(words []uint64) {
	if manyProbes(&v.items.layout, len(v.payload)/v.items.width, words) {
		v.patchBlock(words)
		return
	}
	items := v.items
	var probes [probe.MaxHashes]uint16
	for h, ok := items.next(); ok; h, ok = items.next() {
		patchBits(words, items.layout.AppendProbes(probes[:0], h))
	}
}

func patchSlots(words []uint64, payload []byte, width int) {
	r := readSlots(payload, width)
	for i, v, ok := r.next(); ok; i, v, ok = r.next() {
		patchSlot(words, width, i, v)
	}
}

// patchSlot is setSlot for a block that other goroutines may be reading.
func patchSlot(words []uint64, width, i int, v uint32) {
	p, mask := i*width, uint64(1)<<width-1
	k, shift := p>>6, p&63
	patchPart(&words[k], mask<<shift, uint64(v)<<shift)
	if shift+width > 64 {
		patchPart(&words[k+1], mask>>(64-shift), uint64(v)>>(64-shift))
	}
}

// patchPart gives the bits of w that mask selects the value v.
func patchPart(w *uint64, mask, v uint64) {
	if old := atomic.LoadUint64(w); old&mask != v {
		atomic.StoreUint64(w, old&^mask|v)
	}
}

func (v *value) patchBlock(words []uint64) {
	var block [MaxWords]uint64
	v.fill(block[:len(words)])
	if v.family == FamilyBits {
		patchWords(words, block[:len(words)])
		return
	}
	for i := range words {
		patchPart(&words[i], ^uint64(0), block[i])
	}
}
