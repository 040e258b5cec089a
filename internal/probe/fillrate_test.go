package probe_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/sievekv/sievekv/internal/probe"
)

// filled is the blocks of a layer with random items; also of a layer of counters, whose counters are 1, 2, 4 or 8.
func filled(l *probe.Layout, perLine int, items int, random *rand.Rand) [][]uint64 {
	blocks := make([][]uint64, l.Blocks)
	for i := range blocks {
		blocks[i] = make([]uint64, l.BlockWords())
	}
	for range items {
		h := random.Uint64()
		blk, _ := l.Block(h)
		for _, p := range l.AppendPositions(nil, h) {
			if width := 512 / perLine; width == 1 {
				blocks[blk][p/64] |= 1 << (p % 64)
			} else {
				blocks[blk][p/16] |= 1 << (int(p%16)*width + random.IntN(4))
			}
		}
	}
	return blocks
}

// byHand is the mean over all ordered choices of lines of a block.
func byHand(l *probe.Layout, perLine int, words []uint64) float64 {
	g := int(l.LinesPerItem)
	fill := func(line int) float64 {
		n, width := 0, 512/perLine
		for cell := range perLine {
			at := cell * width
			if words[line*8+at/64]>>(at%64)&(1<<width-1) != 0 {
				n++
			}
		}
		return float64(n) / float64(perLine)
	}
	var sum, ways float64
	var choose func(chosen []int, product float64)
	choose = func(chosen []int, product float64) {
		if len(chosen) == g {
			sum, ways = sum+product, ways+1
			return
		}
	lines:
		for line := range int(l.Lines) {
			for _, other := range chosen {
				if other == line {
					continue lines
				}
			}
			k := int(l.Hashes) / g
			if len(chosen) < int(l.Hashes)%g {
				k++
			}
			choose(append(chosen, line), product*math.Pow(fill(line), float64(k)))
		}
	}
	choose(nil, 1)
	return sum / ways
}

// The rate of a layer by its blocks is the mean over all choices of an item's lines, and what random absent items find,
// to five standard deviations of the hits. The mean over layers of the same number of items is the formula's.
func TestFillRate(t *testing.T) {
	for _, tt := range []struct {
		perLine                     int
		blocks, lines, hashes, line uint64
		items                       int
	}{
		{512, 1, 1, 3, 1, 100}, {512, 1, 2, 7, 1, 100}, {512, 3, 5, 5, 1, 1200}, {512, 2, 7, 3, 2, 3000}, {512, 1, 2, 5, 2, 150},
		{512, 2, 6, 4, 3, 1000}, {512, 1, 3, 8, 3, 150}, {512, 1, 9, 5, 3, 700},
		{128, 2, 4, 3, 2, 200}, {128, 1, 6, 5, 3, 120}, {128, 1, 1, 4, 1, 20},
	} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			make := probe.NewLayout
			if tt.perLine == 128 {
				make = probe.NewCounterLayout
			}
			l, err := make(tt.blocks, tt.lines, tt.hashes, tt.line)
			if err != nil {
				t.Fatal(err)
			}
			random := rand.New(rand.NewPCG(1, uint64(tt.items)))
			var mean float64
			const layers = 200
			for i := range layers {
				blocks := filled(&l, tt.perLine, tt.items, random)
				f, want := l.NewFillRate(), 0.0
				for _, words := range blocks {
					f.Add(words)
					if i == 0 {
						want += byHand(&l, tt.perLine, words) / float64(tt.blocks)
					}
				}
				mean += f.Rate(0) / layers
				if i > 0 {
					continue
				}
				if got := f.Rate(0); math.Abs(got-want) > 1e-12*want {
					t.Errorf("rate = %v, by hand %v", got, want)
				}
				if got, more := f.Rate(0), f.Rate(1<<54); more-got < 0.99/1024 || more-got > 1.01/1024 {
					t.Errorf("rate = %v, with 2^54 items %v", got, more)
				}
				const asked = 200_000
				hits := 0
				for range asked {
					h := random.Uint64()
					blk, rest := l.Block(h)
					first := probe.FirstLine(blocks[blk])
					if tt.perLine == 512 && l.Test(first, rest, h) || tt.perLine == 128 && l.Least(first, rest, h) > 0 {
						hits++
					}
				}
				if got := float64(hits) / asked; math.Abs(got-want) > 5*math.Sqrt(want/asked) {
					t.Errorf("%v of absent items are found, rate %v", got, want)
				}
			}
			if formula := l.ExpectedRate(uint64(tt.items)); math.Abs(mean-formula) > 0.05*formula {
				t.Errorf("mean rate of %d layers = %v, by the formula %v", layers, mean, formula)
			}
		})
	}
}

func TestFillRate_edges(t *testing.T) {
	l, err := probe.NewLayout(2, 3, 5, 2)
	if err != nil {
		t.Fatal(err)
	}
	full := make([]uint64, l.BlockWords())
	for i := range full {
		full[i] = math.MaxUint64
	}
	f := l.NewFillRate()
	if got := f.Rate(0); got != 0 {
		t.Errorf("rate of an empty layer = %v", got)
	}
	if f.Add(full); f.Rate(0) != 0.5 {
		t.Errorf("rate of a layer with one of two blocks full = %v", f.Rate(0))
	}
	if f.Add(full); f.Rate(1e9) != 1 {
		t.Errorf("rate of a full layer = %v", f.Rate(1e9))
	}
}
