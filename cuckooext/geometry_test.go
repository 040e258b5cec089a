package cuckooext

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/scalableext"
)

func mustGeometry(t testing.TB, family block.Family, bucketSize int) geometry {
	t.Helper()
	g, err := newGeometry(family, bucketSize)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// eachGeometry runs a test for every width, with bucket sizes of every shape: a part of a word, a word, several
// words, and sizes with which a bucket or a group lies in two words.
func eachGeometry(t *testing.T, test func(t *testing.T, g geometry)) {
	bucketSizes := []int{1, 2, 3, 4, 5, 6, 8, 16, 21, 64, 255}
	if raceEnabled {
		bucketSizes = []int{2, 4, 21}
	}
	for _, family := range families {
		for _, b := range bucketSizes {
			t.Run(fmt.Sprintf("%d bits, bucket size %d", family.Width(), b), func(t *testing.T) {
				test(t, mustGeometry(t, family, b))
			})
		}
	}
}

// eachBlock is eachGeometry, and runs the test for short blocks, too.
func eachBlock(t *testing.T, test func(t *testing.T, g geometry)) {
	eachGeometry(t, func(t *testing.T, g geometry) {
		test(t, g)
		if short := shortGeometries(t, g.family, int(g.bucketSize)); len(short) > 0 {
			t.Run("short", func(t *testing.T) { test(t, short[0]) })
		}
	})
}

// keys are the hashes of different keys.
type keys struct{ n, seed uint64 }

func (k *keys) next() uint64 {
	k.n++
	return probe.Sum64SeedUint64(k.n, k.seed)
}

func TestNewGeometry(t *testing.T) {
	for _, tt := range []struct {
		family     block.Family
		bucketSize int
		buckets    uint32
		xor        bool
	}{
		{block.FamilySlots8, 4, 2048, true},
		{block.FamilySlots8, 1, 8192, true},
		{block.FamilySlots10, 3, 2184, false},
		{block.FamilySlots12, 4, 1365, false},
		{block.FamilySlots12, 2, 2730, false},
		{block.FamilySlots16, 4, 1024, true},
		{block.FamilySlots16, 3, 1365, false},
		{block.FamilySlots14, 3, 1560, false},
		{block.FamilySlots18, 3, 1213, false},
		{block.FamilySlots20, 3, 1092, false},
		{block.FamilySlots24, 3, 910, false},
		{block.FamilySlots32, 4, 512, true},
		{block.FamilySlots32, 255, 8, true},
	} {
		g := mustGeometry(t, tt.family, tt.bucketSize)
		if g.buckets != tt.buckets || g.xor != tt.xor {
			t.Errorf("%v, bucket size %d: %d buckets, xor %v, want %d, %v",
				tt.family, tt.bucketSize, g.buckets, g.xor, tt.buckets, tt.xor)
		}
	}
	for _, family := range []block.Family{0, block.FamilyBits, block.FamilySlots4, 28} {
		if _, err := newGeometry(family, 4); !errors.Is(err, probe.ErrParams) {
			t.Errorf("%v: error is %v, want %v", family, err, probe.ErrParams)
		}
	}
	for _, bucketSize := range []int{-1, 0, 256} {
		if _, err := newGeometry(block.FamilySlots8, bucketSize); !errors.Is(err, probe.ErrParams) {
			t.Errorf("bucket size %d: error is %v, want %v", bucketSize, err, probe.ErrParams)
		}
	}
}

// For every possible number of buckets of a block, every bucket and many fingerprints.
func TestGeometry_partner(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	fingerprints := 255
	if raceEnabled {
		fingerprints = 20
	}
	for _, family := range families {
		for b := 1; b <= maxBucketSize; b++ {
			g := mustGeometry(t, family, b)
			same := 0
			for range fingerprints {
				fp := uint32(r.Uint64N(g.fingerprints)) + 1
				for i := range g.buckets {
					other := g.partner(i, fp)
					if other >= g.buckets || g.partner(other, fp) != i {
						t.Fatalf("%v, bucket size %d, fingerprint %d: %d buckets, partner of %d is %d, whose is %d",
							family, b, fp, g.buckets, i, other, g.partner(other, fp))
					}
					if other == i {
						same++
					}
				}
			}
			// With xor none. Otherwise i = step-i mod n has one solution, or none or two.
			if limit := 2 * fingerprints; same > limit || g.xor && same > 0 {
				t.Errorf("%v, bucket size %d: %d times the partner is the bucket itself", family, b, same)
			}
		}
	}
}

// chiSquare returns by how many standard deviations the counts differ more from equal ones than chance explains.
func chiSquare(counts []int) float64 {
	total := 0
	for _, n := range counts {
		total += n
	}
	mean, sum := float64(total)/float64(len(counts)), 0.0
	for _, n := range counts {
		sum += (float64(n) - mean) * (float64(n) - mean) / mean
	}
	freedom := float64(len(counts) - 1)
	return (sum - freedom) / math.Sqrt(2*freedom)
}

// Block, first bucket, partner and fingerprint must be independent of each other, in their highest and in their
// lowest bits: all cells of 8x8x8 are equally full. The seeds are fixed; 5 standard deviations occur once in a
// million.
func TestGeometry_place_independent(t *testing.T) {
	const items = 1 << 18
	eighth := func(x, of uint64) uint64 { return x * 8 / of }
	for _, blocks := range []uint64{8, 1000, 1 << 20, 1 << 23} {
		eachGeometry(t, func(t *testing.T, g geometry) {
			if g.buckets%8 != 0 && g.buckets < 100 {
				return // eighths of so few buckets are not equal
			}
			n := uint64(g.buckets)
			var high, low, partner [512]int
			k := keys{seed: blocks}
			for range items {
				p := g.place(k.next(), blocks)
				if p.blk >= blocks || p.i1 >= g.buckets || p.fp == 0 || uint64(p.fp) > g.fingerprints ||
					p.i2 != g.partner(p.i1, p.fp) {
					t.Fatalf("place %+v of %d blocks, %d buckets", p, blocks, g.buckets)
				}
				fp := uint64(p.fp) - 1
				high[eighth(p.blk, blocks)<<6|eighth(uint64(p.i1), n)<<3|eighth(fp, g.fingerprints)]++
				low[p.blk%8<<6|uint64(p.i1)%8<<3|fp%8]++
				partner[eighth(p.blk, blocks)<<6|eighth(uint64(p.i1), n)<<3|eighth(uint64(p.i2), n)]++
			}
			tooMuch := 5.0
			// The eighths of 255 fingerprints or 682 buckets differ by up to 1/31 or
			// 1/85: 0.1 % and less of the square, times the items of a cell.
			slack := 0.0
			if g.width == 8 || g.buckets%8 != 0 {
				slack = math.Sqrt(256) * items / 512 / (31 * 31)
			}
			for name, counts := range map[string][]int{"high bits": high[:], "low bits": low[:]} {
				if d := chiSquare(counts); d > tooMuch+slack {
					t.Errorf("%d blocks, %s: %.1f standard deviations from uniform", blocks, name, d)
				}
			}
			// With few steps or few buckets, some partners are more likely for some buckets.
			if g.width >= 16 && g.buckets >= 512 {
				if d := chiSquare(partner[:]); d > 2*tooMuch+slack {
					t.Errorf("%d blocks, partners: %.1f standard deviations from uniform", blocks, d)
				}
			}
		})
	}
}

// Within one of 2^20 blocks, where all hashes have the same first bits, bucket and fingerprint are still uniform and
// independent.
func TestGeometry_place_withinBlock(t *testing.T) {
	const blocks = 1 << 20
	r := rand.New(rand.NewPCG(2, 2))
	for _, family := range families {
		g := mustGeometry(t, family, 4)
		for _, blk := range []uint64{0, 1, 12345, blocks - 1} {
			var counts [4096]int
			for range 1 << 18 {
				p := g.place(blk<<44|r.Uint64()>>20, blocks)
				if p.blk != blk {
					t.Fatalf("block is %d, want %d", p.blk, blk)
				}
				counts[uint64(p.i1)*64/uint64(g.buckets)<<6|uint64(p.fp-1)*64/(g.fingerprints+1)]++
			}
			// One of the 64 parts has 3 fingerprints or 21 buckets, the others 4 and 22; or 10 buckets, the others 11.
			slack := map[block.Family]float64{block.FamilySlots8: 45, block.FamilySlots12: 5, block.FamilySlots24: 5}[family]
			if d := chiSquare(counts[:]); d > 5+slack {
				t.Errorf("%v, block %d: %.1f standard deviations from uniform", family, blk, d)
			}
		}
	}
}

// At 32 bits no rate can be measured. It depends on this: each bit of a fingerprint is set in half of them, whatever
// each other bit is.
func TestGeometry_place_fingerprintBits(t *testing.T) {
	const items = 1 << 18
	g := mustGeometry(t, block.FamilySlots32, 4)
	k := keys{seed: 3}
	var both [32][32]int
	for range items {
		fp := g.place(k.next(), 1000).fp
		for i := range both {
			for j := range i + 1 {
				both[i][j] += int(fp >> i & (fp >> j) & 1)
			}
		}
	}
	for i := range both {
		for j := range i + 1 {
			chance := 0.25
			if i == j {
				chance = 0.5
			}
			d := (float64(both[i][j]) - chance*items) / math.Sqrt(items*chance*(1-chance))
			if math.Abs(d) > 5 {
				t.Errorf("bits %d and %d: both set %d times of %d, %.1f standard deviations off", i, j, both[i][j], items, d)
			}
		}
	}
}

// The same place in a newer layer implies the same place in an older one: the newer block determines the older one,
// and the rest is the same.
func TestGeometry_place_nested(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	g := mustGeometry(t, block.FamilySlots12, 4)
	for range 200_000 {
		blocks, m := 1+r.Uint64N(1<<r.IntN(31)), 1+r.Uint64N(1<<r.IntN(16))
		h := r.Uint64()
		switch r.IntN(3) {
		case 0: // the last hash of a block and the first of the next
			h = (1+r.Uint64N(blocks))*(math.MaxUint64/blocks) + r.Uint64N(5) - 2
		case 1:
			h = math.MaxUint64 - r.Uint64N(3)
		}
		older, newer := g.place(h, blocks), g.place(h, m*blocks)
		if older.blk != newer.blk/m || older.blk >= blocks {
			t.Fatalf("hash %#x: block %d of %d, %d of %d", h, older.blk, blocks, newer.blk, m*blocks)
		}
		if newer.blk = older.blk; newer != older {
			t.Fatalf("hash %#x: place %+v of %d blocks, %+v of %d", h, older, blocks, newer, m*blocks)
		}
	}
}

func TestGeometry_load(t *testing.T) {
	for _, tt := range []struct {
		family     block.Family
		bucketSize int
		blocks     uint64
		want       float64
	}{
		{block.FamilySlots8, 4, 1, 0.90},
		{block.FamilySlots12, 4, 1000, 0.90},
		{block.FamilySlots16, 4, 1000, 0.90},
		{block.FamilySlots16, 4, 100_000, 0.90},
		{block.FamilySlots16, 4, maxBlocks, 0.88},
		{block.FamilySlots32, 4, 1, 0.88},
		{block.FamilySlots32, 4, 1000, 0.88},
		{block.FamilySlots32, 4, maxBlocks, 0.84},
		{block.FamilySlots12, 1, 1, 0.25},
		{block.FamilySlots12, 1, maxBlocks, 0.25},
		{block.FamilySlots12, 2, 1, 0.88},
		{block.FamilySlots12, 2, 1000, 0.84},
		{block.FamilySlots32, 2, maxBlocks, 0.75},
		{block.FamilySlots16, 3, 1, 0.90},
		{block.FamilySlots16, 8, 1000, 0.90},
		{block.FamilySlots16, 255, maxBlocks, 0.90},
	} {
		g := mustGeometry(t, tt.family, tt.bucketSize)
		if got := g.load(tt.blocks); math.Abs(got-tt.want) > 0.005 {
			t.Errorf("%v, bucket size %d, %d blocks: load is %.4f, want %.2f", tt.family, tt.bucketSize, tt.blocks, got, tt.want)
		}
	}
}

// The mean of a block at the load is as many standard deviations below that of a full one as one block in a hundred
// layers deviates.
func TestGeometry_load_deviations(t *testing.T) {
	for _, family := range families {
		for _, bucketSize := range []int{2, 3, 4, 8} {
			for _, blocks := range []uint64{1, 2, 50, 1e4, 1e6, maxBlocks} {
				g := mustGeometry(t, family, bucketSize)
				load, slots := g.load(blocks), float64(g.slots())
				full := firstFulls[bucketSize]
				items := load * slots * (1 - 1/float64(blocks))
				deviation := math.Sqrt(items + full.spread*full.spread*slots)
				early := float64(blocks) * math.Erfc((full.load-load)*slots/deviation/math.Sqrt2) / 2
				atMost := load == highestLoad || family >= block.FamilySlots24 && load == highestLoadLong
				if early > 1.01*earlyChance || early < 0.99*earlyChance && !atMost {
					t.Errorf("%v, bucket size %d, %d blocks: full early with a chance of %.3g at load %.3f, want %v",
						family, bucketSize, blocks, early, load, earlyChance)
				}
			}
		}
	}
}

func TestGeometry_blocksFor(t *testing.T) {
	eachGeometry(t, func(t *testing.T, g geometry) {
		last := uint64(0)
		for capacity := uint64(1); capacity <= 1<<33; capacity += 1 + capacity/3 {
			blocks, err := g.blocksFor(capacity)
			if err != nil {
				t.Fatal(err)
			}
			if blocks < max(1, last) || g.capacity(blocks) < capacity {
				t.Fatalf("capacity %d: %d blocks, for %d items, after %d", capacity, blocks, g.capacity(blocks), last)
			}
			if blocks > 1 && g.capacity(blocks-1) >= capacity {
				t.Fatalf("capacity %d: %d blocks, though one less is for %d items", capacity, blocks, g.capacity(blocks-1))
			}
			last = blocks
		}
	})
}

func TestGeometry_blocksFor_refused(t *testing.T) {
	g := mustGeometry(t, block.FamilySlots32, 1)
	for _, capacity := range []uint64{0, probe.MaxCapacity, probe.MaxCapacity + 1, math.MaxUint64} {
		blocks, err := g.blocksFor(capacity)
		if !errors.Is(err, probe.ErrParams) || !strings.Contains(err.Error(), fmt.Sprint(capacity)) {
			t.Errorf("capacity %d: %d blocks, %v, want %v", capacity, blocks, err, probe.ErrParams)
		}
	}
	if blocks, err := g.blocksFor(g.capacity(maxBlocks)); err != nil || blocks != maxBlocks {
		t.Errorf("capacity %d: %d blocks, %v, want %d", g.capacity(maxBlocks), blocks, err, uint64(maxBlocks))
	}
	g = mustGeometry(t, block.FamilySlots8, 4)
	if _, err := g.blocksFor(probe.MaxCapacity); err != nil {
		t.Error(err)
	}
}

// shortGeometries returns a geometry of every length of short blocks.
func shortGeometries(t testing.TB, family block.Family, bucketSize int) (list []geometry) {
	whole := mustGeometry(t, family, bucketSize)
	for lines := range block.MaxLines {
		if g, ok := whole.short(lines); ok {
			list = append(list, g)
		}
	}
	return list
}

// Lengths differ in lines, so that the stored number of lines tells the length.
func TestGeometry_short(t *testing.T) {
	for _, tt := range []struct {
		family         block.Family
		bucketSize     int
		lines, buckets []int
	}{
		{block.FamilySlots32, 4, []int{2, 4, 8, 16, 32, 64}, []int{8, 16, 32, 64, 128, 256}},
		{block.FamilySlots12, 4, []int{2, 4, 7, 9, 10, 19, 26, 43}, []int{21, 39, 65, 91, 105, 195, 273, 455}},
		{block.FamilySlots18, 3, nil, nil}, // 1213 is a prime
		{block.FamilySlots8, 255, []int{32, 64}, []int{8, 16}},
		{block.FamilySlots32, 255, nil, nil},
	} {
		var lines, buckets []int
		for _, g := range shortGeometries(t, tt.family, tt.bucketSize) {
			lines, buckets = append(lines, g.lines()), append(buckets, int(g.buckets))
		}
		if !slices.Equal(lines, tt.lines) || !slices.Equal(buckets, tt.buckets) {
			t.Errorf("%v, bucket size %d: %v lines with %v buckets, want %v with %v", tt.family, tt.bucketSize, lines, buckets, tt.lines, tt.buckets)
		}
	}
	pinned := uint64(0) // what stored lines stand for, of all
	for _, family := range families {
		for b := 1; b <= maxBucketSize; b++ {
			for _, g := range shortGeometries(t, family, b) {
				pinned = pinned*31 + uint64(g.lines())<<16 + uint64(g.buckets)
				if g.buckets < leastBuckets || g.whole%g.buckets != 0 || uint32(g.lines()*block.LineBits) < g.buckets*g.bucketBits {
					t.Errorf("%v, bucket size %d: %d of %d buckets in %d lines", family, b, g.buckets, g.whole, g.lines())
				}
			}
		}
	}
	if pinned != 0x43fe478fe8c15b31 {
		t.Errorf("short blocks are others than ever: %#x", pinned)
	}
}

// The place of an item in a short block follows from each of the two that it may have in a whole one.
func TestGeometry_shortPlace(t *testing.T) {
	k := keys{seed: 5}
	for _, family := range families {
		for _, b := range []int{1, 2, 3, 4, 6} {
			whole := mustGeometry(t, family, b)
			for _, g := range shortGeometries(t, family, b) {
				for range 100 {
					h := k.next()
					of, in := whole.place(h, 1000), g.place(h, 1)
					if want := (place{0, of.i1 % g.buckets, of.i2 % g.buckets, of.fp}); in != want {
						t.Fatalf("%v, bucket size %d, %d buckets of %d: place is %+v, want %+v", family, b, g.buckets, g.whole, in, want)
					}
					if back := g.partner(in.i2, in.fp); back != in.i1 {
						t.Fatalf("%v, bucket size %d, %d buckets of %d: partner of %d is %d, want %d", family, b, g.buckets, g.whole, in.i2, back, in.i1)
					}
				}
			}
		}
	}
}

// Of short blocks, at most one in a hundred is full before its capacity. The seed is fixed.
func TestGeometry_shortLoad(t *testing.T) {
	var list []extent
	for _, family := range families {
		for _, b := range []int{2, 3, 4, 6, 8} {
			for _, g := range shortGeometries(t, family, b) {
				if g.lines() <= block.MaxLines/4 { // longer ones are like those
					list = append(list, extent{g, 1})
				}
			}
		}
	}
	testEarly(t, list, 50)
}

// Of layers whose blocks are cut, at most one in a hundred is full before its capacity, however many blocks it has. The seed is
// fixed.
func TestGeometry_cutLoad(t *testing.T) {
	var list []extent
	for i, family := range families {
		for j, b := range []int{2, 3, 4, 8} {
			whole := mustGeometry(t, family, b)
			g, ok := whole.cut([]int{leastCut, 20, 90, 40, mostCut}[(i+j)%5]) // shorter ones than are made take less time
			if !ok {
				t.Fatalf("%v, bucket size %d: no blocks are cut", family, b)
			}
			list = append(list, extent{g, []uint64{1, 2, 3, 5, 8, 13}[(2*i+j)%6]})
		}
	}
	testEarly(t, list, 12)
}

// testEarly makes each of the layers a number of times, and fails if more than one in a hundred are full early.
func testEarly(t *testing.T, list []extent, times int) {
	t.Helper()
	if raceEnabled {
		times = max(1, times/10)
	}
	layers, early, k := 0, 0, keys{seed: 1}
	for i := range list {
		for range times {
			layers++
			l := newTable(&list[i].geometry, list[i].blocks)
			for range list[i].room() {
				if _, err := l.insert(k.next()); err != nil {
					early++
					break
				}
			}
		}
	}
	if early*100 > layers+300 { // of few layers, three more
		t.Errorf("%d of %d layers were full early, want one in a hundred", early, layers)
	}
	t.Logf("%d of %d", early, layers)
}

// The lines of blocks that are cut are stored, and tell their buckets.
func TestGeometry_cut(t *testing.T) {
	for _, tt := range []struct {
		family                     block.Family
		bucketSize, lines, buckets int // 0: refused
	}{
		{block.FamilySlots12, 4, 87, 928}, {block.FamilySlots12, 2, 92, 1962}, {block.FamilySlots32, 4, 64, 256},
		{block.FamilySlots18, 3, 67, 635}, {block.FamilySlots8, 255, 127, 31}, {block.FamilySlots12, 4, 1, 10},
		{block.FamilySlots32, 255, 127, 0}, {block.FamilySlots12, 8, 1, 0}, {block.FamilySlots12, 4, 0, 0},
		{block.FamilySlots12, 4, 128, 0}, {block.FamilySlots12, 4, 255, 0},
	} {
		whole := mustGeometry(t, tt.family, tt.bucketSize)
		g, ok := whole.cut(tt.lines)
		if ok != (tt.buckets > 0) || int(g.buckets) != tt.buckets || ok && (g.lines() != tt.lines || g.form() != cutBlocks || g.whole != g.buckets) {
			t.Errorf("%v, bucket size %d, %d lines: %d buckets, want %d", tt.family, tt.bucketSize, tt.lines, g.buckets, tt.buckets)
		}
	}
	pinned := uint64(0) // what stored lines stand for, of all
	for _, family := range families {
		for b := 1; b <= maxBucketSize; b++ {
			whole := mustGeometry(t, family, b)
			for lines := range block.MaxLines {
				if g, ok := whole.cut(lines); ok {
					pinned = pinned*31 + uint64(lines)<<16 + uint64(g.buckets)
					if g.buckets < leastBuckets || uint32(lines*block.LineBits) < g.buckets*g.bucketBits || uint32(lines*block.LineBits) >= (g.buckets+1)*g.bucketBits {
						t.Errorf("%v, bucket size %d: %d buckets in %d lines", family, b, g.buckets, lines)
					}
				}
			}
		}
	}
	if pinned != 0xfc6643920dc530eb {
		t.Errorf("blocks that are cut are others than ever: %#x", pinned)
	}
}

// Items that have the same place in a layer whose blocks are cut have the same one in every older layer, and two buckets are
// each other's partners.
func TestGeometry_cutPlace(t *testing.T) {
	k := keys{seed: 6}
	for _, family := range families {
		for _, b := range []int{1, 2, 3, 4, 6} {
			whole := mustGeometry(t, family, b)
			for _, lines := range []int{10, 64, 77, 96, 124} {
				g, ok := whole.cut(lines)
				if !ok {
					continue
				}
				for range 200 {
					h := k.next()
					older, newer := g.place(h, 3), g.place(h, 12)
					if older.blk != newer.blk/4 || older.i1 != newer.i1 || older.i2 != newer.i2 || older.fp != newer.fp {
						t.Fatalf("%v, bucket size %d, %d lines: place %+v of 12 blocks, %+v of 3", family, b, lines, newer, older)
					}
					if older.i1 >= g.buckets || g.partner(older.i1, older.fp) != older.i2 || g.partner(older.i2, older.fp) != older.i1 {
						t.Fatalf("%v, bucket size %d, %d buckets: place %+v, partners %d and %d", family, b, g.buckets, older,
							g.partner(older.i1, older.fp), g.partner(older.i2, older.fp))
					}
				}
			}
		}
	}
}

// The first layer has the fewest blocks, of the fewest lines, or the shortest block, that takes its capacity.
func TestGeometry_first(t *testing.T) {
	whole := mustGeometry(t, block.FamilySlots12, 4)
	for _, tt := range []struct {
		capacity, blocks uint64
		lines            int
		form             blockForm
	}{
		{1, 1, 2, shortBlock}, {10, 1, 2, shortBlock}, {74, 1, 2, shortBlock}, {75, 1, 4, shortBlock}, {982, 1, 26, shortBlock},
		{983, 1, 43, shortBlock}, {1638, 1, 43, shortBlock}, {1639, 1, 64, cutBlocks}, {2455, 1, 64, cutBlocks}, {2456, 1, 65, cutBlocks},
		{4700, 1, 123, cutBlocks}, {4800, 1, block.MaxLines, wholeBlocks}, {4914, 1, block.MaxLines, wholeBlocks}, {4915, 2, 65, cutBlocks},
		{10_000, 3, 87, cutBlocks}, {100_000, 21, block.MaxLines, wholeBlocks}, {1e6, 204, block.MaxLines, wholeBlocks},
	} {
		e, err := whole.first(tt.capacity)
		if err != nil || e.blocks != tt.blocks || e.lines() != tt.lines || e.form() != tt.form || e.room() < tt.capacity {
			t.Errorf("for %d items: %d blocks of %d lines, form %d, with room for %d, %v, want %d of %d, form %d", tt.capacity, e.blocks, e.lines(), e.form(), e.room(), err,
				tt.blocks, tt.lines, tt.form)
		}
	}
	if _, err := whole.first(0); !errors.Is(err, probe.ErrParams) {
		t.Errorf("for no items: %v, want %v", err, probe.ErrParams)
	}
}

// A layer has expansion times the blocks of the one before it, and the same blocks, unless that is a short block.
func TestExtent_next(t *testing.T) {
	g := mustGeometry(t, block.FamilySlots12, 4)
	cut, _ := g.cut(87)
	short, _ := g.short(43) // a third of a block
	for _, tt := range []struct {
		of        geometry
		blocks    uint64
		expansion uint32
		want      uint64 // 0: refused
		lines     int
	}{
		{g, 1, 1, 1, 128}, {g, 1, 2, 2, 128}, {g, 5, 3, 15, 128}, {g, maxBlocks, 1, maxBlocks, 128}, {g, maxBlocks / 2, 2, maxBlocks, 128},
		{g, 1, 0, 0, 0}, {g, maxBlocks, 2, 0, 0}, {g, maxBlocks/2 + 1, 2, 0, 0}, {g, maxBlocks, math.MaxUint32, 0, 0},
		{cut, 1, 1, 1, 87}, {cut, 3, 2, 6, 87}, {cut, 3, 32768, 98304, 87}, {cut, maxBlocks, 2, 0, 0}, {cut, 3, 0, 0, 0},
		{short, 1, 1, 1, 128}, {short, 1, 2, 1, 128}, {short, 1, 3, 1, 128}, {short, 1, 4, 2, 128}, {short, 1, 8, 3, 128},
		{short, 1, 32768, 10923, 128}, {short, 1, 0, 0, 0},
	} {
		got, err := extent{tt.of, tt.blocks}.next(tt.expansion)
		if got.blocks != tt.want || (err != nil) != (tt.want == 0) || err != nil && !errors.Is(err, scalableext.ErrCannotGrow) ||
			err == nil && got.lines() != tt.lines {
			t.Errorf("%d blocks of %d lines, expansion %d: %d, %v, want %d of %d lines", tt.blocks, tt.of.lines(), tt.expansion, got.blocks, err, tt.want, tt.lines)
		}
	}
}

// A first layer takes few bits an item, also one of few blocks: at most a twentieth more than a large one. No filter has more
// blocks than it would have of whole ones.
func TestPlanned_bitsPerItem(t *testing.T) {
	for _, rate := range []float64{0, 0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7} {
		for _, fixed := range []bool{false, true} {
			bits := func(capacity uint64) float64 {
				i, err := Config{Capacity: capacity, ErrorRate: rate, NonScaling: fixed}.Planned(capacity)
				if err != nil {
					t.Fatal(err)
				}
				return 8 * float64(i.Bytes) / float64(capacity)
			}
			large := bits(1e6)
			for capacity := uint64(4000); capacity < 2e5; capacity += capacity / 50 {
				if got := bits(capacity); got > 1.05*large {
					t.Errorf("rate %v, fixed %t: %d items take %.2f bits each, a million %.2f", rate, fixed, capacity, got, large)
				}
				p, err := Config{Capacity: capacity, ErrorRate: rate, NonScaling: fixed}.plan(hash.Function{})
				if err != nil {
					t.Fatal(err)
				}
				if blocks, err := p.g.blocksFor(capacity); err != nil || p.first.Blocks > blocks {
					t.Errorf("rate %v, fixed %t: %d items take %d blocks, %d whole ones are enough, %v", rate, fixed, capacity, p.first.Blocks, blocks, err)
				}
			}
			t.Logf("rate %v, fixed %t: %.2f bits for each of 10,000 items, %.2f of a million", rate, fixed, bits(10_000), large)
		}
	}
	if i, err := (Config{Capacity: 10_000, ErrorRate: 1e-3, NonScaling: true}).Planned(10_000); err != nil || i.Bytes*8 > 15*10_000 {
		t.Errorf("10,000 items at 0.1 %% take %d bytes, %v, want 15 bits an item at most", i.Bytes, err)
	}
}

// A filter takes as many times its capacity as the layers that fit into its error rate promise, also one that begins with a
// short block or with blocks that are cut. More blocks have a lower load, by up to a ninth.
func TestPlanned_growth(t *testing.T) {
	for _, rate := range []float64{0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7} {
		for _, capacity := range []uint64{1, 10, 100, 500, 1000, 1500, 3000} {
			for _, e := range []uint64{1, 2, 4, 8, 32} {
				items := capacity * (1 + e + e*e + e*e*e) * 8 / 9
				c := Config{Capacity: capacity, ErrorRate: rate, Expansion: uint32(e)}
				if i, err := c.Planned(items); err != nil || i.ExpectedRate > rate {
					t.Errorf("%+v with %d items: %d layers with a rate of %v, %v", c, items, len(i.Layers), i.ExpectedRate, err)
				}
			}
		}
	}
}

func TestGeometry_rate(t *testing.T) {
	for _, tt := range []struct {
		family block.Family
		load   float64
		want   float64
	}{
		{block.FamilySlots8, 0.90, 2.79e-2},
		{block.FamilySlots12, 0.90, 1.757e-3},
		{block.FamilySlots16, 0.90, 1.0986e-4},
		{block.FamilySlots16, 0.88, 1.0742e-4},
		{block.FamilySlots32, 0.88, 1.639e-9},
		{block.FamilySlots32, 0, 0},
	} {
		g := mustGeometry(t, tt.family, 4)
		if got := g.rate(tt.load); math.Abs(got-tt.want) > 0.001*tt.want {
			t.Errorf("%v at load %v: rate is %.5g, want %.5g", tt.family, tt.load, got, tt.want)
		}
	}
	if got := chainRate(0.1, 3); math.Abs(got-0.271) > 1e-12 {
		t.Errorf("rate of 3 layers of 0.1 is %v, want 0.271", got)
	}
}

// The parameters of a filter without an error rate.
func TestDefaultGeometry(t *testing.T) {
	g := mustGeometry(t, defaultFamily, defaultBucketSize)
	if rate := g.rate(g.load(1)); g.width != 12 || g.bucketSize != 4 || rate > 1.8e-3 {
		t.Errorf("%d bits, bucket size %d, rate %.3g, want 12, 4, 1.8e-3 at most", g.width, g.bucketSize, rate)
	}
}

func TestRatedGeometry(t *testing.T) {
	for _, tt := range []struct {
		rate       float64
		bucketSize int
		grows      bool
		want       block.Family // 0: refused
		layers     int
	}{
		{0.9, 4, true, block.FamilySlots8, 64},
		{0.12, 4, true, block.FamilySlots8, 4},
		{0.10, 4, true, block.FamilySlots8, 4},
		{0.06, 4, true, block.FamilySlots10, 8},
		{0.10, 4, false, block.FamilySlots8, 3},
		{0.028, 4, false, block.FamilySlots8, 1},
		{0.01, 4, true, block.FamilySlots12, 5},
		{0.01, 2, true, block.FamilySlots12, 11},
		{0.001, 4, true, block.FamilySlots16, 9},
		{0.0001, 4, false, block.FamilySlots16, 1},
		{1e-8, 4, true, block.FamilySlots32, 6},
		{1e-8, 255, true, 0, 0},
		{1e-9, 4, true, 0, 0},
		{1e-9, 1, false, block.FamilySlots32, 8},
	} {
		g, err := ratedGeometry(asked(tt.rate, 1e6, tt.grows), tt.bucketSize)
		if tt.want == 0 {
			if !errors.Is(err, probe.ErrParams) {
				t.Errorf("%+v: error is %v, want %v", tt, err, probe.ErrParams)
			}
			continue
		}
		if err != nil || g.family != tt.want || g.maxLayers(asked(tt.rate, 1e6, true)) != tt.layers {
			t.Errorf("%+v: %v, %d layers, %v", tt, g.family, g.maxLayers(asked(tt.rate, 1e6, true)), err)
		}
	}
	for _, rate := range []float64{0, 1, -0.1, 2, math.NaN(), math.Inf(1)} {
		if _, err := ratedGeometry(asked(rate, 1e6, true), 4); !errors.Is(err, probe.ErrParams) {
			t.Errorf("rate %v: error is %v, want %v", rate, err, probe.ErrParams)
		}
	}
	if _, err := ratedGeometry(asked(0.01, 1e6, true), 256); !errors.Is(err, probe.ErrParams) {
		t.Errorf("bucket size 256: error is %v, want %v", err, probe.ErrParams)
	}
}

// An item takes at most 15 % more bits than (log2(1/rate)+3)/0.9, those of a table with a load of 0.9 and buckets of four
// (Fan et al. 2014, section 5.1), whose rate is that of one of the layers. Enough full layers keep the rate.
func TestRatedGeometry_size(t *testing.T) {
	for _, rate := range []float64{1e-2, 1e-3, 1e-4, 1e-5, 1e-6} {
		for _, grows := range []bool{false, true} {
			g, err := ratedGeometry(asked(rate, 1e6, grows), 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, blocks := range []uint64{1, 100} {
				bits, most := float64(g.width)/g.load(blocks), 1.15*(math.Log2(float64(neededLayers(grows))/rate)+3)/0.9
				if bits > most {
					t.Errorf("rate %v, grows %t, %d blocks: %.2f bits an item, want %.2f at most", rate, grows, blocks, bits, most)
				}
			}
			if got := chainRate(g.rate(g.load(1)), neededLayers(grows)); got > rate || g.maxLayers(asked(rate, 1e6, true)) < neededLayers(grows) {
				t.Errorf("rate %v, grows %t: layers have %v together, and there may be %d", rate, grows, got, g.maxLayers(asked(rate, 1e6, true)))
			}
		}
	}
}

// Of what is filled less for the sake of the rate, neededLayers layers use up the rate, and no more.
func TestGeometry_within(t *testing.T) {
	for _, layers := range []int{1, 4} {
		g := mustGeometry(t, block.FamilySlots16, 4).within(1e-4, layers)
		if got := chainRate(g.rate(g.load(1)), layers); got > 1e-4 || got < 1e-4*(1-2e-6) {
			t.Errorf("%d layers at a load of %v have a rate of %v, want 1e-4", layers, g.load(1), got)
		}
		if g.maxLayers(asked(1e-4, 1e6, true)) != layers {
			t.Errorf("at most %d layers, want %d", g.maxLayers(asked(1e-4, 1e6, true)), layers)
		}
	}
}

// asked is the parameters of a filter with an error rate.
func asked(rate float64, capacity uint64, grows bool) scalableext.Params {
	p := scalableext.Params{Capacity: capacity, ErrorRate: rate}
	if grows {
		p.Expansion = scalableext.DefaultExpansion
	}
	return p
}

// The lowest rate, which the error of a lower one names, is allowed.
func TestRatedGeometry_lowest(t *testing.T) {
	for _, capacity := range []uint64{1, 1e6, 1e9, 1e10, 1e11} {
		for _, bucketSize := range []int{0, 1, 2, 4, 7, 100, 255} {
			for _, grows := range []bool{false, true} {
				_, err := ratedGeometry(asked(1e-12, capacity, grows), bucketSize)
				if err == nil {
					t.Fatalf("bucket size %d: a rate of 1e-12 is not refused", bucketSize)
				}
				var lowest float64
				_, text, _ := strings.Cut(err.Error(), "want at least ")
				if _, err := fmt.Sscan(text, &lowest); err != nil {
					t.Fatalf("%q: %v", text, err)
				}
				if lowest < float64(capacity)/(1<<64) {
					t.Errorf("capacity %d: the lowest rate is %v, below that of equal hashes", capacity, lowest)
				}
				if _, err := ratedGeometry(asked(lowest, capacity, grows), bucketSize); err != nil {
					t.Error(err)
				}
				if _, err := ratedGeometry(asked(0.98*lowest, capacity, grows), bucketSize); err == nil {
					t.Errorf("bucket size %d: a rate of %v is not refused, though the lowest is %v", bucketSize, 0.98*lowest, lowest)
				}
			}
		}
	}
}

// Equal hashes of all items count: a filter at its capacity, and one that has grown as far as it may, keeps the rate with
// them, or it is refused.
func TestPlanned_equalHashes(t *testing.T) {
	for _, rate := range []float64{1e-8, 2e-9, 1.3e-9, 5e-10} {
		for _, capacity := range []uint64{1, 1e6, 1e9, 1e10, 1e11, 1e12} {
			for _, c := range []Config{
				{Capacity: capacity, ErrorRate: rate, NonScaling: true}, {Capacity: capacity, ErrorRate: rate},
				{Capacity: capacity, ErrorRate: rate, Expansion: 1}, {Capacity: capacity, ErrorRate: rate, Expansion: 32},
			} {
				for _, items := range []uint64{capacity, 3 * capacity, 15 * capacity} {
					i, err := c.Planned(items)
					if errors.Is(err, probe.ErrParams) && rate < 5e-9 || rate < float64(capacity)/(1<<64) && errors.Is(err, probe.ErrParams) {
						continue
					}
					if err != nil {
						if items > capacity && (errors.Is(err, scalableext.ErrFull) || errors.Is(err, scalableext.ErrCannotGrow)) {
							continue
						}
						if capacity < 1e11 {
							t.Errorf("%+v with %d items: %v", c, items, err)
						}
						continue
					}
					if least := float64(items) / (1 << 64); i.ExpectedRate > rate || i.ExpectedRate < least {
						t.Errorf("%+v with %d items: expected rate %v, equal hashes alone have %v", c, items, i.ExpectedRate, least)
					}
				}
			}
		}
	}
	// What was promised once, though equal hashes alone have 5.4e-9.
	if i, err := (Config{Capacity: 100e9, ErrorRate: 1.3e-9, NonScaling: true}).Planned(100e9); err == nil {
		t.Errorf("a rate of 1.3e-9 for 1e11 items is promised: %v", i.ExpectedRate)
	}
}
