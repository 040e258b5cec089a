package cuckooext

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/probe"
	"github.com/sievekv/sievekv/scalableext"
)

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

// The load is where the mean of a block is as many standard deviations below that of a
// full one as it is for one block in a hundred layers.
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
				atMost := load == highestLoad || family == block.FamilySlots32 && load == highestLoad32
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

func TestNextBlocks(t *testing.T) {
	for _, tt := range []struct {
		blocks    uint64
		expansion uint32
		want      uint64 // 0: refused
	}{
		{1, 1, 1}, {1, 2, 2}, {5, 3, 15}, {maxBlocks, 1, maxBlocks}, {maxBlocks / 2, 2, maxBlocks},
		{1, 0, 0}, {maxBlocks, 2, 0}, {maxBlocks/2 + 1, 2, 0}, {maxBlocks, math.MaxUint32, 0},
	} {
		got, err := nextBlocks(tt.blocks, tt.expansion)
		if got != tt.want || (err != nil) != (tt.want == 0) || err != nil && !errors.Is(err, scalableext.ErrCannotGrow) {
			t.Errorf("%d blocks, expansion %d: %d, %v, want %d", tt.blocks, tt.expansion, got, err, tt.want)
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

// What a filter has that was made without an error rate.
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
		{0.10, 4, true, block.FamilySlots12, 59},
		{0.10, 4, false, block.FamilySlots8, 3},
		{0.028, 4, false, block.FamilySlots8, 1},
		{0.01, 4, true, block.FamilySlots12, 5},
		{0.01, 2, true, block.FamilySlots12, 11},
		{0.001, 4, true, block.FamilySlots16, 9},
		{0.0001, 4, false, block.FamilySlots32, 64},
		{1e-8, 4, true, block.FamilySlots32, 6},
		{1e-8, 255, true, 0, 0},
		{1e-9, 4, true, 0, 0},
		{1e-9, 1, false, block.FamilySlots32, 8},
	} {
		g, err := ratedGeometry(tt.rate, tt.bucketSize, tt.grows)
		if tt.want == 0 {
			if !errors.Is(err, probe.ErrParams) {
				t.Errorf("%+v: error is %v, want %v", tt, err, probe.ErrParams)
			}
			continue
		}
		if err != nil || g.family != tt.want || g.maxLayers(tt.rate) != tt.layers {
			t.Errorf("%+v: %v, %d layers, %v", tt, g.family, g.maxLayers(tt.rate), err)
		}
	}
	for _, rate := range []float64{0, 1, -0.1, 2, math.NaN(), math.Inf(1)} {
		if _, err := ratedGeometry(rate, 4, true); !errors.Is(err, probe.ErrParams) {
			t.Errorf("rate %v: error is %v, want %v", rate, err, probe.ErrParams)
		}
	}
	if _, err := ratedGeometry(0.01, 0, true); !errors.Is(err, probe.ErrParams) {
		t.Errorf("bucket size 0: error is %v, want %v", err, probe.ErrParams)
	}
}

// The lowest rate, which the error of a lower one names, can be asked for.
func TestRatedGeometry_lowest(t *testing.T) {
	for _, bucketSize := range []int{1, 2, 4, 7, 100, 255} {
		for _, grows := range []bool{false, true} {
			_, err := ratedGeometry(1e-12, bucketSize, grows)
			if err == nil {
				t.Fatalf("bucket size %d: a rate of 1e-12 is not refused", bucketSize)
			}
			var lowest float64
			_, text, _ := strings.Cut(err.Error(), "want at least ")
			if _, err := fmt.Sscan(text, &lowest); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			if _, err := ratedGeometry(lowest, bucketSize, grows); err != nil {
				t.Error(err)
			}
			if _, err := ratedGeometry(0.98*lowest, bucketSize, grows); err == nil {
				t.Errorf("bucket size %d: a rate of %v is not refused, though the lowest is %v", bucketSize, 0.98*lowest, lowest)
			}
		}
	}
}
