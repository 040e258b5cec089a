package block_test

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/probe"
)

// Every item of a block can be stored: also the first and the last, in layers of any number of blocks.
func TestItems_ends(t *testing.T) {
	for _, blocks := range []uint64{1, 2, 3, 255, 256, 257, 65535, 65536, 1<<30 - 1, 1 << 30} {
		layout := mustLayout(blocks, 128, 9, 2)
		for _, blk := range []uint64{0, blocks / 2, blocks - 1} {
			hashes := []uint64{firstHash(blk, blocks), lastHash(blk, blocks)}
			value := block.AppendItemsOperand(nil, &layout, blk, hashes)
			words, _ := mustDecode(t, block.FamilyBits, 128, value)
			if d := diff(words, holdingItems(&layout, hashes...)); d != "" {
				t.Errorf("block %d of %d: %s", blk, blocks, d)
			}
			if blk+1 < blocks && blocks%256 != 0 { // else the bytes of an item have no room for it
				value = block.AppendItemsOperand(nil, &layout, blk, []uint64{firstHash(blk+1, blocks)})
				if _, err := block.Decode(words, block.FamilyBits, value); err == nil {
					t.Errorf("block %d of %d takes an item of the next", blk, blocks)
				}
			}
		}
	}
}

// firstHash finds the lowest hash of a block by trying.
func firstHash(blk, blocks uint64) uint64 {
	layout := mustLayout(blocks, 128, 9, 2)
	low, high := uint64(0), uint64(math.MaxUint64)
	for low < high {
		middle := low + (high-low)/2
		if of, _ := layout.Block(middle); of < blk {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

func lastHash(blk, blocks uint64) uint64 {
	if blk+1 == blocks {
		return math.MaxUint64
	}
	return firstHash(blk+1, blocks) - 1
}

// Items of a layer of longer blocks belong to a block if their bits do, whatever was merged before.
func TestItems_moreLines(t *testing.T) {
	layout := mustLayout(1, 4, 3, 1)
	inside := block.AppendItemsOperand(nil, &layout, 0, []uint64{1 << 61, 5})
	outside := block.AppendItemsOperand(nil, &layout, 0, []uint64{1 << 63})
	short := block.AppendBlock(nil, block.FamilyBits, holding(2, 100))
	want := holding(2, 100)
	for i, w := range holdingItems(&layout, 1<<61, 5)[:2*block.LineWords] {
		want[i] |= w
	}
	for _, values := range [][][]byte{{short, inside}, {inside, short}, {inside, inside, short}, {merged(inside, inside), short}} {
		words, _ := mustDecode(t, block.FamilyBits, 2, merged(values...))
		if d := diff(words, want); d != "" {
			t.Error(d)
		}
	}
	words := holding(2, 100)
	if err := block.Patch(words, block.FamilyBits, inside); err != nil || diff(words, want) != "" {
		t.Errorf("Patch: %v, %s", err, diff(words, want))
	}
	for _, values := range [][][]byte{{short, outside}, {outside, short}, {inside, outside, short}} {
		if _, err := block.Decode(words, block.FamilyBits, merged(values...)); err == nil {
			t.Error("items behind the end of the block are taken")
		}
	}
}

// A set of items makes their operand, and expanded the one of the bits that the block does not have.
func TestBitSet_items(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	layout, blk, hashes := randomItems(random, 128, 40)
	words := holdingItems(layout, hashes[:3]...)
	var set block.BitSet
	added := make([]bool, len(hashes))
	ones := 0
	for i, h := range hashes {
		n := layout.Set(slices.Clone(words), h)
		if added[i] = n > 0; added[i] {
			ones = len(newBits(words, positionsOf(layout, hashes[:i+1])))
		}
	}
	half := len(hashes) / 2
	first := len(newBits(words, positionsOf(layout, hashes[:half])))
	if !set.AddItems(layout, hashes[:half], added[:half], half-3, first) ||
		!set.AddItems(layout, hashes[half:], added[half:], len(hashes)-half, ones-first) {
		t.Fatal("the set has not taken items")
	}
	var scratch []uint16
	if got, want := set.AppendOperand(nil, blk, &scratch), block.AppendItemsOperand(nil, layout, blk, hashes[3:]); !slices.Equal(got, want) {
		t.Errorf("the operand is %x, want %x", got, want)
	}
	if set.Len() != ones || !set.HasItems() {
		t.Errorf("the set has %d bits, want %d", set.Len(), ones)
	}
	set.Expand(words)
	want := newBits(words, positionsOf(layout, hashes))
	if set.HasItems() || set.Len() != ones || !slices.Equal(set.AppendTo(nil), want) {
		t.Errorf("the set has %d bits %v, want %d, %v", set.Len(), set.AppendTo(nil), ones, want)
	}
	if set.AddItems(layout, hashes, added, len(hashes), ones) {
		t.Error("a set of bits has taken items")
	}
	if got := set.AppendOperand(nil, blk, &scratch); !slices.Equal(got, block.AppendBitsOperand(nil, want)) {
		t.Errorf("the operand is %x", got)
	}
	set.Reset(0)
	few := mustLayout(1, 16, 2, 1)
	if set.AddItems(&few, hashes, added, len(hashes), 2*len(hashes)) {
		t.Error("the set takes many items that are longer than their bits")
	}
}

// A set of few items keeps them, also if their bits are shorter. Then its operand has the bits. Either way it sets in
// memory what the operand sets, and the operand is not longer than the set's growth says after it was expanded.
func TestBitSet_fewItems(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	var scratch []uint16
	var patcher block.Patcher
	for _, hashCount := range []uint64{1, 3, 6, 18} {
		for n := 1; n < 100; n += 1 + n/4 {
			layout := mustLayout(1500, 128, hashCount, 1)
			blk := random.Uint64N(1500)
			hashes, added := make([]uint64, n), make([]bool, n)
			for i := range hashes {
				hashes[i], added[i] = firstHash(blk, 1500)+random.Uint64N(1<<50), true
			}
			all := newBits(make([]uint64, block.MaxWords), positionsOf(&layout, hashes))
			var set block.BitSet
			if !set.AddItems(&layout, hashes, added, n, len(all)) || !set.HasItems() {
				t.Fatalf("the set has not taken %d items", n)
			}
			operand := set.AppendOperand(nil, blk, &scratch)
			bits, items := block.AppendBitsOperand(nil, all), block.AppendItemsOperand(nil, &layout, blk, hashes)
			if len(operand) > min(len(bits)*5/4+4, len(items)) && len(operand) > len(bits) {
				t.Errorf("the operand of %d items has %d bytes, of the bits it would have %d, of the items %d", n, len(operand), len(bits), len(items))
			}
			want := make([]uint64, block.MaxWords)
			block.SetBits(want, all)
			words, _ := mustDecode(t, block.FamilyBits, 128, operand)
			if d := diff(words, want); d != "" {
				t.Errorf("the operand of %d items: %s", n, d)
			}
			words = make([]uint64, block.MaxWords)
			if err := patcher.Patch(words, block.FamilyBits, set.AppendChange(nil)); err != nil || diff(words, want) != "" {
				t.Errorf("Patch with %d items: %v, %s", n, err, diff(words, want))
			}
			growth := set.Growth()
			set.Expand(make([]uint64, block.MaxWords))
			if expanded := set.AppendOperand(nil, blk, &scratch); len(expanded) > len(operand)+growth {
				t.Errorf("the operand of %d items grew by %d bytes, by %d at most was said", n, len(expanded)-len(operand), growth)
			}
			words = make([]uint64, block.MaxWords)
			if err := patcher.Patch(words, block.FamilyBits, set.AppendChange(nil)); err != nil || diff(words, want) != "" {
				t.Errorf("Patch with the bits of %d items: %v, %s", n, err, diff(words, want))
			}
			if got := block.AppendShorter(nil, &layout, blk, hashes, &scratch); len(got) > max(len(bits), len(items)) {
				t.Errorf("the shorter operand of %d items has %d bytes", n, len(got))
			}
		}
	}
}

// newBits returns the positions that are not set in a block.
func newBits(words []uint64, positions []uint16) (ps []uint16) {
	for _, p := range positions {
		if words[p/64]>>(p%64)&1 == 0 {
			ps = append(ps, p)
		}
	}
	return ps
}

// No item takes more of an operand than ItemBytes says, however many there are.
func TestItemBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	var scratch []uint16
	for range 3000 {
		layout, err := probe.NewLayout(1+rng.Uint64N(1<<rng.IntN(30)), 1+rng.Uint64N(128), 1+rng.Uint64N(64), 1)
		if err != nil {
			t.Fatal(err)
		}
		hashes := make([]uint64, 1+rng.IntN(1<<rng.IntN(11)))
		first, _ := bits.Div64(layout.Blocks-1, 0, layout.Blocks)
		for i := range hashes {
			hashes[i] = first + 1 + rng.Uint64N(math.MaxUint64-first)
		}
		const header = 4 + 2*10
		got := len(block.AppendShorter(nil, &layout, layout.Blocks-1, hashes, &scratch))
		if most := header + len(hashes)*block.ItemBytes(&layout); got > most {
			t.Fatalf("%d items of %+v take %d bytes, want at most %d", len(hashes), layout, got, most)
		}
	}
}
