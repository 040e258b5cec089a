package probe_test

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/probe"
)

// This is TestExpectedRate_measured for counters, for the capacity asked for and for parts of it. The bound leaves 1
// % of the rate to what the formula neglects: the third moment of the fill weighs more in lines of 128.
func TestExpectedRate_countersMeasured(t *testing.T) {
	for i, c := range []measurement{
		{rate: 0.1, items: 100, filters: 4000, probes: 2e6},
		{rate: 0.1, items: 1e5, filters: 4, probes: 2e6},
		{rate: 1e-2, items: 100, filters: 4000, probes: 4e6},
		{rate: 1e-2, items: 1e4, filters: 40, probes: 2e6},
		{rate: 1e-2, items: 1e6, filters: 1, probes: 2e6},
		{rate: 5e-3, items: 1e5, filters: 4, probes: 4e6},
		{rate: 1e-3, items: 100, filters: 4000, probes: 2e6},
		{rate: 1e-3, items: 1e5, filters: 4, probes: 2e6},
		{rate: 1e-4, items: 100, filters: 2000, probes: 4e6},
		{rate: 1e-4, items: 1e5, filters: 4, probes: 4e6},
		{rate: 1e-5, items: 1e5, filters: 4, probes: 4e6},
		{rate: 1e-6, items: 100, filters: 2000, probes: 2e6},
		{rate: 1e-6, items: 1e5, filters: 4, probes: 4e6},
	} {
		layout := mustSizeCounters(t, c.items, c.rate)
		for _, fill := range []float64{1, 0.7} {
			c := c
			c.items = uint64(fill * float64(c.items))
			t.Run(fmt.Sprintf("%g/%d", c.rate, c.items), func(t *testing.T) {
				t.Parallel()
				c.run(layout, splitmix(i)<<56)
				mean, stdErr := c.fillRate()
				want := layout.ExpectedRate(c.items)
				t.Logf("%d hashes in %d lines, %.2f counters per item: rate by fill %.4g, standard error %.2g, formula %.4g",
					layout.Hashes, layout.LinesPerItem, float64(layout.Cells())/float64(c.items), mean, stdErr, want)
				if math.Abs(mean-want) > 4*stdErr+0.01*want {
					t.Errorf("%+v: rate by fill is %.4g, standard error %.2g, want ExpectedRate %.4g", layout, mean, stdErr, want)
				}
				if math.Abs(c.hits-c.wantHits) > 4*math.Sqrt(c.wantHits) {
					t.Errorf("%+v: %v hits among %v absent items, want %.0f", layout, c.hits, c.probes, c.wantHits)
				}
				if mean > c.rate {
					t.Errorf("%+v: rate by fill is %.4g, above the %g asked for", layout, mean, c.rate)
				}
			})
		}
	}
}

// By the formula, every size keeps to its rate, and a large one takes at most 15 % more counters than a classic
// filter.
func TestSizeCounters(t *testing.T) {
	for _, rate := range []float64{0.99, 0.25, 0.1, 0.01, 0.007, 0.005, 0.0049, 1e-3, 1e-4, 1e-5, 1e-6} {
		asked := min(rate, 0.25)
		large := mustSizeCounters(t, 1e9, rate)
		perItem := float64(large.Cells()) / 1e9
		classic := -math.Log(asked) / (math.Ln2 * math.Ln2)
		t.Logf("%g: %d hashes in %d lines, %.2f counters per item, classic %.2f", rate, large.Hashes, large.LinesPerItem, perItem, classic)
		if perItem > 1.15*classic {
			t.Errorf("%g: %.2f counters per item, want at most %.2f", rate, perItem, 1.15*classic)
		}
		for n := uint64(1); n < 200_000; n += 1 + n/10 {
			l := mustSizeCounters(t, n, rate)
			if got := l.ExpectedRate(n); got > asked {
				t.Errorf("SizeCounters(%d, %g): expected rate is %g in %+v", n, rate, got, l)
			}
			if most := float64(n)*perItem*1.15 + 128*float64(l.Blocks+2); float64(l.Cells()) > most {
				t.Errorf("SizeCounters(%d, %g): %d counters, want at most %.0f", n, rate, l.Cells(), most)
			}
			again, err := probe.NewCounterLayout(l.Blocks, uint64(l.Lines), uint64(l.Hashes), uint64(l.LinesPerItem))
			if err != nil || again != l {
				t.Errorf("%+v restored: %+v, %v", l, again, err)
			}
		}
	}
	if bits := mustLayout(t, 1, 1, 4, 1); bits == mustCounterLayout(t, 1, 1, 4, 1) {
		t.Error("layouts of bits and of counters are equal")
	}
}

func mustCounterLayout(t testing.TB, blocks, lines, hashes, linesPerItem uint64) probe.Layout {
	t.Helper()
	l, err := probe.NewCounterLayout(blocks, lines, hashes, linesPerItem)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The lines per item are the number that needs the fewest counters. At high rates a third line would save less than 3
// %, and is not used.
func TestSizeCounters_linesPerItem(t *testing.T) {
	for _, rate := range []float64{0.25, 0.1, 0.03, 0.01, 0.005, 0.0049, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8} {
		l := mustSizeCounters(t, 1e8, rate)
		have, _ := probe.PlanCounters(rate, int(l.LinesPerItem), 0)
		for g := 1; g <= 3; g++ {
			if c, _ := probe.PlanCounters(rate, g, 0); c < have*0.97 {
				t.Errorf("%g: %.2f counters per item with %d lines, %.2f with %d", rate, have, l.LinesPerItem, c, g)
			}
		}
	}
}

func TestFromCounters(t *testing.T) {
	for _, c := range []struct {
		counters     uint64
		hashes       int
		cells        uint64
		linesPerItem uint8
	}{
		{1, 1, 128, 1}, {128, 1, 128, 1}, {129, 3, 256, 2}, {1000, 7, 1024, 2}, {1000, 8, 1024, 3},
		{16_384, 6, 16_384, 2}, {16_385, 6, 2 * 65 * 128, 2}, {probe.MaxBits / 4, 64, probe.MaxBits / 4, 3},
	} {
		l, err := probe.FromCounters(c.counters, c.hashes)
		if err != nil || l.Cells() != c.cells || l.LinesPerItem != c.linesPerItem || int(l.Hashes) != c.hashes {
			t.Errorf("FromCounters(%d, %d) = %+v of %d counters, %v, want %d in %d lines per item",
				c.counters, c.hashes, l, l.Cells(), err, c.cells, c.linesPerItem)
		}
	}
	_, err := probe.FromCounters(0, 1)
	checkError(t, "FromCounters(0, 1)", err, "counters is 0", "1 to 17592186044416")
	_, err = probe.FromCounters(probe.MaxBits/4+1, 1)
	checkError(t, "FromCounters(2^44 + 1, 1)", err, "counters is 17592186044417")
	_, err = probe.FromCounters(1, 65)
	checkError(t, "FromCounters(1, 65)", err, "hashes is 65", "1 to 64")
}

// Least looks at the counters that AppendPositions names, and at no others.
func TestLayout_Least(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.Uint64Range(1, probe.MaxLines).Draw(t, "lines")
		hashes := rapid.Uint64Range(1, probe.MaxHashes).Draw(t, "hashes")
		g := rapid.Uint64Range(1, min(lines, hashes, probe.MaxLinesPerItem)).Draw(t, "lines per item")
		l, err := probe.NewCounterLayout(rapid.Uint64Range(1, 1000).Draw(t, "blocks"), lines, hashes, g)
		if err != nil {
			t.Fatal(err)
		}
		h := rapid.Uint64().Draw(t, "hash")
		low := uint32(rapid.IntRange(0, 14).Draw(t, "low"))
		_, rest := l.Block(h)
		words := make([]uint64, l.BlockWords())
		positions := l.AppendPositions(nil, h)
		for i, p := range positions {
			if i > 0 && p <= positions[i-1] || int(p) >= len(words)*16 {
				t.Fatalf("positions %v in a block of %d counters", positions, len(words)*16)
			}
			block.SetSlots(words, block.FamilySlots4, []block.Slot{{Index: p, Value: low + 1}})
		}
		at := positions[rapid.IntRange(0, len(positions)-1).Draw(t, "at")]
		if got := l.Least(probe.FirstLine(words), rest, h); got != uint64(low+1) {
			t.Fatalf("Least = %d with all counters %d", got, low+1)
		}
		block.SetSlots(words, block.FamilySlots4, []block.Slot{{Index: at, Value: low}})
		if got := l.Least(probe.FirstLine(words), rest, h); got != uint64(low) {
			t.Fatalf("Least = %d with counter %d at %d", got, at, low)
		}
	})
}
