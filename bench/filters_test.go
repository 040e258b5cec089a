package bench

import (
	"encoding/binary"
	"testing"

	linvon "github.com/linvon/cuckoo-filter"
	seiflotfy "github.com/seiflotfy/cuckoofilter"
	boom "github.com/tylertreat/BoomFilters"

	"github.com/sievekv/sievekv"
)

// items is how many there are in each filter.
const items = 1_000_000

// key16 is an item: 16 bytes that no other number has. It is not inlined: where the compiler knows that a number is
// small it stores it byte by byte, and loading the 8 bytes at once then waits for all of these stores.
//
//go:noinline
func key16(b *[16]byte, n uint64) []byte {
	binary.LittleEndian.PutUint64(b[:], n*0x9E3779B97F4A7C15)
	binary.LittleEndian.PutUint64(b[8:], n)
	return b[:]
}

// filter is one under comparison, from which items can be deleted.
type filter struct {
	name string
	make func(b *testing.B) operations
}

type operations struct {
	add, has, remove func(item []byte) bool
}

// open opens a store on disk whose writes do not wait for it.
func open(b *testing.B) *sievekv.DB {
	db, err := sievekv.Open(b.TempDir(), &sievekv.Options{Durability: sievekv.NoSync, BallastSize: -1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	return db
}

// sure returns an operation that fails the benchmark in place of an error.
func sure(b *testing.B, op func(item []byte) (bool, error)) func(item []byte) bool {
	return func(item []byte) bool {
		ok, err := op(item)
		if err != nil {
			b.Fatal(err)
		}
		return ok
	}
}

// compare measures hits, misses, and deleting and adding again, with a million items of 16 bytes in each filter.
func compare(b *testing.B, filters []filter) {
	for _, f := range filters {
		b.Run(f.name, func(b *testing.B) {
			do := f.make(b)
			var buf [16]byte
			refused := 0
			for n := range uint64(items) {
				if !do.add(key16(&buf, n)) {
					refused++
				}
			}
			run := func(name string, op func(n uint64)) {
				b.Run(name, func(b *testing.B) {
					n := uint64(0)
					for b.Loop() {
						op(n)
						n++
					}
				})
			}
			missing, found := 0, 0
			run("hit", func(n uint64) {
				if !do.has(key16(&buf, n%items)) {
					missing++
				}
			})
			run("miss", func(n uint64) {
				if do.has(key16(&buf, items+n)) {
					found++
				}
			})
			run("delete+add", func(n uint64) {
				item := key16(&buf, n%items)
				do.remove(item)
				do.add(item)
			})
			if refused > 0 || missing > refused {
				b.Logf("%d of %d items had no room, %d hits were none", refused, items, missing)
			}
		})
	}
}

// BenchmarkCuckoo compares filters sized for their items. Deleting and adding are durable
// for sievekv, at level no; its fingerprints have 16 bits, seiflotfy's 8.
func BenchmarkCuckoo(b *testing.B) {
	compare(b, []filter{
		{"sievekv", func(b *testing.B) operations {
			f := open(b).Cuckoo("f")
			if err := f.Reserve(sievekv.CuckooConfig{Capacity: items, ErrorRate: 1e-3}); err != nil {
				b.Fatal(err)
			}
			add := func(item []byte) (bool, error) {
				_, err := f.Add(item) // false for what seems to be there
				return true, err
			}
			return operations{sure(b, add), sure(b, f.MayContain), sure(b, f.Delete)}
		}},
		{"seiflotfy", func(*testing.B) operations {
			f := seiflotfy.NewFilter(items)
			return operations{f.Insert, f.Lookup, f.Delete}
		}},
		{"linvon", func(*testing.B) operations {
			f := linvon.NewFilter(4, 16, items, linvon.TableTypeSingle)
			return operations{f.Add, f.Contain, f.Delete}
		}},
		{"BoomFilters", func(*testing.B) operations {
			f := boom.NewCuckooFilter(items, 1e-3)
			return operations{func(item []byte) bool { return f.Add(item) == nil }, f.Test, f.TestAndRemove}
		}},
	})
}

// BenchmarkCounting compares counting Bloom filters at a rate of 1 %.
func BenchmarkCounting(b *testing.B) {
	compare(b, []filter{
		{"sievekv", func(b *testing.B) operations {
			f := open(b).Counting("f")
			if err := f.Reserve(sievekv.CountingConfig{Capacity: items, ErrorRate: 0.01}); err != nil {
				b.Fatal(err)
			}
			add := func(item []byte) (bool, error) {
				_, err := f.Add(item) // false for what seems to be there
				return true, err
			}
			return operations{sure(b, add), sure(b, f.MayContain), sure(b, f.Delete)}
		}},
		{"BoomFilters", func(*testing.B) operations {
			f := boom.NewDefaultCountingBloomFilter(items, 0.01)
			return operations{func(item []byte) bool { f.Add(item); return true }, f.Test, f.TestAndRemove}
		}},
	})
}
