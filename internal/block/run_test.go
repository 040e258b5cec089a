package block_test

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sievekv/sievekv/internal/block"
)

// A set of words is what an array says, whether they follow each other or not, and bits may be added and removed.
func TestBitSet_words(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for round := range 200 {
		var s block.BitSet
		want := make([]uint64, block.MaxWords)
		i := random.IntN(100)
		for range random.IntN(200) {
			if want[i] = random.Uint64() & -random.Uint64N(8); round%3 == 0 {
				want[i] = random.Uint64()
			}
			s.AddWord(i, want[i])
			if i++; round%2 == 0 && random.IntN(50) == 0 {
				i += 1 + random.IntN(3)
			}
		}
		check := func(when string) {
			t.Helper()
			n, words := 0, make([]uint64, block.MaxWords)
			for _, w := range want {
				n += bits.OnesCount64(w)
			}
			s.Set(words)
			patched := make([]uint64, block.MaxWords)
			if err := new(block.Patcher).Patch(patched, block.FamilyBits, s.AppendChange(nil)); err != nil {
				t.Fatal(err)
			}
			var scratch []uint16
			read, _ := mustDecode(t, block.FamilyBits, block.MaxLines, s.AppendOperand(nil, 0, &scratch))
			listed := make([]uint64, block.MaxWords)
			block.SetBits(listed, s.AppendTo(nil))
			if s.Len() != n || !slices.Equal(words, want) || !slices.Equal(patched, want) || !slices.Equal(read, want) || !slices.Equal(listed, want) {
				t.Fatalf("round %d, %s: the set has %d bits, want %d, or others", round, when, s.Len(), n)
			}
		}
		check("words added")
		for range 20 {
			p := uint16(random.Uint32())
			had := want[p>>6]>>(p&63)&1 != 0
			switch {
			case s.Has(p) != had:
				t.Fatalf("bit %d: %t, want %t", p, !had, had)
			case had:
				s.Remove(p)
				want[p>>6] &^= 1 << (p & 63)
			default:
				s.Add(p)
				want[p>>6] |= 1 << (p & 63)
			}
		}
		check("bits added and removed")
		s.Reset(64)
		clear(want)
		check("reset")
	}
}

// Zeros at the end of a run change nothing, and may be behind the block.
func TestRun_zerosAtEnd(t *testing.T) {
	run := block.AppendRunOperand(nil, 7, []uint64{5, 0, 0})
	words, _ := mustDecode(t, block.FamilyBits, 1, run)
	patched := blank(1)
	if err := block.Patch(patched, block.FamilyBits, run); err != nil {
		t.Fatal(err)
	}
	with, _ := mustDecode(t, block.FamilyBits, 1, merged(block.AppendBlock(nil, block.FamilyBits, blank(1)), run))
	for _, got := range [][]uint64{words, patched, with} {
		if want := append(make([]uint64, 7), 5); !slices.Equal(got, want) {
			t.Errorf("a run decodes to %x, want %x", got, want)
		}
	}
	if words, _ := mustDecode(t, block.FamilyBits, 1, block.AppendRunOperand(nil, 900, []uint64{0})); !slices.Equal(words, blank(1)) {
		t.Errorf("a run of zeros behind the block decodes to %x", words)
	}
}
