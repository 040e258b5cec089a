package cuckooext

import (
	"fmt"
	"math"
	"testing"

	"github.com/sievekv/sievekv/internal/block"
)

// The measured rates are those of the formula at the present load, in layers of several blocks and in chains of
// nested layers, where an item has the same bucket and fingerprint in all layers and must be absent from each
// independently.
//
// The seeds are fixed. The bound is 4 standard deviations of the hits, which are nearly Poisson, and half the rate of
// them, because the formula neglects a little: copies of one place and, if there are few buckets, items whose buckets
// are the same. The rate of 32 bits is too low for that; see TestGeometry_place_fingerprintBits.
func TestGeometry_rate_measured(t *testing.T) {
	for _, tt := range []struct {
		family     block.Family
		bucketSize int
		blocks     []uint64 // of each layer, the oldest first
		probes     int
	}{
		{block.FamilySlots8, 4, []uint64{1}, 1e6},
		{block.FamilySlots8, 4, []uint64{7}, 1e6},
		{block.FamilySlots8, 4, []uint64{2, 4, 12}, 1e6},
		{block.FamilySlots8, 1, []uint64{5}, 1e6},
		{block.FamilySlots10, 3, []uint64{3, 6, 12}, 2e6},
		{block.FamilySlots12, 4, []uint64{1}, 3e6},
		{block.FamilySlots12, 4, []uint64{13}, 3e6},
		{block.FamilySlots12, 4, []uint64{3, 6, 12}, 3e6},
		{block.FamilySlots12, 2, []uint64{5}, 3e6},
		{block.FamilySlots12, 7, []uint64{5}, 3e6},
		{block.FamilySlots12, 255, []uint64{5}, 3e5},
		{block.FamilySlots14, 2, []uint64{5}, 5e6},
		{block.FamilySlots16, 4, []uint64{16}, 2e7},
		{block.FamilySlots16, 4, []uint64{3, 3, 9}, 1e7},
		{block.FamilySlots16, 64, []uint64{5}, 2e6},
		{block.FamilySlots18, 3, []uint64{3, 6}, 2e7},
		{block.FamilySlots20, 8, []uint64{5}, 2e7},
		{block.FamilySlots24, 64, []uint64{5}, 1e7},
	} {
		t.Run(fmt.Sprintf("%v, bucket size %d, %d blocks", tt.family, tt.bucketSize, tt.blocks), func(t *testing.T) {
			t.Parallel()
			if raceEnabled {
				tt.probes /= 20
			}
			g := mustGeometry(t, tt.family, tt.bucketSize)
			k := keys{seed: 11}
			var layers []*table
			absent := 1.0
			for _, blocks := range tt.blocks {
				layers = append(layers, newTable(&g, blocks))
				absent *= 1 - fill(t, layers[len(layers)-1], &k)
			}
			hits := 0
			for range tt.probes {
				h := k.next()
				for _, l := range layers {
					if l.mayContain(h) {
						hits++
						break
					}
				}
			}
			want := (1 - absent) * float64(tt.probes)
			t.Logf("rate %.4g, want %.4g", float64(hits)/float64(tt.probes), 1-absent)
			if math.Abs(float64(hits)-want) > 4*math.Sqrt(want)+(1-absent)*want/2 {
				t.Errorf("%d hits among %d absent items, want %.0f", hits, tt.probes, want)
			}
			if rate, most := 1-absent, chainRate(g.rate(g.load(1)), len(layers)); rate > most*(1+1e-9) {
				t.Errorf("rate is %.4g at full capacity, planned %.4g", rate, most)
			}
		})
	}
}

// fill adds as many items as the layer is sized for, and checks that all are found. It returns the rate by the
// formula.
func fill(t *testing.T, l *table, k *keys) float64 {
	t.Helper()
	first, items := *k, l.g.capacity(uint64(len(l.blocks)))
	for i := range items {
		if _, err := l.insert(k.next()); err != nil {
			t.Fatalf("item %d of %d: %v", i, items, err)
		}
	}
	for i := range items {
		if !l.mayContain(first.next()) {
			t.Fatalf("item %d of %d is not found", i, items)
		}
	}
	return l.g.rate(float64(items) / float64(len(l.blocks)*l.g.slots()))
}

// In a chain of nested layers with many false positives, deleting the newest copy never makes an item absent that was
// added and not deleted.
func TestGeometry_nestedDeletes(t *testing.T) {
	for _, bucketSize := range []int{2, 3, 4} {
		t.Run(fmt.Sprintf("bucket size %d", bucketSize), func(t *testing.T) {
			g := mustGeometry(t, block.FamilySlots8, bucketSize)
			k := keys{seed: 12}
			var added []uint64
			var layers []*table
			for _, blocks := range []uint64{2, 4, 12} {
				l := newTable(&g, blocks)
				layers = append(layers, l)
				for range g.capacity(blocks) {
					h := k.next()
					added = append(added, h)
					if _, err := l.insert(h); err != nil {
						t.Fatal(err)
					}
				}
			}
			// Every third item is deleted; most by an entry of their own layer, some by one that another item put
			// into a newer layer.
			elsewhere := 0
			for i := 0; i < len(added); i += 3 {
				for n := len(layers) - 1; ; n-- {
					if n < 0 {
						t.Fatalf("item %d is not there to delete", i)
					}
					p := layers[n].place(added[i])
					if _, ok := g.remove(layers[n].blocks[p.blk], p); ok {
						if n > 0 && i < int(g.capacity(2)) {
							elsewhere++
						}
						break
					}
				}
			}
			if elsewhere == 0 {
				t.Error("no item was deleted by an entry in a newer layer")
			}
			for i, h := range added {
				found := false
				for _, l := range layers {
					found = found || l.mayContain(h)
				}
				if i%3 != 0 && !found {
					t.Fatalf("item %d is not found, though it was not deleted", i)
				}
			}
		})
	}
}
