package bloomext

import (
	"encoding/binary"
	"math/bits"
	"testing"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// residentFilter returns a handle on a filter of n items with one resident layer, and a function that hashes and
// tests the same bits without the store.
func residentFilter(tb testing.TB, n int) (f *Filter, test func(item []byte) bool) {
	tb.Helper()
	db, err := kv.Open("", &kv.Options{InMemory: true, CacheSize: 1 << 30, Modules: coreext.With(Module())})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	f = New(db, "f").With(kv.NoSync)
	if err := f.Reserve(Config{Capacity: uint64(n), ErrorRate: 0.01, NonScaling: true}); err != nil {
		tb.Fatal(err)
	}
	items, added := make([]uint64, n), make([]bool, n)
	for i := range items {
		items[i] = uint64(i)
	}
	if _, err := f.AddMany(scalableext.Uint64s(items...), added); err != nil {
		tb.Fatal(err)
	}
	present := make([]bool, n)
	if err := f.MayContainMany(scalableext.Uint64s(items...), present); err != nil { // reads every block
		tb.Fatal(err)
	}
	c := f.h.Current.Load()
	blocks := make([]*kv.Line, c.newest.layout.Blocks)
	for i := range blocks {
		if blocks[i] = c.newest.table.InMemory(uint64(i)); blocks[i] == nil {
			tb.Fatalf("block %d is not in memory", i)
		}
	}
	layout, sum := c.newest.layout, c.hash.Sum
	return f, func(item []byte) bool {
		h := sum(item)
		blk, rest := layout.Block(h)
		return layout.Test(blocks[blk], rest, h)
	}
}

// BenchmarkMayContain_overhead prints how much longer a lookup through the handle takes than a loop in this package
// over the same bits.
func BenchmarkMayContain_overhead(b *testing.B) {
	const n = 1_000_000
	f, test := residentFilter(b, n)
	ask := func(b *testing.B, base uint64, lookup func(item []byte) bool) float64 {
		var buf [8]byte
		x := uint64(1)
		b.ReportAllocs()
		for b.Loop() {
			x = x*0x5851f42d4c957f2d + 0x14057b7ef767814f
			i, _ := bits.Mul64(x, n)
			binary.LittleEndian.PutUint64(buf[:], base+i)
			lookup(buf[:])
		}
		return float64(b.Elapsed().Nanoseconds()) / float64(b.N)
	}
	for _, kind := range []struct {
		name string
		base uint64
	}{{"hit", 0}, {"miss", 1 << 40}} {
		var direct float64
		b.Run(kind.name+"/loop", func(b *testing.B) { direct = ask(b, kind.base, test) })
		b.Run(kind.name+"/MayContain", func(b *testing.B) {
			ns := ask(b, kind.base, func(item []byte) bool { ok, _ := f.MayContain(item); return ok })
			if direct > 0 {
				b.ReportMetric(ns/direct, "x/loop")
			}
		})
	}
}

// Lookups in resident blocks do not allocate, nor do adds of items that are present.
func TestFilter_allocations(t *testing.T) {
	f, _ := residentFilter(t, 10_000)
	item, text := binary.LittleEndian.AppendUint64(nil, 5), "absent"
	items, present := [][]byte{item, item}, make([]bool, 2)
	for name, call := range map[string]func() error{
		"MayContain":       func() error { _, err := f.MayContain(item); return err },
		"MayContainString": func() error { _, err := f.MayContain(scalableext.BytesOf(text)); return err },
		"MayContainMany":   func() error { return f.MayContainMany(items, present) },
		"Add":              func() error { _, err := f.Add(item); return err },
	} {
		var err error
		if n := testing.AllocsPerRun(2000, func() { err = call() }); n != 0 || err != nil {
			t.Errorf("%s: %v allocations, %v", name, n, err)
		}
	}
}
