package cuckooext

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/probe"
)

const benchItems = 1_000_000

// benchTable returns a layer of a million items at the load that it is sized for.
func benchTable(b *testing.B, family block.Family) (*table, *benchKey) {
	b.Helper()
	g := mustGeometry(b, family, 4)
	blocks, err := g.blocksFor(benchItems)
	if err != nil {
		b.Fatal(err)
	}
	t := newTable(&g, blocks)
	var key benchKey
	for i := range uint64(benchItems) {
		if _, err := t.insert(key.hash(i)); err != nil {
			b.Fatal(err)
		}
	}
	return t, &key
}

// benchKey is 16 bytes; a number is the first 8.
type benchKey [16]byte

// bytes is not inlined: where the compiler knows that a number is small it stores it byte by byte, and loading the 8
// bytes at once then waits for all of these stores, which doubles the time of a lookup.
//
//go:noinline
func (k *benchKey) bytes(i uint64) []byte {
	binary.LittleEndian.PutUint64(k[:], i)
	return k[:]
}

func (k *benchKey) hash(i uint64) uint64 { return probe.Sum64Seed(k.bytes(i), 1) }

// random returns a sequence of numbers in random order.
func random(i uint64) uint64 { return i * 0x9E3779B97F4A7C15 >> 20 % benchItems }

var benchFamilies = []block.Family{block.FamilySlots16, block.FamilySlots12, block.FamilySlots8, block.FamilySlots32}

func BenchmarkMayContain(b *testing.B) {
	for _, family := range benchFamilies {
		for name, first := range map[string]uint64{"hit": 0, "miss": benchItems} {
			b.Run(fmt.Sprintf("%d/%s", family.Width(), name), func(b *testing.B) {
				t, key := benchTable(b, family)
				found, i := 0, uint64(0)
				for b.Loop() {
					i++
					if t.mayContain(key.hash(first + random(i))) {
						found++
					}
				}
				b.ReportMetric(float64(found)/float64(b.N), "found")
				b.ReportMetric(float64(len(t.blocks))*block.Bits/benchItems, "bits/item")
			})
		}
	}
}

// Inserts fill the empty table up to the load it is sized for, then start again.
func BenchmarkInsert(b *testing.B) {
	for _, family := range benchFamilies {
		b.Run(fmt.Sprint(family.Width()), func(b *testing.B) {
			full, key := benchTable(b, family)
			i := uint64(0)
			for b.Loop() {
				if i%benchItems == 0 {
					for _, words := range full.blocks {
						clear(words)
					}
				}
				if _, err := full.insert(key.hash(i % benchItems)); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

// Deletes empty the full table, then start again.
func BenchmarkDelete(b *testing.B) {
	for _, family := range benchFamilies {
		b.Run(fmt.Sprint(family.Width()), func(b *testing.B) {
			full, key := benchTable(b, family)
			filled := make([][]uint64, len(full.blocks))
			for i := range filled {
				filled[i] = slices.Clone(full.blocks[i])
			}
			i := uint64(0)
			for b.Loop() {
				if i%benchItems == 0 {
					for i := range filled {
						copy(full.blocks[i], filled[i])
					}
				}
				if !full.remove(key.hash(i % benchItems)) {
					b.Fatal("item is absent")
				}
				i++
			}
		})
	}
}
