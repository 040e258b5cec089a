package block_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sievekv/sievekv/internal/block"
)

// A BitSet is what a map says, with few bits and with many, whatever was added and removed.
func TestBitSet(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var s block.BitSet
	want := make(map[uint16]bool)
	check := func(step int) {
		t.Helper()
		sorted := slices.Sorted(maps.Keys(want))
		if got := s.AppendTo(nil); s.Len() != len(want) || !slices.Equal(got, sorted) {
			t.Fatalf("after step %d the set has %d bits, %d of them listed, want %d", step, s.Len(), len(got), len(want))
		}
		words, wantWords := make([]uint64, block.MaxWords), make([]uint64, block.MaxWords)
		words[7], wantWords[7] = 1<<9, 1<<9 // stays
		s.Set(words)
		for p := range want {
			wantWords[p>>6] |= 1 << (p & 63)
		}
		if !slices.Equal(words, wantWords) {
			t.Fatalf("after step %d other bits are set than listed", step)
		}
		var patcher block.Patcher
		patched := make([]uint64, block.MaxWords)
		patched[7] = 1 << 9
		if change := s.AppendChange(nil); len(want) > 0 && (patcher.Patch(patched, block.FamilyBits, change) != nil || !slices.Equal(patched, words) || len(change) > s.ChangeSize()+block.MaxHeader) {
			t.Fatalf("after step %d a change of %d bytes sets other bits, or is longer than %d", step, len(change), s.ChangeSize()+block.MaxHeader)
		}
	}
	for round := range 4 {
		for step := range 6000 {
			p := uint16(random.Uint32())
			switch random.IntN(8) {
			case 0:
				if want[p] {
					s.Remove(p)
					delete(want, p)
				}
			default:
				if s.Has(p) != want[p] || s.Add(p) == want[p] || !s.Has(p) {
					t.Fatalf("step %d: the set does not know whether it has bit %d", step, p)
				}
				want[p] = true
			}
			if step%499 == 0 || len(want) > 2040 && len(want) < 2056 {
				check(step)
			}
		}
		s.Reset([]int{0, 64, 4096, 0}[round])
		clear(want)
		check(-1)
	}
}
