package bloomext_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// inGoroutines divides b.N operations among goroutines.
func inGoroutines(b *testing.B, goroutines int, op func(g int, x *uint64) error) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ResetTimer()
	for g := range goroutines {
		wg.Go(func() {
			x := uint64(g)*0x9e3779b97f4a7c15 + 1
			for left.Add(-1) >= 0 {
				if err := op(g, &x); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
}

// rawPebble opens Pebble with the options that a store uses.
func rawPebble(b *testing.B) *pebble.DB {
	b.Helper()
	po := &pebble.Options{FormatMajorVersion: pebble.FormatNewest, MemTableSize: 32 << 20, CacheSize: 8 << 20, Logger: quiet{}}
	for i := range po.Levels {
		po.Levels[i].BlockSize = 16 << 10
	}
	po.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
	p, err := pebble.Open(b.TempDir(), po)
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// BenchmarkColdLookup compares lookups in a filter of 1e7 items behind a cache of a tenth of its size with plain Gets
// of 8 KiB values, with one goroutine and with two.
func BenchmarkColdLookup(b *testing.B) {
	const n, blocks = 10_000_000, 1514
	dir := b.TempDir()
	db := open(b, dir, &kv.Options{Durability: kv.NoSync})
	fill(b, db, "f", n, 0.01)
	if err := db.CompactTables(b.Context()); err != nil { // as a filter at rest is
		b.Fatal(err)
	}
	closeDB(b, db)
	db = open(b, dir, &kv.Options{CacheSize: 1200 << 10, Durability: kv.NoSync})
	defer closeDB(b, db)
	f := bloomext.New(db, "f")
	p := rawPebble(b)
	defer func() { _ = p.Close() }()
	value := make([]byte, 8<<10)
	for i := range blocks {
		for j := 0; j < len(value); j += 8 {
			binary.LittleEndian.PutUint64(value[j:], rand.Uint64())
		}
		if err := p.Set(binary.BigEndian.AppendUint64(nil, uint64(i)), value, pebble.NoSync); err != nil {
			b.Fatal(err)
		}
	}
	if err := p.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := p.Compact(b.Context(), nil, []byte{0xff}, false); err != nil {
		b.Fatal(err)
	}
	for _, goroutines := range []int{1, 2} {
		b.Run(fmt.Sprintf("sievekv/goroutines=%d", goroutines), func(b *testing.B) {
			inGoroutines(b, goroutines, func(_ int, x *uint64) error {
				var buf [16]byte
				_, err := f.MayContain(key16(buf[:], next(x, n)))
				return err
			})
		})
		b.Run(fmt.Sprintf("pebble-get-8KiB/goroutines=%d", goroutines), func(b *testing.B) {
			inGoroutines(b, goroutines, func(_ int, x *uint64) error {
				var key [8]byte
				binary.BigEndian.PutUint64(key[:], next(x, blocks))
				_, closer, err := p.Get(key[:])
				if err != nil {
					return err
				}
				return closer.Close()
			})
		})
	}
}

// BenchmarkTwoFilters compares two goroutines, each adding to its own filter, with two goroutines that set 24 bytes
// in Pebble, and with two that commit the two records of an add, the bits and the count. It prints the ratios.
func BenchmarkTwoFilters(b *testing.B) {
	var ours, raw float64 // ns
	nsPerOp := func(b *testing.B) float64 { return float64(b.Elapsed().Nanoseconds()) / float64(b.N) }
	b.Run("sievekv", func(b *testing.B) {
		db := open(b, b.TempDir(), &kv.Options{Durability: kv.NoSync})
		defer closeDB(b, db)
		var filters [2]*bloomext.Filter
		for i := range filters {
			filters[i] = bloomext.New(db, fmt.Sprint("filter", i))
			if err := filters[i].Reserve(bloomext.Config{Capacity: 1e7, ErrorRate: 0.01, NonScaling: true}); err != nil {
				b.Fatal(err)
			}
		}
		inGoroutines(b, 2, func(g int, x *uint64) error {
			_, err := filters[g].Add(scalableext.Uint64(next(x, 1<<40)))
			return err
		})
		ours = nsPerOp(b)
	})
	b.Run("pebble-set-24", func(b *testing.B) {
		p := rawPebble(b)
		defer func() { _ = p.Close() }()
		inGoroutines(b, 2, func(_ int, x *uint64) error {
			var key [16]byte
			return p.Set(key16(key[:], next(x, 1<<40)), key[:8], pebble.NoSync)
		})
		raw = nsPerOp(b)
		b.ReportMetric(raw/ours, "adds/set")
	})
	b.Run("pebble-two-records", func(b *testing.B) {
		const blocks = 1514
		p := rawPebble(b)
		defer func() { _ = p.Close() }()
		inGoroutines(b, 2, func(g int, x *uint64) error {
			var key, count [8]byte
			batch := p.NewBatch()
			defer func() { _ = batch.Close() }() // releases memory, cannot fail
			binary.BigEndian.PutUint64(key[:], uint64(g)<<16|next(x, blocks))
			if err := batch.Merge(key[3:], key[5:], nil); err != nil {
				return err
			}
			binary.BigEndian.PutUint64(key[:], uint64(g)<<16|blocks)
			binary.BigEndian.PutUint64(count[:], *x)
			if err := batch.Set(key[3:], count[4:], nil); err != nil {
				return err
			}
			return p.Apply(batch, pebble.NoSync)
		})
		b.ReportMetric(nsPerOp(b)/ours, "adds/commit")
	})
}

// BenchmarkLogBytes prints the log bytes of an add: one at a time, with and without syncs, and in batches of 1000
// into filters of 1e6 and 1e8.
func BenchmarkLogBytes(b *testing.B) {
	for _, c := range []struct {
		capacity uint64
		batch    int
		level    kv.Durability
	}{{1e6, 1, kv.Always}, {1e6, 1, kv.NoSync}, {1e6, 1000, kv.NoSync}, {1e8, 1000, kv.NoSync}} {
		b.Run(fmt.Sprintf("capacity=%d/batch=%d/level=%s", c.capacity, c.batch, c.level), func(b *testing.B) {
			db := open(b, "", &kv.Options{InMemory: true, Durability: c.level, CacheSize: 1 << 30})
			defer closeDB(b, db)
			f := bloomext.New(db, "f")
			if err := f.Reserve(bloomext.Config{Capacity: c.capacity, ErrorRate: 0.01, NonScaling: true}); err != nil {
				b.Fatal(err)
			}
			before := mustLogBytes(b, db)
			items, added := make([]uint64, c.batch), make([]bool, c.batch)
			var n uint64
			for b.Loop() {
				if n+uint64(c.batch) > c.capacity {
					b.Fatalf("the filter is full after %d items: give a smaller -benchtime", n)
				}
				for i := range items {
					items[i] = n
					n++
				}
				if _, err := f.AddMany(scalableext.Uint64s(items...), added); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(mustLogBytes(b, db)-before)/float64(n), "logB/add")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/add")
		})
	}
}
