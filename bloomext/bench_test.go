package bloomext_test

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// key16 writes the i-th 16-byte benchmark key. It is not inlined: where the compiler knows that a number is small it
// stores it byte by byte, and loading the 8 bytes at once then waits for all of these stores.
//
//go:noinline
func key16(buf []byte, i uint64) []byte {
	binary.LittleEndian.PutUint64(buf, i)
	binary.LittleEndian.PutUint64(buf[8:], i*0x9e3779b97f4a7c15)
	return buf[:16]
}

func open(tb testing.TB, dir string, o *kv.Options) *kv.DB {
	tb.Helper()
	if o == nil {
		o = &kv.Options{InMemory: true}
	}
	if o.Modules == nil {
		o.Modules = coreext.With(bloomext.Module())
	}
	db, err := kv.Open(dir, o)
	if err != nil {
		tb.Fatal(err)
	}
	return db
}

// fill reserves a filter for n items and adds key16 0 to n-1.
func fill(tb testing.TB, db *kv.DB, key string, n int, rate float64) *bloomext.Filter {
	tb.Helper()
	f := bloomext.New(db, key).With(kv.NoSync)
	if err := f.Reserve(bloomext.Config{Capacity: uint64(n), ErrorRate: rate, NonScaling: true}); err != nil {
		tb.Fatal(err)
	}
	add(tb, f, n)
	return f
}

// add adds key16 0 to n-1.
func add(tb testing.TB, f *bloomext.Filter, n int) {
	tb.Helper()
	const chunk = 4096
	keys := make([][]byte, chunk)
	bufs := make([]byte, 16*chunk)
	added := make([]bool, chunk)
	for start := 0; start < n; start += chunk {
		m := min(chunk, n-start)
		for i := range m {
			keys[i] = key16(bufs[16*i:], uint64(start+i))
		}
		if _, err := f.AddMany(keys[:m], added[:m]); err != nil {
			tb.Fatal(err)
		}
	}
}

// BenchmarkMayContain measures a lookup of a 16-byte key through the handle at 1 %, including hashing. bench compares it
// with other libraries.
func BenchmarkMayContain(b *testing.B) {
	for _, n := range sizes() {
		db := open(b, "", &kv.Options{InMemory: true, CacheSize: 1 << 30})
		f := fill(b, db, "f", n, 0.01)
		for _, hit := range []bool{false, true} {
			kind, base := "miss", uint64(1)<<40
			if hit {
				kind, base = "hit", 0
			}
			b.Run(fmt.Sprintf("n=%d/%s", n, kind), func(b *testing.B) {
				var buf [16]byte
				x := uint64(1)
				b.ReportAllocs()
				for b.Loop() {
					_, _ = f.MayContain(key16(buf[:], base+next(&x, n)))
				}
			})
		}
		b.Run(fmt.Sprintf("n=%d/miss/batch64", n), func(b *testing.B) {
			x := uint64(1)
			var keys [64][]byte
			var bufs [64 * 16]byte
			var present [64]bool
			b.ReportAllocs()
			for b.Loop() {
				for i := range keys {
					keys[i] = key16(bufs[16*i:], 1<<40+next(&x, n))
				}
				if err := f.MayContainMany(keys[:], present[:]); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/item")
		})
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
		runtime.GC()
	}
}

// next returns a number below n. It is cheaper than what is measured with it.
func next(x *uint64, n int) uint64 {
	*x = *x*0x5851f42d4c957f2d + 0x14057b7ef767814f
	hi, _ := bits.Mul64(*x, uint64(n))
	return hi
}

func sizes() []int { return []int{1e5, 1e6} }

// BenchmarkAdd compares an add at level No with a plain Set of 24 bytes in Pebble, and prints the log bytes of an
// add.
func BenchmarkAdd(b *testing.B) {
	b.Run("new/sievekv", func(b *testing.B) {
		const capacity = 1e7
		db := open(b, b.TempDir(), &kv.Options{Durability: kv.NoSync})
		defer func() { _ = db.Close() }()
		g := bloomext.New(db, "g")
		if err := g.Reserve(bloomext.Config{Capacity: capacity, ErrorRate: 0.01, NonScaling: true}); err != nil {
			b.Fatal(err)
		}
		before, _ := db.LogBytesWritten()
		var buf [16]byte
		var i uint64
		b.ReportAllocs()
		for b.Loop() {
			i++
			if i > capacity {
				b.Fatalf("the filter is full after %d items: give a smaller -benchtime", i)
			}
			if _, err := g.Add(key16(buf[:], i)); err != nil {
				b.Fatal(err)
			}
		}
		after, _ := db.LogBytesWritten()
		b.ReportMetric(float64(after-before)/float64(i), "logB/new")
	})
	b.Run("duplicate/sievekv", func(b *testing.B) {
		db := open(b, b.TempDir(), &kv.Options{Durability: kv.NoSync})
		defer func() { _ = db.Close() }()
		f := fill(b, db, "f", 1e5, 0.01)
		var buf [16]byte
		var i uint64
		b.ReportAllocs()
		for b.Loop() {
			i++
			if _, err := f.Add(key16(buf[:], i%1e5)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("pebble-set-24", func(b *testing.B) {
		p, err := pebble.Open(b.TempDir(), &pebble.Options{FormatMajorVersion: pebble.FormatNewest, MemTableSize: 32 << 20, Logger: quiet{}})
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = p.Close() }()
		var key [16]byte
		var i uint64
		b.ReportAllocs()
		for b.Loop() {
			i++
			if err := p.Set(key16(key[:], i), key[:8], pebble.NoSync); err != nil {
				b.Fatal(err)
			}
		}
	})
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(f string, a ...any) {
	panic(fmt.Sprintf(f, a...))
}

// BenchmarkSyncedAdd compares adds at level Always from 64 goroutines with commits that sync under a lock.
func BenchmarkSyncedAdd(b *testing.B) {
	const goroutines = 64
	run := func(b *testing.B, add func(i uint64) error) {
		var next atomic.Uint64
		var wg sync.WaitGroup
		b.ResetTimer()
		for range goroutines {
			wg.Go(func() {
				for {
					i := next.Add(1)
					if i > uint64(b.N) {
						return
					}
					if err := add(i); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "adds/s")
	}
	b.Run("sievekv", func(b *testing.B) {
		db := open(b, b.TempDir(), &kv.Options{Durability: kv.Always})
		defer func() { _ = db.Close() }()
		f := bloomext.New(db, "f")
		if err := f.Reserve(bloomext.Config{Capacity: 1e8, ErrorRate: 0.01, NonScaling: true}); err != nil {
			b.Fatal(err)
		}
		run(b, func(i uint64) error { _, err := f.Add(scalableext.Uint64(i)); return err })
	})
	b.Run("commit-sync-under-lock", func(b *testing.B) {
		p, err := pebble.Open(b.TempDir(), &pebble.Options{FormatMajorVersion: pebble.FormatNewest, MemTableSize: 32 << 20, Logger: quiet{}})
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = p.Close() }()
		var mu sync.Mutex
		run(b, func(i uint64) error {
			var k [16]byte
			mu.Lock()
			defer mu.Unlock()
			return p.Set(key16(k[:], i), k[:8], pebble.Sync)
		})
	})
}
