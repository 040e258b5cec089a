package block_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/probe"
)

var slotFamilies = []block.Family{
	block.FamilySlots4, block.FamilySlots8, block.FamilySlots10, block.FamilySlots12, block.FamilySlots14, block.FamilySlots16,
	block.FamilySlots18, block.FamilySlots20, block.FamilySlots24, block.FamilySlots32,
}

var families = append([]block.Family{block.FamilyBits}, slotFamilies...)

// blank returns a block of zeros.
func blank(lines int) []uint64 { return make([]uint64, lines*block.LineWords) }

// holding returns a block with the bits at the positions set.
func holding(lines int, positions ...int) []uint64 {
	words := blank(lines)
	for _, p := range positions {
		words[p/64] |= 1 << (p % 64)
	}
	return words
}

// scattered returns a block with the given number of random bits set, the same ones each time.
func scattered(lines, ones int) []uint64 {
	r := rand.New(rand.NewPCG(uint64(lines), uint64(ones)))
	words := blank(lines)
	for ones > 0 {
		p := r.IntN(len(words) * 64)
		if bit := uint64(1) << (p & 63); words[p>>6]&bit == 0 {
			words[p>>6] |= bit
			ones--
		}
	}
	return words
}

// full returns a block with all bits set.
func full(lines int) []uint64 {
	words := blank(lines)
	for i := range words {
		words[i] = ^uint64(0)
	}
	return words
}

// adds returns the positions of items added to a Bloom filter of one line and six
// probes for an item, ascending and without repeats.
func adds(r *rand.Rand, items int) []uint16 {
	var ps []uint16
	for range items {
		line := r.IntN(block.MaxLines)
		for range 6 {
			ps = append(ps, uint16(line*block.LineBits+r.IntN(block.LineBits)))
		}
	}
	return ascending(ps)
}

func ascending(ps []uint16) []uint16 {
	slices.Sort(ps)
	return slices.Compact(ps)
}

// randomSlots returns up to n slots with random values, ascending by index.
func randomSlots(r *rand.Rand, fam block.Family, lines, n int) []block.Slot {
	var slots []block.Slot
	for range n {
		slots = append(slots, block.Slot{
			Index: uint16(r.IntN(fam.Slots(lines))),
			Value: uint32(r.Uint64N(1 << fam.Width())),
		})
	}
	slices.SortFunc(slots, func(a, b block.Slot) int { return int(a.Index) - int(b.Index) })
	return slices.CompactFunc(slots, func(a, b block.Slot) bool { return a.Index == b.Index })
}

// setModelSlot sets a slot bit by bit, following the definition of a slot.
func setModelSlot(words []uint64, fam block.Family, s block.Slot) {
	for b := range fam.Width() {
		p := int(s.Index)*fam.Width() + b
		words[p/64] &^= 1 << (p % 64)
		words[p/64] |= uint64(s.Value>>b&1) << (p % 64)
	}
}

// change is a block or an operand: the effect that it has, and the value that stands for it.
type change struct {
	value    []byte
	operands uint32
	apply    func(words []uint64)
}

// drawChange draws an operand, or if blocks is set perhaps a block, for a block of the family and length. Sizes are
// spread over all encodings.
func drawChange(t *rapid.T, fam block.Family, lines int, blocks bool) change {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	size := rapid.SampledFrom([]int{0, 1, 2, 6, 40, 130, 700, 5000, 40000}).Draw(t, "size")
	switch {
	case blocks && rapid.IntRange(0, 3).Draw(t, "block") == 0:
		words := blank(lines)
		for range size {
			p := r.IntN(len(words) * 64)
			words[p/64] |= 1 << (p % 64)
		}
		return change{block.AppendBlock(nil, fam, words), 0, func(w []uint64) {
			for i := range w {
				if fam == block.FamilyBits {
					w[i] |= words[i]
				} else {
					w[i] = words[i]
				}
			}
		}}
	case fam == block.FamilyBits && rapid.IntRange(0, 3).Draw(t, "run") == 0:
		first := r.IntN(lines * block.LineWords)
		words := make([]uint64, 1+r.IntN(min(size+1, lines*block.LineWords-first)))
		for i := range words {
			words[i] = r.Uint64() & -r.Uint64N(2)
		}
		return change{block.AppendRunOperand(nil, first, words), 1, func(w []uint64) {
			for i, word := range words {
				w[first+i] |= word
			}
		}}
	case fam == block.FamilyBits && rapid.Bool().Draw(t, "items"):
		layout, blk, hashes := randomItems(r, lines, size/8)
		return change{block.AppendItemsOperand(nil, layout, blk, hashes), uint32(max(1, (len(hashes)+7)/8)), func(w []uint64) {
			for _, p := range positionsOf(layout, hashes) {
				w[p/64] |= 1 << (p % 64)
			}
		}}
	case fam == block.FamilyBits:
		var ps []uint16
		for range size {
			ps = append(ps, uint16(r.IntN(lines*block.LineBits)))
		}
		ps = ascending(ps)
		return change{block.AppendBitsOperand(nil, ps), 1, func(w []uint64) {
			for _, p := range ps {
				w[p/64] |= 1 << (p % 64)
			}
		}}
	}
	slots := randomSlots(r, fam, lines, size)
	return change{block.AppendSlotsOperand(nil, fam, slots), 1, func(w []uint64) {
		for _, s := range slots {
			setModelSlot(w, fam, s)
		}
	}}
}

// randomItems returns a layout with blocks of the given number of lines, one of its blocks, and hashes of n items in
// it.
func randomItems(r *rand.Rand, lines, n int) (layout *probe.Layout, blk uint64, hashes []uint64) {
	made, err := probe.NewLayout(1+r.Uint64N(1<<r.IntN(30)), uint64(lines), 3+r.Uint64N(20), 1+r.Uint64N(uint64(min(lines, 3))))
	if err != nil {
		panic(err)
	}
	blk = r.Uint64N(made.Blocks)
	for range n {
		// The hashes of a block follow each other, and a hash in the middle of its range is in it.
		h := uint64((float64(blk) + 0.25 + r.Float64()/2) / float64(made.Blocks) * (1 << 63) * 2)
		if in, _ := made.Block(h); in == blk {
			hashes = append(hashes, h)
		}
	}
	return &made, blk, hashes
}

// positionsOf returns the bits that items set, ascending and without repeats.
func positionsOf(layout *probe.Layout, hashes []uint64) (ps []uint16) {
	for _, h := range hashes {
		ps = layout.AppendPositions(ps, h)
	}
	return ascending(ps)
}

func drawFamily(t *rapid.T) block.Family { return rapid.SampledFrom(families).Draw(t, "family") }

func drawLines(t *rapid.T) int {
	return rapid.SampledFrom([]int{1, 2, 3, 64, 65, 127, 128}).Draw(t, "lines")
}

// mustDecode returns the block that a value stands for.
func mustDecode(t testing.TB, fam block.Family, lines int, value []byte) ([]uint64, block.Info) {
	t.Helper()
	words := full(lines)
	info, err := block.Decode(words, fam, value)
	if err != nil {
		t.Fatalf("Decode(%d lines of %v, %s): %v", lines, fam, brief(value), err)
	}
	return words, info
}

// brief prints the beginning of a value.
func brief(value []byte) string {
	if len(value) <= 40 {
		return fmt.Sprintf("%x", value)
	}
	return fmt.Sprintf("%x... (%d bytes)", value[:40], len(value))
}

// diff says where two blocks first differ. It returns "" if they are equal.
func diff(got, want []uint64) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d words, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			return fmt.Sprintf("word %d is %016x, want %016x", i, got[i], want[i])
		}
	}
	return ""
}

func TestFamily(t *testing.T) {
	for _, c := range []struct {
		family block.Family
		name   string
		slots  int // in a full block
		short  int // in one line
	}{
		{block.FamilyBits, "bits", 65536, 512},
		{block.FamilySlots4, "4-bit slots", 16384, 128},
		{block.FamilySlots8, "8-bit slots", 8192, 64},
		{block.FamilySlots10, "10-bit slots", 6553, 51},
		{block.FamilySlots12, "12-bit slots", 5461, 42},
		{block.FamilySlots14, "14-bit slots", 4681, 36},
		{block.FamilySlots16, "16-bit slots", 4096, 32},
		{block.FamilySlots18, "18-bit slots", 3640, 28},
		{block.FamilySlots20, "20-bit slots", 3276, 25},
		{block.FamilySlots24, "24-bit slots", 2730, 21},
		{block.FamilySlots32, "32-bit slots", 2048, 16},
	} {
		if !c.family.Valid() || c.family.String() != c.name ||
			c.family.Slots(block.MaxLines) != c.slots || c.family.Slots(1) != c.short {
			t.Errorf("%v: valid %v, %d slots, %d in a line; want %s, %d, %d", c.family, c.family.Valid(),
				c.family.Slots(block.MaxLines), c.family.Slots(1), c.name, c.slots, c.short)
		}
	}
	valid := 0
	for f := range 256 {
		if block.Family(f).Valid() {
			valid++
		}
	}
	if valid != len(families) {
		t.Errorf("%d families are valid, want %d", valid, len(families))
	}
	if got := block.Family(0).String(); got != "unknown family 0" {
		t.Errorf("family 0 is %q", got)
	}
}

func TestCount(t *testing.T) {
	for _, c := range []struct {
		words []uint64
		want  int
	}{
		{nil, 0},
		{blank(1), 0},
		{holding(1, 0, 63, 64, 511), 4},
		{scattered(128, 1234), 1234},
		{full(128), block.Bits},
	} {
		if got := block.Count(c.words); got != c.want {
			t.Errorf("Count of %d words = %d, want %d", len(c.words), got, c.want)
		}
	}
}

// Of several values of a slot the last one counts, and the slots are in order.
func TestLastOfEach(t *testing.T) {
	log := []block.Slot{{Index: 5, Value: 1}, {Index: 2, Value: 7}, {Index: 5, Value: 3}, {Index: 0, Value: 9}, {Index: 5, Value: 2}, {Index: 2, Value: 7}}
	want := []block.Slot{{Index: 0, Value: 9}, {Index: 2, Value: 7}, {Index: 5, Value: 2}}
	if got := block.LastOfEach(log); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := block.LastOfEach(nil); len(got) != 0 {
		t.Errorf("%v of nothing", got)
	}
}
