package probe_test

import (
	"math"
	"math/bits"
	"testing"

	"github.com/sievekv/sievekv/internal/probe"
)

// splitmix is a sequence of uniform hashes, far cheaper than hashing keys.
type splitmix uint64

func (s *splitmix) next() uint64 {
	*s += 0x9E3779B97F4A7C15
	return mix(uint64(*s))
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// filter is a layer at its simplest: all blocks in memory, one user.
type filter struct {
	layout probe.Layout
	blocks [][]uint64
	buf    []uint16
}

func newFilter(l probe.Layout) *filter {
	f := &filter{layout: l}
	for range l.Blocks {
		f.blocks = append(f.blocks, make([]uint64, l.BlockWords()))
	}
	return f
}

func (f *filter) add(h uint64) {
	b, _ := f.layout.Block(h)
	f.buf = f.layout.AppendPositions(f.buf[:0], h)
	for _, p := range f.buf {
		first := int(p) * f.cellBits()
		f.blocks[b][first/64] |= 1 << (first % 64) // makes a counter 1
	}
}

func (f *filter) mayContain(h uint64) bool {
	b, rest := f.layout.Block(h)
	if f.cellBits() == probe.CounterBits {
		return f.layout.Least(probe.FirstLine(f.blocks[b]), rest, h) > 0
	}
	return f.layout.Test(probe.FirstLine(f.blocks[b]), rest, h)
}

// cellBits returns 1, or the bits of a counter.
func (f *filter) cellBits() int { return int(f.layout.Bits() / f.layout.Cells()) }

func (f *filter) clear() {
	for _, b := range f.blocks {
		clear(b)
	}
}

// blockRate returns the chance that an absent item of block b tests as present, computed from the number of bits set
// in each line: the mean over all ways to choose the item's lines of the product of fill^probes.
func (f *filter) blockRate(b int) float64 {
	k, g := int(f.layout.Hashes), int(f.layout.LinesPerItem)
	power := func(fill float64, j int) float64 {
		if j >= g {
			return 1
		}
		n := k / g
		if j < k%g {
			n++
		}
		return math.Pow(fill, float64(n))
	}
	var x, y, z, xy, xz, yz, xyz float64 // sums over lines of the powers and of their products
	lines := float64(f.layout.Lines)
	for i := range int(f.layout.Lines) {
		fill := lineFill(f.blocks[b][i*8:i*8+8], 512/f.cellBits())
		p, q, r := power(fill, 0), power(fill, 1), power(fill, 2)
		x, y, z = x+p, y+q, z+r
		xy, xz, yz, xyz = xy+p*q, xz+p*r, yz+q*r, xyz+p*q*r
	}
	// The product of the sums includes choices with the same line twice, which are subtracted.
	switch g {
	case 1:
		return x / lines
	case 2:
		return (x*y - xy) / (lines * (lines - 1))
	}
	return (x*y*z - xy*z - xz*y - yz*x + 2*xyz) / (lines * (lines - 1) * (lines - 2))
}

func mustSize(t testing.TB, capacity uint64, rate float64) probe.Layout {
	t.Helper()
	l, err := probe.Size(capacity, rate)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func mustLayout(t testing.TB, blocks, lines, hashes, linesPerItem uint64) probe.Layout {
	t.Helper()
	l, err := probe.NewLayout(blocks, lines, hashes, linesPerItem)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func mustSizeCounters(t testing.TB, capacity uint64, rate float64) probe.Layout {
	t.Helper()
	l, err := probe.SizeCounters(capacity, rate)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func lineFill(words []uint64, cells int) float64 {
	n := 0
	for _, w := range words {
		n += bits.OnesCount64(w)
	}
	return float64(n) / float64(cells)
}
