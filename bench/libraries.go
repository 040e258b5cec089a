package main

import (
	"fmt"

	linvon "github.com/linvon/cuckoo-filter"
	seiflotfy "github.com/seiflotfy/cuckoofilter"
	boom "github.com/tylertreat/BoomFilters"

	"github.com/sievekv/sievekv"
)

const librariesAbout = `Cuckoo and counting filters of sievekv beside filters of libraries that keep them in memory only, with a
million items of 16 bytes (with --quick 200,000). Adds and deletes of sievekv are stored, not synced. Cuckoo filters: sievekv and linvon have
fingerprints of 16 bits, seiflotfy of 8, BoomFilters is asked for a rate of 0.1 %. Counting filters have a rate of 1 %. The filter of go-zero is not among them,
nor among the Bloom filters: it keeps its bits in a Redis server, and runs a Lua script there for each item.`

// deletable is a filter from which items can be deleted.
type deletable struct {
	name             string
	add, has, remove func(item []byte) (bool, error)
	stored           sievekv.Filter // of sievekv, which is filled by AddMany
}

// plain makes a function without errors fit.
func plain(op func(item []byte) bool) func(item []byte) (bool, error) {
	return func(item []byte) (bool, error) { return op(item), nil }
}

// libraries compares filters from which items can be deleted.
func libraries(b *bench) error {
	s, err := b.openStore(nil)
	if err != nil {
		return err
	}
	defer s.end()
	n := pick[uint](b, 200_000, million, million)
	cuckoo, counting := s.Cuckoo("cuckoo"), s.Counting("counting")
	if err := cuckoo.Reserve(sievekv.Capacity(uint64(n), 1e-3), nil); err != nil {
		return err
	}
	if err := counting.Reserve(sievekv.Capacity(uint64(n), 0.01), nil); err != nil {
		return err
	}
	theirs := seiflotfy.NewFilter(n)
	table := linvon.NewFilter(4, 16, n, linvon.TableTypeSingle)
	other := boom.NewCuckooFilter(n, 1e-3)
	counters := boom.NewDefaultCountingBloomFilter(n, 0.01)
	if err := b.compareDeletable("cuckoo", []deletable{
		{"sievekv", cuckoo.Add, cuckoo.MayContain, cuckoo.Delete, cuckoo},
		{"seiflotfy", plain(theirs.Insert), plain(theirs.Lookup), plain(theirs.Delete), nil},
		{"linvon", plain(table.Add), plain(table.Contain), plain(table.Delete), nil},
		{"BoomFilters", plain(func(item []byte) bool { return other.Add(item) == nil }), plain(other.Test), plain(other.TestAndRemove), nil},
	}); err != nil {
		return err
	}
	return b.compareDeletable("counting", []deletable{
		{"sievekv", counting.Add, counting.MayContain, counting.Delete, counting},
		{"BoomFilters", plain(func(item []byte) bool { counters.Add(item); return true }), plain(counters.Test), plain(counters.TestAndRemove), nil},
	})
}

// compareDeletable fills filters, the first of them sievekv's, and compares hits, misses, and deleting and adding
// again.
func (b *bench) compareDeletable(kind string, filters []deletable) error {
	n := pick[uint64](b, 200_000, million, million)
	var buf [16]byte
	for _, f := range filters {
		b.progress("filling %s, %s", kind, f.name)
		if f.stored != nil {
			if err := fill(f.stored, 0, n); err != nil {
				return err
			}
			continue
		}
		refused := 0
		for i := range n {
			added, err := f.add(key16(&buf, i))
			if err != nil {
				return err
			}
			if !added {
				refused++
			}
		}
		if refused > 0 {
			b.note("In the %s filter of %s, %d of %d items had no room.", kind, f.name, refused, n)
		}
	}
	const slice = 100_000
	for _, op := range []struct {
		name string
		n    int
		run  func(f deletable) func(i uint64) error
	}{
		{"lookup of a present item", slice, func(f deletable) func(uint64) error {
			return func(i uint64) error { _, err := f.has(key16(&buf, i%n)); return err }
		}},
		{"lookup of an absent item", slice, func(f deletable) func(uint64) error {
			return func(i uint64) error { _, err := f.has(key16(&buf, absent+i)); return err }
		}},
		{"delete, and add again", slice / 20, func(f deletable) func(uint64) error {
			return func(i uint64) error {
				item := key16(&buf, i%n)
				if _, err := f.remove(item); err != nil {
					return err
				}
				_, err := f.add(item)
				return err
			}
		}},
	} {
		var sides []side
		for _, f := range filters {
			sides = append(sides, side{kind + ", " + f.name, nsEach(op.n, op.run(f))})
		}
		figures, err := b.interleave(pick(b, 5, 21, 41), sides...)
		if err != nil {
			return err
		}
		for i, f := range filters[1:] {
			b.row(row{what: fmt.Sprintf("%s: %s", kind, op.name), unit: "ns", ours: figures[0], peer: f.name, theirs: figures[i+1]})
		}
	}
	return nil
}
