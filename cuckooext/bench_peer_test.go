package cuckooext

import (
	"testing"

	"github.com/seiflotfy/cuckoofilter"

	"github.com/sievekv/sievekv/kv/block"
)

// BenchmarkPeer compares the algorithms on blocks in memory, with fingerprints of 16 bits, with seiflotfy's filter,
// whose fingerprints have 8 bits: hits, misses, filling the empty filter with a million items, and emptying it. It
// prints the ratios of the times. The comparison with other libraries measures lookups through a handle and durable
// changes.
func BenchmarkPeer(b *testing.B) {
	t, key := benchTable(b, block.FamilySlots16)
	filled := make([]blockWords, len(t.blocks))
	copy(filled, t.blocks)
	peer := cuckoo.NewFilter(benchItems)
	for i := range uint64(benchItems) {
		peer.Insert(key.bytes(i))
	}
	dump := peer.Encode()

	// begin is called before each million of operations.
	run := func(name string, begin, beginPeer func(), op, opPeer func(i uint64)) {
		measure := func(who string, begin func(), op func(i uint64)) float64 {
			perOp := 0.0
			b.Run(name+"/"+who, func(b *testing.B) {
				i := uint64(0)
				for b.Loop() {
					if i%benchItems == 0 {
						b.StopTimer()
						begin()
						b.StartTimer()
					}
					op(i % benchItems)
					i++
				}
				perOp = float64(b.Elapsed().Nanoseconds()) / float64(b.N)
			})
			return perOp
		}
		theirs, ours := measure("seiflotfy", beginPeer, opPeer), measure("sievekv", begin, op)
		b.Run(name+"/ratio", func(b *testing.B) {
			b.ReportMetric(ours/theirs, "x/seiflotfy")
			b.ReportMetric(0, "ns/op")
		})
	}
	nothing := func() {}
	decode := func() { peer, _ = cuckoo.Decode(dump) }
	lost := 0
	run("hit", nothing, nothing,
		func(i uint64) {
			if !t.mayContain(key.hash(random(i))) {
				lost++
			}
		},
		func(i uint64) { peer.Lookup(key.bytes(random(i))) })
	run("miss", nothing, nothing,
		func(i uint64) { t.mayContain(key.hash(benchItems + i)) },
		func(i uint64) { peer.Lookup(key.bytes(benchItems + i)) })
	run("delete", func() { copy(t.blocks, filled) }, decode,
		func(i uint64) {
			if !t.remove(key.hash(i)) {
				lost++
			}
		},
		func(i uint64) { peer.Delete(key.bytes(i)) })
	run("insert", func() { clear(t.blocks) }, func() { peer.Reset() },
		func(i uint64) {
			if _, err := t.insert(key.hash(i)); err != nil {
				lost++
			}
		},
		func(i uint64) { peer.Insert(key.bytes(i)) })
	if lost > 0 {
		b.Fatalf("%d items were lost or had no room", lost)
	}
}
