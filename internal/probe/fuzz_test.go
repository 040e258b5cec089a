package probe_test

import (
	"slices"
	"testing"

	"github.com/sievekv/sievekv/internal/probe"
)

func FuzzSize(f *testing.F) {
	f.Fuzz(func(t *testing.T, capacity uint64, rate float64) {
		l, err := probe.Size(capacity, rate)
		if err != nil {
			if l != (probe.Layout{}) {
				t.Errorf("layout %+v with error %v", l, err)
			}
			return
		}
		if got := l.ExpectedRate(capacity); !(got <= min(rate, 0.25)) {
			t.Errorf("expected rate is %g", got)
		}
		again, err := probe.NewLayout(l.Blocks, uint64(l.Lines), uint64(l.Hashes), uint64(l.LinesPerItem))
		if err != nil || again != l {
			t.Errorf("%+v restored: %+v, %v", l, again, err)
		}
	})
}

func FuzzLayout(f *testing.F) {
	f.Fuzz(func(t *testing.T, blocks, lines, hashes, linesPerItem, hash, items uint64) {
		l, err := probe.NewLayout(blocks, lines, hashes, linesPerItem)
		if err != nil {
			return
		}
		if l.Bits() == 0 || l.Bits() > probe.MaxBits {
			t.Errorf("%d bits", l.Bits())
		}
		if rate := l.ExpectedRate(items); !(rate >= 0 && rate <= 1) {
			t.Errorf("expected rate for %d items is %v", items, rate)
		}
		b, rest := l.Block(hash)
		if b >= l.Blocks {
			t.Errorf("block %d of %d", b, l.Blocks)
		}
		words := make([]uint64, l.BlockWords())
		positions := l.AppendPositions(nil, hash)
		if !slices.IsSorted(positions) || len(positions) == 0 || len(positions) > int(l.Hashes) {
			t.Errorf("positions %v", positions)
		}
		for _, p := range positions {
			words[p/64] |= 1 << (p % 64)
		}
		if !l.Test(probe.FirstLine(words), rest, hash) {
			t.Error("not found")
		}
		words[positions[len(positions)/2]/64] = 0
		if l.Test(probe.FirstLine(words), rest, hash) {
			t.Error("found without a bit")
		}
	})
}
