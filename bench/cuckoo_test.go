package bench

import (
	"encoding/binary"
	"testing"

	linvon "github.com/linvon/cuckoo-filter"
	seiflotfy "github.com/seiflotfy/cuckoofilter"
	boom "github.com/tylertreat/BoomFilters"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
)

// items is how many there are in each filter.
const items = 1_000_000

// key16 is an item: 16 bytes that no other number has.
func key16(b *[16]byte, n uint64) []byte {
	binary.LittleEndian.PutUint64(b[:], n*0x9E3779B97F4A7C15)
	binary.LittleEndian.PutUint64(b[8:], n)
	return b[:]
}

// cuckoo is a filter under comparison.
type cuckoo interface {
	add(item []byte) bool
	has(item []byte) bool
	remove(item []byte) bool
}

type ours struct {
	b testing.TB
	f *cuckooext.Filter
}

func (o ours) add(item []byte) bool {
	err := o.f.Add(item)
	if err != nil {
		o.b.Fatal(err)
	}
	return true
}

func (o ours) has(item []byte) bool {
	present, err := o.f.MayContain(item)
	if err != nil {
		o.b.Fatal(err)
	}
	return present
}

func (o ours) remove(item []byte) bool {
	deleted, err := o.f.Delete(item)
	if err != nil {
		o.b.Fatal(err)
	}
	return deleted
}

type seiflotfyFilter struct{ f *seiflotfy.Filter }

func (s seiflotfyFilter) add(item []byte) bool    { return s.f.Insert(item) }
func (s seiflotfyFilter) has(item []byte) bool    { return s.f.Lookup(item) }
func (s seiflotfyFilter) remove(item []byte) bool { return s.f.Delete(item) }

type linvonFilter struct{ f *linvon.Filter }

func (l linvonFilter) add(item []byte) bool    { return l.f.Add(item) }
func (l linvonFilter) has(item []byte) bool    { return l.f.Contain(item) }
func (l linvonFilter) remove(item []byte) bool { return l.f.Delete(item) }

type boomFilter struct{ f *boom.CuckooFilter }

func (f boomFilter) add(item []byte) bool    { return f.f.Add(item) == nil }
func (f boomFilter) has(item []byte) bool    { return f.f.Test(item) }
func (f boomFilter) remove(item []byte) bool { return f.f.TestAndRemove(item) }

// BenchmarkCuckoo has 1e6 items of 16 bytes in filters sized for them: hits, misses,
// and adding and deleting, which for sievekv is durable at level no, its filter being
// in a store on disk, with 16-bit fingerprints; seiflotfy's has 8 bits.
func BenchmarkCuckoo(b *testing.B) {
	peers := []struct {
		name string
		make func(b *testing.B) cuckoo
	}{
		{"sievekv", func(b *testing.B) cuckoo {
			db, err := sievekv.Open(b.TempDir(), &sievekv.Options{
				Durability: sievekv.NoSync, BallastSize: -1, Modules: []kv.Module{cuckooext.Module()},
			})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() {
				if err := db.Close(); err != nil {
					b.Error(err)
				}
			})
			f := cuckooext.New(db.DB, "f")
			if err := f.Reserve(cuckooext.Config{Capacity: items, ErrorRate: 1e-3}); err != nil {
				b.Fatal(err)
			}
			return ours{b, f}
		}},
		{"seiflotfy", func(*testing.B) cuckoo { return seiflotfyFilter{seiflotfy.NewFilter(items)} }},
		{"linvon", func(*testing.B) cuckoo {
			return linvonFilter{linvon.NewFilter(4, 16, items, linvon.TableTypeSingle)}
		}},
		{"BoomFilters", func(*testing.B) cuckoo { return boomFilter{boom.NewCuckooFilter(items, 1e-3)} }},
	}
	for _, p := range peers {
		b.Run(p.name, func(b *testing.B) {
			f := p.make(b)
			var buf [16]byte
			refused := 0
			for n := range uint64(items) {
				if !f.add(key16(&buf, n)) {
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
			found := 0
			run("hit", func(n uint64) {
				if f.has(key16(&buf, n%items)) {
					found++
				}
			})
			run("miss", func(n uint64) {
				if f.has(key16(&buf, items+n)) {
					found++
				}
			})
			run("delete+add", func(n uint64) {
				item := key16(&buf, n%items)
				f.remove(item)
				f.add(item)
			})
			if refused > 0 || found == 0 {
				b.Logf("%d of %d items had no room", refused, items)
			}
		})
	}
}
