package block

import (
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
)

const (
	// Bits is the number of bits of a block of full length.
	Bits = 65536
	// Size is the number of bytes of a block of full length in memory.
	Size = Bits / 8
	// MaxWords is the number of words of a block of full length.
	MaxWords = Bits / 64
	// LineBits is the number of bits of a line.
	LineBits = 512
	// LineWords is the number of words of a line.
	LineWords = LineBits / 64
	// MaxLines is the number of lines of a block of full length.
	MaxLines = Bits / LineBits
)

const lineBytes = LineBits / 8

// Line is one line of a block in memory.
type Line = [LineWords]uint64

// MergerName is the name under which the storage engine knows this package's merging. The engine refuses to open a
// store made under another name. It is part of the stored format.
const MergerName = "sievekv.block.v1"

// ErrCorrupt is returned, wrapped with what is wrong, for a value that this package cannot have written for this
// block.
var ErrCorrupt = errors.New("block: corrupt value")

// Family says what the bits of a block mean. It is the width of a slot in bits, and 1 in the bits family. The zero
// Family is not valid. Stored on disk, here and in headers: never renumber.
type Family uint8

const (
	// FamilyBits is the family of blocks whose bits are only ever set.
	FamilyBits Family = 1
	// FamilySlots4 is the family of blocks of 4-bit slots, up to 16,384 of them.
	FamilySlots4 Family = 4
	// FamilySlots8 is the family of blocks of 8-bit slots, up to 8,192 of them.
	FamilySlots8 Family = 8
	// FamilySlots10 is the family of blocks of 10-bit slots, up to 6,553 of them. Slots of 10, 12, 14, 18, 20 and 24 bits
	// may lie in two words, even in two lines, and the bits behind the last slot, fewer than a slot has, are never used.
	FamilySlots10 Family = 10
	// FamilySlots12 is the family of blocks of 12-bit slots, up to 5,461 of them.
	FamilySlots12 Family = 12
	// FamilySlots14 is the family of blocks of 14-bit slots, up to 4,681 of them.
	FamilySlots14 Family = 14
	// FamilySlots16 is the family of blocks of 16-bit slots, up to 4,096 of them.
	FamilySlots16 Family = 16
	// FamilySlots18 is the family of blocks of 18-bit slots, up to 3,640 of them.
	FamilySlots18 Family = 18
	// FamilySlots20 is the family of blocks of 20-bit slots, up to 3,276 of them.
	FamilySlots20 Family = 20
	// FamilySlots24 is the family of blocks of 24-bit slots, up to 2,730 of them.
	FamilySlots24 Family = 24
	// FamilySlots32 is the family of blocks of 32-bit slots, up to 2,048 of them.
	FamilySlots32 Family = 32
)

// Valid reports whether f is one of the families above.
func (f Family) Valid() bool { return f == FamilyBits || f.hasSlots() }

func (f Family) hasSlots() bool { return f > FamilyBits && familyOfCode[slotsCode(f)] == f }

// slotFamilies are the families of slots.
var slotFamilies = [...]Family{
	FamilySlots4, FamilySlots8, FamilySlots10, FamilySlots12, FamilySlots14, FamilySlots16, FamilySlots18, FamilySlots20, FamilySlots24, FamilySlots32,
}

// Width returns the number of bits of a slot: 1 in the bits family.
func (f Family) Width() int { return int(f) }

// Slots returns how many slots a block of the given number of lines has. f must be valid.
func (f Family) Slots(lines int) int { return lines * LineBits / f.Width() }

// String returns "bits", or the width, as in "12-bit slots".
func (f Family) String() string {
	switch {
	case f == FamilyBits:
		return "bits"
	case f.hasSlots():
		return fmt.Sprintf("%d-bit slots", uint8(f))
	}
	return fmt.Sprintf("unknown family %d", uint8(f))
}

// Count returns the number of set bits. It reads without atomic loads, so no other goroutine may be changing the
// block.
func Count(words []uint64) int {
	n := 0
	for _, w := range words {
		n += bits.OnesCount64(w)
	}
	return n
}

// checkBlock panics if a caller's block has a length or a family that cannot be stored. What was written for it could
// never be read again.
func checkBlock(fam Family, words []uint64) {
	if !fam.Valid() || len(words) == 0 || len(words) > MaxWords || len(words)%LineWords != 0 {
		panic(fmt.Sprintf("block: %d words of %v: want 8 to %d words in lines of 8", len(words), fam, MaxWords))
	}
}

// SetSlots gives slots of a block new values. No other goroutine may be using the block.
func SetSlots(words []uint64, fam Family, slots []Slot) {
	for _, s := range slots {
		setSlot(words, fam.Width(), int(s.Index), s.Value&uint32(uint64(1)<<fam.Width()-1))
	}
}

// SetBits sets bits of a block. No other goroutine may be using the block.
func SetBits(words []uint64, positions []uint16) {
	for _, p := range positions {
		words[p>>6] |= 1 << (p & 63)
	}
}

// Copy copies a block that other goroutines may be changing, as Patch does.
func Copy(to, from []uint64) {
	for i := range to {
		to[i] = atomic.LoadUint64(&from[i])
	}
}

// SlotAt returns the value of slot i of a block of slots. No other goroutine may be changing the block.
func SlotAt(words []uint64, fam Family, i int) uint32 { return slotAt(words, fam.Width(), i) }

// setSlot gives slot i of a block of slots of the given width the value v, which is less than 1<<width.
func setSlot(words []uint64, width, i int, v uint32) {
	p := i * width
	k, shift := p>>6, p&63
	mask := uint64(1)<<width - 1
	words[k] = words[k]&^(mask<<shift) | uint64(v)<<shift
	if shift+width > 64 {
		words[k+1] = words[k+1]&^(mask>>(64-shift)) | uint64(v)>>(64-shift)
	}
}

// slotAt returns the value of slot i of a block of slots of the given width.
func slotAt(words []uint64, width, i int) uint32 {
	p := i * width
	k, shift := p>>6, p&63
	v := words[k] >> shift
	if shift+width > 64 {
		v |= words[k+1] << (64 - shift)
	}
	return uint32(v & (1<<width - 1))
}
