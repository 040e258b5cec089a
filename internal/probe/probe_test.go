package probe_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sievekv/sievekv/internal/probe"
)

// Positions are stored: these must never change.
func TestLayout_AppendPositions_golden(t *testing.T) {
	for _, c := range []struct {
		blocks, lines, hashes, linesPerItem uint64
		hash, block                         uint64
		want                                []uint16
	}{
		{1, 1, 1, 1, 0xef46db3751d8e999, 0, []uint16{
			409,
		}},
		{1, 2, 6, 1, 0x0123456789abcdef, 0, []uint16{
			51, 106, 109, 158, 486, 495,
		}},
		{153, 128, 6, 1, 0x9e3779b97f4a7c15, 94, []uint16{
			36373, 36664, 36670, 36680, 36818, 36862,
		}},
		{165, 128, 7, 1, 0xef46db3751d8e999, 154, []uint16{
			14366, 14452, 14454, 14476, 14547, 14664, 14745,
		}},
		{304, 128, 13, 2, 0x0123456789abcdef, 1, []uint16{
			22579, 22634, 22637, 22686, 22836, 23014, 23023, 33372, 33373, 33448, 33524, 33622, 33706,
		}},
		{458, 97, 19, 3, 0x9e3779b97f4a7c15, 283, []uint16{
			2581, 2725, 2872, 2878, 2888, 3026, 3070, 11792, 11807, 11841, 11935, 11999, 12010, 26744, 26748, 26764,
			26834, 27004, 27080,
		}},
		{1073741824, 128, 25, 3, 0xfedcba9876543210, 1068969638, []uint16{
			6721, 6869, 6890, 6931, 7029, 7050, 7088, 7098, 7184, 7193, 7203, 7464, 7478, 7516, 7532, 7573,
			7590, 49709, 49728, 49745, 49783, 49973, 49983, 50015, 50102,
		}},
		{3, 3, 31, 3, 0xef46db3751d8e999, 2, []uint16{
			52, 169, 195, 236, 286, 308, 427, 459, 471, 475, 547, 635, 688, 704, 743, 744,
			814, 842, 895, 996, 1029, 1054, 1140, 1142, 1164, 1220, 1235, 1338, 1352, 1400, 1433,
		}},
	} {
		l := mustLayout(t, c.blocks, c.lines, c.hashes, c.linesPerItem)
		block, _ := l.Block(c.hash)
		got := l.AppendPositions(nil, c.hash)
		if block != c.block || !slices.Equal(got, c.want) {
			t.Errorf("%+v: hash %#x is in block %d at %v, want %d at %v", c, c.hash, block, got, c.block, c.want)
		}
	}
}

func TestMultipliers(t *testing.T) {
	n := int64(2)
	for i, got := range probe.Multipliers() {
		for !big.NewInt(n).ProbablyPrime(0) {
			n++
		}
		root := new(big.Int).Sqrt(new(big.Int).Lsh(big.NewInt(n), 128))
		if want := root.Uint64() | 1; got != want { // Uint64 keeps the lowest 64 bits, the fraction
			t.Errorf("multiplier %d is %#x, want %#x from the root of %d", i, got, want, n)
		}
		n++
	}
}

// allLayouts calls f for every number of hashes and lines per item, with odd and even numbers of lines and blocks.
func allLayouts(t *testing.T, f func(l probe.Layout)) {
	for hashes := uint64(1); hashes <= probe.MaxHashes; hashes++ {
		for g := uint64(1); g <= min(3, hashes); g++ {
			for _, lines := range []uint64{1, 2, 3, 4, 7, 65, 97, 128} {
				if lines >= g {
					f(mustLayout(t, 1, lines, hashes, g))
					f(mustLayout(t, 1_000_003, lines, hashes, g))
				}
			}
		}
	}
}

// In a block with exactly an item's positions set, Test finds the item. When any one of them is cleared it does not.
// So Test looks at exactly the positions that are written.
func TestLayout_Test_exactlyThePositions(t *testing.T) {
	hashes := splitmix(1)
	words := make([]uint64, 1024)
	allLayouts(t, func(l probe.Layout) {
		block := words[:l.BlockWords()]
		h := hashes.next()
		b, rest := l.Block(h)
		if b >= l.Blocks {
			t.Fatalf("%+v: hash %#x is in block %d", l, h, b)
		}
		positions := l.AppendPositions(nil, h)
		for _, p := range positions {
			block[p/64] |= 1 << (p % 64)
		}
		first := probe.FirstLine(block)
		if !l.Test(first, rest, h) {
			t.Fatalf("%+v: hash %#x is not found", l, h)
		}
		for _, p := range positions {
			block[p/64] ^= 1 << (p % 64)
			if l.Test(first, rest, h) {
				t.Fatalf("%+v: hash %#x is found without bit %d", l, h, p)
			}
			block[p/64] ^= 1 << (p % 64)
		}
		clear(block)
	})
}

func TestLayout_AppendPositions_shape(t *testing.T) {
	hashes := splitmix(2)
	allLayouts(t, func(l probe.Layout) {
		h := hashes.next()
		draws := probe.AppendDraws(nil, &l, h)
		if len(draws) != int(l.Hashes) {
			t.Fatalf("%+v: %d draws", l, len(draws))
		}
		perLine := map[uint16]int{}
		for _, p := range draws {
			perLine[p/512]++
		}
		if len(perLine) != int(l.LinesPerItem) {
			t.Fatalf("%+v: draws %v are in %d lines", l, draws, len(perLine))
		}
		for line, n := range perLine {
			least := int(l.Hashes) / int(l.LinesPerItem)
			if uint32(line) >= l.Lines || n < least || n > least+1 {
				t.Fatalf("%+v: %d draws in line %d", l, n, line)
			}
		}
		slices.Sort(draws)
		before := []uint16{7, 3}
		got := l.AppendPositions(before, h)
		if want := append([]uint16{7, 3}, slices.Compact(draws)...); !slices.Equal(got, want) {
			t.Fatalf("%+v: got %v, want %v", l, got, want)
		}
	})
}

func TestLayout_Test_noFalseNegatives(t *testing.T) {
	for _, rate := range []float64{0.25, 0.03, 0.01, 0.007, 1e-3, 1e-4, 1e-6, 1e-8} {
		for _, items := range []uint64{1, 10, 100, 3000, 50_000} {
			f := newFilter(mustSize(t, items, rate))
			added := splitmix(items)
			for range items {
				f.add(added.next())
			}
			again := splitmix(items)
			for range items {
				if h := again.next(); !f.mayContain(h) {
					t.Fatalf("rate %g, %d items: %#x is lost", rate, items, h)
				}
			}
		}
	}
}

// chiSquare returns by how many standard deviations the counts are less even than counts of a uniform distribution.
// For n cells, chi-square has mean n-1 and variance 2(n-1).
func chiSquare(counts []int) float64 {
	total := 0
	for _, c := range counts {
		total += c
	}
	want := float64(total) / float64(len(counts))
	sum := 0.0
	for _, c := range counts {
		sum += (float64(c) - want) * (float64(c) - want) / want
	}
	free := float64(len(counts) - 1)
	return (sum - free) / math.Sqrt(2*free)
}

// With a fixed seed a bound of 5 standard deviations is safe from chance; probes that share 9 bits with another
// choice are hundreds off.
const chiSquareBound = 5

func TestLayout_Block_uniform(t *testing.T) {
	for _, blocks := range []uint64{2, 3, 64, 1000, 4097} {
		l := mustLayout(t, blocks, 128, 6, 1)
		counts := make([]int, blocks)
		hashes := splitmix(blocks)
		for range 200 * blocks {
			b, _ := l.Block(hashes.next())
			counts[b]++
		}
		if x := chiSquare(counts); math.Abs(x) > chiSquareBound {
			t.Errorf("%d blocks: chi-square is off by %.1f", blocks, x)
		}
	}
}

// All ways to choose an item's lines in order are equally likely, whatever the block.
func TestLayout_lines_uniform(t *testing.T) {
	for _, c := range []struct{ blocks, lines, linesPerItem uint64 }{
		{1, 2, 1}, {1, 2, 2}, {1, 3, 3}, {1, 7, 3}, {5, 12, 3}, {1, 97, 1}, {3, 128, 1}, {1000, 65, 2}, {1 << 24, 128, 2},
	} {
		l := mustLayout(t, c.blocks, c.lines, 3, c.linesPerItem)
		counts := map[[3]uint16]int{}
		ways := 1
		for j := range c.linesPerItem {
			ways *= int(c.lines - j)
		}
		hashes := splitmix(c.lines)
		var draws []uint16
		for range 100 * ways {
			draws = probe.AppendDraws(draws[:0], &l, hashes.next())
			way := [3]uint16{draws[0] / 512, draws[1] / 512, draws[2] / 512}
			counts[way]++
		}
		flat := make([]int, ways)
		i := 0
		for _, n := range counts {
			flat[i] = n
			i++
		}
		if x := chiSquare(flat); math.Abs(x) > chiSquareBound {
			t.Errorf("%+v: chi-square is off by %.1f", c, x)
		}
	}
}

// Any two probes of an item, also of different words and lines, are independent and uniform among the 512x512 pairs
// of bits. This holds in a small layer, and among the items of one line of a huge layer, whose hashes differ in the
// lowest 30 bits.
func TestLayout_probes_independent(t *testing.T) {
	for _, c := range []struct {
		name                 string
		blocks               uint64
		lines                uint64
		hashes, linesPerItem uint64
		mask                 uint64 // of the hash bits that differ
	}{
		{"one word", 1, 1, 9, 1, math.MaxUint64},
		{"three words", 1, 1, 15, 1, math.MaxUint64},
		{"two lines", 1, 128, 10, 2, math.MaxUint64},
		{"three lines", 3, 97, 13, 3, math.MaxUint64},
		{"one line of 1 TiB", 1 << 27, 128, 9, 1, 1<<30 - 1},
		{"two lines of 1 TiB", 1 << 27, 128, 10, 2, 1<<30 - 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const items = 1 << 17
			l := mustLayout(t, c.blocks, c.lines, c.hashes, c.linesPerItem)
			var draws []uint16
			hashes := splitmix(7)
			for range items {
				draws = probe.AppendDraws(draws, &l, hashes.next()&c.mask|0xA5C31F0912345678&^c.mask)
			}
			pairs := make([]int, 512*512)
			for a := range int(c.hashes) {
				for b := range a {
					clear(pairs)
					for d := range slices.Chunk(draws, int(c.hashes)) {
						pairs[int(d[a]%512)*512+int(d[b]%512)]++
					}
					if x := chiSquare(pairs); math.Abs(x) > chiSquareBound {
						t.Errorf("probes %d and %d: chi-square is off by %.1f", a, b, x)
					}
				}
			}
		})
	}
}

// The place of a probe in its line does not depend on how that line was chosen: the first line by its number, the
// others by their distance from the first.
func TestLayout_probes_independentOfLine(t *testing.T) {
	for _, c := range []struct{ blocks, lines, hashes, linesPerItem uint64 }{
		{1, 128, 9, 1}, {1000, 97, 7, 1}, {1, 128, 10, 2}, {7, 65, 18, 2}, {3, 97, 19, 3},
	} {
		const items = 1 << 18
		l := mustLayout(t, c.blocks, c.lines, c.hashes, c.linesPerItem)
		counts := make([][]int, c.hashes) // by probe, then by choice of line and bit in it
		for i := range counts {
			counts[i] = make([]int, c.lines*512)
		}
		hashes := splitmix(c.hashes)
		var draws []uint16
		for range items {
			draws = probe.AppendDraws(draws[:0], &l, hashes.next())
			first := uint64(draws[0] / 512)
			for i, p := range draws {
				choice := uint64(p / 512)
				if choice != first {
					choice = (choice + c.lines - first) % c.lines
				}
				counts[i][choice*512+uint64(p%512)]++
			}
		}
		for i, n := range counts {
			if uint64(draws[i]/512) != uint64(draws[0]/512) {
				n = n[512:] // no distance is 0
			}
			if x := chiSquare(n); math.Abs(x) > chiSquareBound {
				t.Errorf("%+v: probe %d: chi-square is off by %.1f", c, i, x)
			}
		}
	}
}

func TestLayout_Test_concurrent(t *testing.T) {
	l := mustLayout(t, 1, 128, 13, 2)
	words := make([]uint64, l.BlockWords())
	first := probe.FirstLine(words)
	var added atomic.Int64
	var wg sync.WaitGroup
	const items = 3000
	wg.Go(func() {
		hashes := splitmix(3)
		var buf []uint16
		for range items {
			buf = l.AppendPositions(buf[:0], hashes.next())
			for _, p := range buf {
				atomic.OrUint64(&words[p/64], 1<<(p%64))
			}
			added.Add(1)
		}
	})
	for range 2 {
		wg.Go(func() {
			for done := int64(0); done < items; {
				done = added.Load()
				hashes := splitmix(3)
				for i := range done {
					h := hashes.next()
					_, rest := l.Block(h)
					l.Touch(first, rest)
					if !l.Test(first, rest, h) {
						t.Errorf("item %d of %d is not found", i, done)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

// Touch must load from the very line that Test looks at first.
func TestLayout_Touch(t *testing.T) {
	hashes := splitmix(4)
	for _, lines := range []uint64{1, 3, 128} {
		l := mustLayout(t, 9, lines, 6, 1)
		words := make([]uint64, l.BlockWords())
		for i := range words {
			words[i] = uint64(i / 8)
		}
		for range 1000 {
			h := hashes.next()
			_, rest := l.Block(h)
			if got, want := l.Touch(probe.FirstLine(words), rest), uint64(l.AppendPositions(nil, h)[0]/512); got != want {
				t.Fatalf("%d lines: Touch(%#x) loads from line %d, want %d", lines, h, got, want)
			}
		}
	}
}

func TestFirstLine_short(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic for 7 words")
		}
	}()
	probe.FirstLine(make([]uint64, 7))
}

func TestAllocations(t *testing.T) {
	f := newFilter(mustSize(t, 1000, 1e-3))
	f.add(1) // grows the buffer
	key := []byte("a key of more than thirty-two bytes")
	for name, call := range map[string]func(){
		"Test":            func() { f.mayContain(2) },
		"AppendPositions": func() { f.add(2) },
		"Size":            func() { mustSize(t, 1000, 1e-3) },
		"Sum64Seed":       func() { probe.Sum64Seed(key, 1) },
		"Sum64SeedString": func() { probe.Sum64SeedString("a key", 1) },
	} {
		if n := testing.AllocsPerRun(100, call); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func ExampleLayout_Test() {
	layout, err := probe.Size(1000, 0.01)
	if err != nil {
		fmt.Println(err)
		return
	}
	blocks := make([][]uint64, layout.Blocks)
	for i := range blocks {
		blocks[i] = make([]uint64, layout.BlockWords())
	}
	const seed = 42

	h := probe.Sum64SeedString("apple", seed)
	b, _ := layout.Block(h)
	for _, p := range layout.AppendPositions(nil, h) {
		atomic.OrUint64(&blocks[b][p/64], 1<<(p%64))
	}

	for _, s := range []string{"apple", "pear"} {
		h := probe.Sum64SeedString(s, seed)
		b, rest := layout.Block(h)
		fmt.Println(s, layout.Test(probe.FirstLine(blocks[b]), rest, h))
	}
	// Output:
	// apple true
	// pear false
}

// TestAll answers as Test does, for few items and for many. SameBlock finds where the items of a block end.
func TestLayout_testAll(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 14))
	for _, c := range []struct{ blocks, lines, hashes, linesPerItem uint64 }{
		{1, 1, 1, 1}, {7, 128, 7, 1}, {7, 128, 19, 3}, {7, 5, 13, 2},
	} {
		l := mustLayout(t, c.blocks, c.lines, c.hashes, c.linesPerItem)
		for _, items := range []int{1, 10, 100, 1000} {
			hashes := make([]uint64, items)
			for i := range hashes {
				hashes[i] = random.Uint64()
			}
			slices.Sort(hashes)
			blocks := uint64(0)
			for len(hashes) > 0 {
				blk, n := l.SameBlock(hashes)
				for i, h := range hashes {
					if of, _ := l.Block(h); (of == blk) != (i < n) {
						t.Fatalf("%+v: SameBlock found %d items, item %d is in block %d", c, n, i, of)
					}
				}
				words := make([]uint64, l.BlockWords())
				for i := 0; i < n; i += 2 {
					l.Set(words, hashes[i])
				}
				found := make([]bool, n)
				l.TestAll(probe.FirstLine(words), hashes[:n], found)
				for i, h := range hashes[:n] {
					_, rest := l.Block(h)
					if want := l.Test(probe.FirstLine(words), rest, h); found[i] != want || i%2 == 0 && !want {
						t.Fatalf("%+v: item %d of %d: %v, want %v", c, i, n, found[i], want)
					}
				}
				hashes, blocks = hashes[n:], blocks+1
			}
			if blocks > c.blocks {
				t.Errorf("%+v: %d blocks", c, blocks)
			}
		}
	}
}
