package radix_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sievekv/sievekv/internal/radix"
)

func TestSort(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var spare []uint64
	for _, n := range []int{0, 1, 2, 10, 127, 128, 129, 1000, 70_000} {
		for _, mask := range []uint64{0, 0xff, 0x100, 0xff00ff, 0xffff0000, 1<<40 - 1, 1 << 63, ^uint64(0)} {
			for _, lowest := range []int{0, 5, 12} {
				keys := make([]uint64, n)
				for i := range keys {
					keys[i] = random.Uint64()&mask&^(1<<lowest-1) | uint64(i*(1<<lowest)/max(n, 1)) // the lowest bits ascend
				}
				want := slices.Sorted(slices.Values(keys))
				var sorted []uint64
				sorted, spare = radix.Sort(keys, spare, lowest)
				if !slices.Equal(sorted, want) {
					t.Fatalf("%d keys with bits %#x above the lowest %d: not sorted", n, mask, lowest)
				}
				if n > 0 && cap(spare) > 0 && &sorted[0] == &spare[:1][0] {
					t.Fatalf("%d keys with bits %#x: the sorted keys and the spare memory are the same", n, mask)
				}
			}
		}
	}
}

func BenchmarkSort(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{100, 700, 65_536} {
		for _, by := range []struct {
			name string
			sort func(keys, spare []uint64) (sorted, other []uint64)
		}{
			{"radix", func(keys, spare []uint64) (sorted, other []uint64) { return radix.Sort(keys, spare, 0) }},
			{"slices", func(keys, spare []uint64) (sorted, other []uint64) { slices.Sort(keys); return keys, spare }},
		} {
			b.Run(by.name+"/"+sizes[n], func(b *testing.B) {
				keys, from, spare := make([]uint64, n), make([]uint64, n), []uint64(nil)
				for i := range from {
					from[i] = random.Uint64() >> 40
				}
				for b.Loop() {
					copy(keys, from)
					keys, spare = by.sort(keys, spare)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/key")
			})
		}
	}
}

var sizes = map[int]string{100: "100", 700: "700", 65_536: "65536"}
