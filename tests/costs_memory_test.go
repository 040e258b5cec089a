//go:build !race

package tests_test

// Allocations are counted without the race detector, which makes some of its own.

import (
	"encoding/binary"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv"
)

// wantAllocations checks how many allocations an operation makes on average, rounded down. What runs in the background
// is counted too.
func wantAllocations(t *testing.T, what string, most float64, op func() error) {
	t.Helper()
	if n := testing.AllocsPerRun(100, func() { must(t, op()) }); n > most {
		t.Errorf("%s: %v allocations, want at most %v", what, n, most)
	}
}

// openAllocations makes a filter of each type, with items.
func openAllocations(t *testing.T) map[string]sievekv.Filter {
	t.Helper()
	db := openCosts(t, vfs.NewMem(), &sievekv.Options{Durability: sievekv.NoSync})
	t.Cleanup(func() { must(t, db.Close()) })
	filters := costFilters(t, db, 1)
	for _, f := range filters {
		_, err := f.AddMany(sievekv.Uint64s(costOf(0, 1000)...), nil)
		must(t, err)
	}
	return filters
}

// Lookups in memory allocate nothing.
func TestCosts_allocationsOfLookups(t *testing.T) {
	known, item := sievekv.Uint64(5), []byte("absent")
	items, present := [][]byte{item, item}, make([]bool, 2)
	for name, f := range openAllocations(t) {
		wantAllocations(t, name+": lookup of a present item", 0, func() error { _, err := f.MayContain(known); return err })
		wantAllocations(t, name+": lookup of an absent item", 0, func() error { _, err := f.MayContain(item); return err })
		wantAllocations(t, name+": lookup of a string", 0, func() error { _, err := f.MayContainString("absent"); return err })
		if name == "bloom" { // the others collect the answers that memory does not have
			wantAllocations(t, name+": lookups of two", 0, func() error { return f.MayContainMany(items, present) })
		}
	}
}

// Adds of new items allocate little.
func TestCosts_allocationsOfAdds(t *testing.T) {
	const batch = 256
	for name, f := range openAllocations(t) {
		next, item := uint64(1<<30), make([]byte, 8)
		most := map[string]struct{ one, batch float64 }{"bloom": {2, 30}, "cuckoo": {8, batch}, "counting": {13, 2 * batch}}[name]
		wantAllocations(t, name+": add", most.one, func() error {
			next++
			binary.LittleEndian.PutUint64(item, next)
			_, err := f.Add(item)
			return err
		})
		items := sievekv.Uint64s(make([]uint64, batch)...)
		wantAllocations(t, name+": add of many", most.batch, func() error {
			for i := range items {
				next++
				binary.LittleEndian.PutUint64(items[i], next)
			}
			_, err := f.AddMany(items, nil)
			return err
		})
	}
}

// A lookup that reads a block from disk makes memory for the block, and little else.
func TestCosts_allocationsOnDisk(t *testing.T) {
	db, _ := openLarge(t)
	defer func() { must(t, db.Close()) }()
	f, items := db.Bloom("bloom"), uint64(absentItem)
	before := blocksRead(t, db)
	const runs, each = 10, 300
	n := testing.AllocsPerRun(runs, func() {
		for range each {
			items++
			_, err := f.MayContain(sievekv.Uint64(items))
			must(t, err)
		}
	})
	if read := float64(blocksRead(t, db)-before) / (runs + 1); read < each/3 || n > 18*read {
		t.Errorf("%v allocations for %v blocks read by %d lookups, want at most 18 for a block", n, read, each)
	}
}
