package probe_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sievekv/sievekv/internal/probe"
)

// Adding to a draft sets the bits that AppendPositions names, counts those that were not set, and leaves the block as
// it is.
func TestDraft(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct{ blocks, lines, hashes, linesPerItem uint64 }{
		{1, 1, 1, 1}, {1, 2, 6, 1}, {153, 128, 7, 1}, {304, 128, 13, 2}, {458, 97, 19, 3}, {3, 3, 31, 3}, {1, 128, 64, 3},
	} {
		l := mustLayout(t, c.blocks, c.lines, c.hashes, c.linesPerItem)
		for range 20 {
			words := make([]uint64, l.BlockWords())
			for range random.IntN(len(words)) {
				words[random.IntN(len(words))] |= random.Uint64() & random.Uint64()
			}
			before, want := slices.Clone(words), slices.Clone(words)
			d := probe.NewDraft(probe.FirstLine(words)) // most likely with the memory of the one before
			var staged []uint16
			for range random.IntN(3) {
				p := uint16(random.IntN(64 * len(words)))
				staged = append(staged, p)
				want[p>>6] |= 1 << (p & 63)
			}
			d.SetBits(staged)
			hashes := make([]uint64, random.IntN(1+random.IntN(100)))
			for i := range hashes {
				hashes[i] = random.Uint64()
			}
			l.Prepare(d, hashes)
			for _, h := range hashes {
				added := 0
				for _, p := range l.AppendPositions(nil, h) {
					if want[p>>6]>>(p&63)&1 == 0 {
						added++
						want[p>>6] |= 1 << (p & 63)
					}
				}
				if got := l.Add(d, h); got != added {
					t.Fatalf("%+v: Add(%#x) set %d bits, want %d", c, h, got, added)
				}
			}
			var wantNew []uint16
			for p := range 64 * len(words) {
				if (want[p>>6]&^before[p>>6])>>(p&63)&1 != 0 {
					wantNew = append(wantNew, uint16(p))
				}
			}
			if got := d.AppendNew([]uint16{1}); !slices.Equal(got[1:], wantNew) || got[0] != 1 {
				t.Fatalf("%+v: the draft has %d new bits, want %d", c, len(got)-1, len(wantNew))
			}
			if !slices.Equal(words, before) {
				t.Fatalf("%+v: adding to a draft has changed the block", c)
			}
			d.Release()
		}
	}
}
