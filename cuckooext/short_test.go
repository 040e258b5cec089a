package cuckooext_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// A filter of ten items takes at most 256 bytes of memory, at any error rate.
func TestShort_memory(t *testing.T) {
	for _, rate := range []float64{0, 0.1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8} {
		db := open(t, kv.Options{Durability: kv.NoSync, Seed: 1})
		f := cuckooext.New(db, "f")
		must(t, f.Reserve(cuckooext.Config{Capacity: 10, ErrorRate: rate}))
		addAll(t, f, numbered(0, 10))
		info := infoOf(t, f)
		if len(info.Layers) != 1 || info.ResidentBytes < 1 || info.ResidentBytes > 256 || info.Bytes > info.ResidentBytes {
			t.Errorf("rate %v: %d layers, %d bytes, %d resident, want one and at most 256", rate, len(info.Layers), info.Bytes, info.ResidentBytes)
		}
		planned, err := cuckooext.Config{Capacity: 10, ErrorRate: rate}.Planned(10)
		if must(t, err); planned.Bytes != info.Bytes || planned.Buckets != info.Buckets || planned.Capacity != info.Capacity {
			t.Errorf("rate %v: planned are %+v, made %+v", rate, planned, info)
		}
		check(t, db)
	}
}

// A filter with a short block, or with blocks that are cut, behaves like a multiset while it grows, shrinks, is compacted and
// opened again.
func TestShort_multiset(t *testing.T) {
	for _, tt := range []cuckooext.Config{
		{Capacity: 1000, ErrorRate: 1e-6, BucketSize: 2},               // one block that is cut
		{Capacity: 2700, ErrorRate: 1e-5, BucketSize: 3, Expansion: 1}, // two
		{Capacity: 2100, ErrorRate: 1e-7},                              // of 32 bits
		{Capacity: 10, ErrorRate: 1e-7},                                // 32 bits, a power of two of buckets
		{Capacity: 10, ErrorRate: 1e-5, BucketSize: 4},                 // no power of two
		{Capacity: 40, ErrorRate: 1e-5, Expansion: 1, BucketSize: 2},
		{Capacity: 30, ErrorRate: 1e-6, BucketSize: 6},
	} {
		t.Run(fmt.Sprint(tt.Capacity, tt.ErrorRate, tt.BucketSize), func(t *testing.T) {
			o := kv.Options{Durability: kv.NoSync, Seed: 1, FS: vfs.NewMem()}
			db := open(t, o)
			f := cuckooext.New(db, "f")
			must(t, f.Reserve(tt))
			small := infoOf(t, f).Bytes
			if most := max(1024, tt.Capacity*8); small > most {
				t.Fatalf("%d bytes, want %d at most", small, most)
			}
			r := rand.New(rand.NewPCG(tt.Capacity, 1))
			counts := make(map[int]int)
			checkCounts := func() {
				t.Helper()
				for i, want := range counts {
					if n, err := f.Count(numbered(i, 1)[0]); err != nil || n < want {
						t.Fatalf("Count of item %d = %d, %v, want at least %d", i, n, err, want)
					}
				}
			}
			layers, most := 0, 3000+2*int(tt.Capacity)
			for round := range 40 {
				adds := []int{8, 5, 0}[r.IntN(3)] // of ten
				for range []int{20, most}[round/4%2] / (1 + round%2) {
					i := r.IntN(most)
					if r.IntN(10) < adds {
						if _, err := f.Add(numbered(i, 1)[0]); err == nil {
							counts[i]++
						}
					} else if counts[i] > 0 {
						if ok, err := f.Delete(numbered(i, 1)[0]); err != nil || !ok {
							t.Fatalf("Delete of item %d = %t, %v", i, ok, err)
						}
						counts[i]--
					}
				}
				layers = max(layers, len(infoOf(t, f).Layers))
				if round%3 == 0 {
					must(t, f.Compact())
				}
				if round%5 == 0 {
					check(t, db)
					must(t, db.Close())
					db = open(t, o)
					f = cuckooext.New(db, "f")
				}
				checkCounts()
			}
			if layers < 2 {
				t.Errorf("never more than %d layers", layers)
			}
			for i, n := range counts {
				for range n {
					if ok, err := f.Delete(numbered(i, 1)[0]); err != nil || !ok {
						t.Fatalf("Delete of item %d = %t, %v", i, ok, err)
					}
				}
				counts[i] = 0
			}
			must(t, f.Compact())
			if info := infoOf(t, f); info.Items != 0 || len(info.Layers) != 1 || info.Bytes != small {
				t.Errorf("%d items in %d layers of %d bytes are left, want none in the first layer", info.Items, len(info.Layers), info.Bytes)
			}
			check(t, db)
		})
	}
}

// A filter is as planned, when it is made and when it has grown: with a short block, with blocks that are cut and with whole ones.
func TestPlanned_made(t *testing.T) {
	for _, c := range []cuckooext.Config{
		{Capacity: 10}, {Capacity: 100, ErrorRate: 1e-3}, {Capacity: 1700}, {Capacity: 3000, ErrorRate: 1e-3}, {Capacity: 4900},
		{Capacity: 5000, ErrorRate: 0.01, Expansion: 1}, {Capacity: 6000, ErrorRate: 1e-4, Expansion: 4}, {Capacity: 2000, ErrorRate: 2e-9},
	} {
		db := open(t, kv.Options{Durability: kv.NoSync, Seed: 3})
		f := cuckooext.New(db, "f")
		must(t, f.Reserve(c))
		for done := 0; ; {
			planned, err := c.Planned(uint64(max(1, done)))
			must(t, err)
			info := infoOf(t, f)
			if planned.Bytes != info.Bytes || planned.Buckets != info.Buckets || planned.Capacity != info.Capacity || planned.MaxLayers != info.MaxLayers || len(planned.Layers) != len(info.Layers) {
				t.Fatalf("%+v with %d items: planned are %+v, made %+v", c, done, planned, info)
			}
			for i, l := range planned.Layers {
				if made := info.Layers[i]; done > 0 && l != made || l.Blocks != made.Blocks || l.BlockBytes != made.BlockBytes || l.Capacity != made.Capacity {
					t.Fatalf("%+v with %d items: planned is a layer %+v, made %+v", c, done, l, made)
				}
			}
			if len(info.Layers) == 3 {
				break
			}
			addAll(t, f, numbered(done, int(info.Capacity)-done)) // until it is full, and one more
			addAll(t, f, numbered(int(info.Capacity), 1))
			done = int(info.Capacity) + 1
		}
		check(t, db)
	}
}

// The rate asked for is kept by a filter whose only block is short, at its capacity, and by one whose blocks are cut.
func TestShort_rate(t *testing.T) {
	for _, rate := range []float64{0.1, 0.01, 0.001} {
		testFixedRate(t, 10, rate, 50)
		testFixedRate(t, 5000, rate, 3)
	}
}

// testFixedRate fails if full filters of a capacity have more than the rate asked for.
func testFixedRate(t *testing.T, capacity uint64, rate float64, filters int) {
	t.Helper()
	hits, expected, probes := 0, 0.0, 1_000_000/filters
	for seed := range filters {
		db := open(t, kv.Options{Durability: kv.NoSync, Seed: uint64(seed + 1)})
		f := cuckooext.New(db, "f")
		must(t, f.Reserve(cuckooext.Config{Capacity: capacity, ErrorRate: rate, NonScaling: true}))
		if _, err := addMany(f, numbered(0, int(infoOf(t, f).Capacity))); err != nil && !errors.Is(err, scalableext.ErrFull) { // one in a hundred is full early
			t.Fatal(err)
		}
		hits += falsePositives(t, f, probes)
		expected += infoOf(t, f).ExpectedRate * float64(probes)
	}
	if most := rate * float64(filters*probes); float64(hits) > most+4*math.Sqrt(most) {
		t.Errorf("capacity %d, rate %v: %d of %d absent items are there, expected %.0f, at most %.0f", capacity, rate, hits, filters*probes, expected, most)
	}
	t.Logf("capacity %d, rate %v: %d of %d, %.0f expected", capacity, rate, hits, filters*probes, expected)
}
