package cuckooext_test

import (
	"testing"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

const benchItems = 1_000_000

// benchFilter returns a filter with a million items, in memory.
func benchFilter(b *testing.B, c cuckooext.Config) *cuckooext.Filter {
	b.Helper()
	db, err := kv.Open("", &kv.Options{InMemory: true, Modules: coreext.With(cuckooext.Module())})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	f := cuckooext.New(db, "f").With(kv.NoSync)
	if err := f.Reserve(c); err != nil {
		b.Fatal(err)
	}
	items := make([]uint64, benchItems)
	for i := range items {
		items[i] = uint64(i)
	}
	if _, err := f.AddMany(scalableext.Uint64s(items...), nil); err != nil {
		b.Fatal(err)
	}
	present := make([]bool, benchItems)
	if err := f.MayContainMany(scalableext.Uint64s(items...), present); err != nil { // all blocks are in memory after that
		b.Fatal(err)
	}
	return f
}

func benchHandles(b *testing.B, c cuckooext.Config) {
	f := benchFilter(b, c)
	for name, first := range map[string]uint64{"hit": 0, "miss": 1 << 40} {
		b.Run("MayContain/"+name, func(b *testing.B) {
			b.ReportAllocs()
			i := uint64(0)
			for b.Loop() {
				i++
				if _, err := f.MayContain(scalableext.Uint64(first + i*0x9E3779B97F4A7C15>>20%benchItems)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("AddAndDelete", func(b *testing.B) {
		b.ReportAllocs()
		i := uint64(0)
		for b.Loop() {
			i++
			item := 1<<41 + i*0x9E3779B97F4A7C15>>20%benchItems
			if _, err := f.Add(scalableext.Uint64(item)); err != nil {
				b.Fatal(err)
			}
			if _, err := f.Delete(scalableext.Uint64(item)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkHandle_native(b *testing.B) {
	benchHandles(b, cuckooext.Config{Capacity: 4 * benchItems, ErrorRate: 0.02, NonScaling: true})
}

func BenchmarkHandle_compatible(b *testing.B) {
	benchHandles(b, cuckooext.Config{Capacity: 4 * benchItems, NonScaling: true, Layout: scalableext.LayoutCompatible})
}
