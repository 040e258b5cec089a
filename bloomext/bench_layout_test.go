package bloomext_test

import (
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

const layoutItems = 1_000_000

// benchLayout measures lookups in a filter with a million items in memory, and adds to a larger one.
func benchLayout(b *testing.B, layout scalableext.Layout) {
	db, err := kv.Open("", &kv.Options{InMemory: true, Modules: coreext.With(bloomext.Module())})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	c := bloomext.Config{Capacity: layoutItems, ErrorRate: 0.01, NonScaling: true, Layout: layout}
	reserve := func(key string, c bloomext.Config, items int) *bloomext.Filter {
		b.Helper()
		f := bloomext.New(db, key).With(kv.NoSync)
		if err := f.Reserve(c); err != nil {
			b.Fatal(err)
		}
		list := make([]uint64, items)
		for i := range list {
			list[i] = uint64(i)
		}
		if _, err := f.AddMany(scalableext.Uint64s(list...), nil); err != nil {
			b.Fatal(err)
		}
		if err := f.MayContainMany(scalableext.Uint64s(list...), make([]bool, items)); err != nil { // the blocks are in memory after that
			b.Fatal(err)
		}
		return f
	}
	f := reserve("f", c, layoutItems*99/100)
	scramble := func(i uint64) uint64 { return i * 0x9E3779B97F4A7C15 >> 20 % (layoutItems / 2) }
	for name, first := range map[string]uint64{"hit": 0, "miss": 1 << 40} {
		b.Run("MayContain/"+name, func(b *testing.B) {
			b.ReportAllocs()
			i := uint64(0)
			for b.Loop() {
				i++
				if _, err := f.MayContain(scalableext.Uint64(first + scramble(i))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	c.Capacity = 8 * layoutItems
	g, next := reserve("g", c, layoutItems), uint64(1<<41)
	b.Run("Add/known", func(b *testing.B) {
		b.ReportAllocs()
		i := uint64(0)
		for b.Loop() {
			i++
			if _, err := g.Add(scalableext.Uint64(scramble(i))); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Add/new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			next++
			if _, err := g.Add(scalableext.Uint64(next)); err != nil {
				b.Fatal(err)
			}
		}
	})
	list := make([]uint64, 1000)
	b.Run("AddMany/1000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for i := range list {
				next++
				list[i] = next
			}
			if _, err := g.AddMany(scalableext.Uint64s(list...), nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkLayout_native(b *testing.B) { benchLayout(b, scalableext.LayoutNative) }

func BenchmarkLayout_compatible(b *testing.B) { benchLayout(b, scalableext.LayoutCompatible) }
