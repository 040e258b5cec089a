package probe_test

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/sievekv/sievekv/internal/probe"
)

const benchSeed = 77

// sink keeps results alive that a benchmark has no other use for.
var sink uint64

type benchKey [16]byte

// keyAt returns the key of item number i.
func keyAt(i uint64) (k benchKey) {
	binary.LittleEndian.PutUint64(k[:], mix(i))
	binary.LittleEndian.PutUint64(k[8:], i)
	return k
}

// queryKeys returns keys of items below the given number in random order, and keys of others; at most four
// million, which is more lines than any cache holds.
func queryKeys(items uint64) (hits, misses []benchKey) {
	for i := range min(items, 1<<22) {
		added, _ := bits.Mul64(mix(i+1<<40), items)
		hits = append(hits, keyAt(added))
		misses = append(misses, keyAt(items+i))
	}
	return hits, misses
}

// table is a filter behind the two levels of atomic pointers that a store needs to load and drop single blocks.
type table struct {
	filter
	dir []atomic.Pointer[[64]atomic.Pointer[probe.Line]]
}

func newTable(l probe.Layout) *table {
	t := &table{filter: *newFilter(l)}
	t.dir = make([]atomic.Pointer[[64]atomic.Pointer[probe.Line]], l.Blocks/64+1)
	for i := range t.dir {
		t.dir[i].Store(new([64]atomic.Pointer[probe.Line]))
	}
	for b, words := range t.blocks {
		t.dir[b/64].Load()[b%64].Store(probe.FirstLine(words))
	}
	return t
}

func (t *table) block(b uint64) *probe.Line {
	chunk := t.dir[b/64].Load()
	if chunk == nil {
		return nil
	}
	return chunk[b%64].Load()
}

// contenders look items up in different ways.
type contenders struct{ table *table }

func newContenders(b *testing.B, items uint64, rate float64) *contenders {
	c := &contenders{newTable(mustSize(b, items, rate))}
	for i := range items {
		key := keyAt(i)
		c.table.add(probe.Sum64Seed(key[:], benchSeed))
	}
	return c
}

func (c *contenders) probe(keys []benchKey) {
	t := c.table
	for i := range keys {
		h := probe.Sum64Seed(keys[i][:], benchSeed)
		b, rest := t.layout.Block(h)
		if first := t.block(b); first != nil && t.layout.Test(first, rest, h) {
			sink++
		}
	}
}

// probeBatches looks up 64 keys at a time: hash all, touch the line of each, test.
func (c *contenders) probeBatches(keys []benchKey) {
	type lookup struct {
		first   *probe.Line
		rest, h uint64
	}
	var batch [64]lookup
	t := c.table
	for part := range slices.Chunk(keys, len(batch)) {
		for i := range part {
			h := probe.Sum64Seed(part[i][:], benchSeed)
			b, rest := t.layout.Block(h)
			batch[i] = lookup{t.block(b), rest, h}
		}
		for _, q := range batch[:len(part)] {
			sink += t.layout.Touch(q.first, q.rest)
		}
		for _, q := range batch[:len(part)] {
			if t.layout.Test(q.first, q.rest, q.h) {
				sink++
			}
		}
	}
}

// race lets the contenders take turns, so that they share the machine's good and bad moments. Each uses keys that none
// of them saw lately. It reports the median nanoseconds per key of each, and the median ratio of the first one's time
// to each other's.
func race(b *testing.B, keys []benchKey, names []string, contenders ...func([]benchKey)) {
	times := make([][]float64, len(contenders))
	ratios := make([][]float64, len(contenders))
	chunks := slices.Collect(slices.Chunk(keys, 1<<13))
	round := 0
	for b.Loop() {
		for i, f := range contenders {
			chunk := chunks[(round+i*len(chunks)/len(contenders))%len(chunks)]
			start := time.Now()
			f(chunk)
			times[i] = append(times[i], float64(time.Since(start).Nanoseconds())/float64(len(chunk)))
			ratios[i] = append(ratios[i], times[0][round]/times[i][round])
		}
		round++
	}
	b.ReportMetric(0, "ns/op")
	for i, name := range names {
		b.ReportMetric(median(times[i]), "ns/"+name)
		if i > 0 {
			b.ReportMetric(median(ratios[i]), "x/"+name)
		}
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// hitAndMiss runs a benchmark on keys of items that were added and on others.
func hitAndMiss(b *testing.B, items uint64, run func(b *testing.B, keys []benchKey)) {
	hits, misses := queryKeys(items)
	b.Run("hit", func(b *testing.B) { run(b, hits) })
	b.Run("miss", func(b *testing.B) { run(b, misses) })
}

// BenchmarkLookup hashes a 16-byte key and looks it up in a filter of 1 %, one by one and 64 at a time. Filling 1e8
// items takes a minute.
func BenchmarkLookup(b *testing.B) {
	for _, items := range []uint64{1e5, 1e6, 1e8} {
		b.Run(fmt.Sprintf("%.0e", float64(items)), func(b *testing.B) {
			c := newContenders(b, items, 0.01)
			hitAndMiss(b, items, func(b *testing.B, keys []benchKey) {
				race(b, keys, []string{"probe", "batched"}, c.probe, c.probeBatches)
			})
		})
	}
}

// BenchmarkLookup_rates compares layouts: one to three lines per item.
func BenchmarkLookup_rates(b *testing.B) {
	const items = 1e6
	for _, rate := range []float64{0.03, 0.01, 0.007, 1e-3, 1e-4, 1.01e-6, 1e-6, 1e-8} {
		b.Run(fmt.Sprint(rate), func(b *testing.B) {
			c := newContenders(b, items, rate)
			hitAndMiss(b, items, func(b *testing.B, keys []benchKey) {
				race(b, keys, []string{"probe"}, c.probe)
				b.ReportMetric(float64(c.table.layout.Bits())/items, "bits/item")
			})
		})
	}
}

func BenchmarkLayout_AppendPositions(b *testing.B) {
	for _, rate := range []float64{0.01, 1e-4, 1e-6} {
		b.Run(fmt.Sprint(rate), func(b *testing.B) {
			l := mustSize(b, 1e6, rate)
			hashes := splitmix(8)
			var buf []uint16
			for b.Loop() {
				buf = l.AppendPositions(buf[:0], hashes.next())
			}
		})
	}
}

func BenchmarkSize(b *testing.B) {
	b.Run("same", func(b *testing.B) {
		for b.Loop() {
			probe.Size(100, 0.01)
		}
	})
	b.Run("new capacity", func(b *testing.B) {
		for n := uint64(1 << 20); b.Loop(); n++ {
			probe.Size(n, 0.01)
		}
	})
	b.Run("new rate", func(b *testing.B) {
		for rate := 0.01; b.Loop(); rate *= 0.99999 {
			probe.Size(1e6, rate)
		}
	})
}

// BenchmarkSum64Seed compares with the library's seeded hash, and with its Sum64, which has no seed.
func BenchmarkSum64Seed(b *testing.B) {
	for _, n := range []int{3, 8, 16, 20, 36, 100, 1000} {
		key := make([]byte, n)
		b.Run(fmt.Sprint(n, "/probe"), func(b *testing.B) {
			for b.Loop() {
				sink += probe.Sum64Seed(key, benchSeed)
			}
		})
		b.Run(fmt.Sprint(n, "/digest"), func(b *testing.B) {
			for b.Loop() {
				var d xxhash.Digest
				d.ResetWithSeed(benchSeed)
				d.Write(key)
				sink += d.Sum64()
			}
		})
		b.Run(fmt.Sprint(n, "/unseeded"), func(b *testing.B) {
			for b.Loop() {
				sink += xxhash.Sum64(key)
			}
		})
	}
}
