package main

import (
	"fmt"
	"time"

	"github.com/bits-and-blooms/bloom/v3"
	"github.com/cespare/xxhash/v2"
	"github.com/greatroar/blobloom"

	"github.com/sievekv/sievekv"
)

const lookupsAbout = `The time of MayContain for an item of 16 bytes, by one goroutine, in a Bloom filter whose blocks are all
in memory, 1 % false positives. The other libraries have the same items in memory; blobloom is given the XXH64 of the item,
and computing that is in its time.`

// lookups compares lookups of random items.
func lookups(b *bench) error {
	for _, c := range []struct {
		n               uint64
		present, absent float64 // what must be reached
	}{{1e6, 1, 0.7}, {pick(b, uint64(5e6), 3e7, 3e7), 1, 1}} {
		if err := b.lookupsOf(c.n, ratioAtMost(c.present), ratioAtMost(c.absent), b.mode == quickMode && c.n > 1e6); err != nil {
			return err
		}
	}
	return nil
}

// lookupsOf compares lookups in filters of n items.
func (b *bench) lookupsOf(n uint64, presentMust, absentMust *must, reduced bool) error {
	filters, err := b.fullFilters(n, n <= million || b.mode == fullMode)
	if err != nil {
		return err
	}
	defer filters.end()
	slice := 400_000 // lookups in turn: about a hundredth of a second
	reps := pick(b, 9, 41, 81)
	for _, kind := range []struct {
		name string
		base uint64
		must *must
	}{{"present", 0, presentMust}, {"absent", absent, absentMust}} {
		sides := []side{
			{"sievekv", func() (float64, error) { return filters.ours(kind.base, slice) }},
			{"blobloom", func() (float64, error) { return filters.blobloom(kind.base, slice) }},
		}
		if filters.bits != nil {
			sides = append(sides, side{"bits-and-blooms", func() (float64, error) { return filters.bitsAndBlooms(kind.base, slice) }})
		}
		s, err := b.interleave(reps, sides...)
		if err != nil {
			return err
		}
		what := fmt.Sprintf("%s item, filter of %s", kind.name, format(float64(n)))
		b.row(row{
			what: what, unit: "ns", ours: s[0], peer: "blobloom with XXH64", theirs: s[1], must: kind.must, reduced: reduced,
		})
		if filters.bits != nil {
			b.row(row{what: what, unit: "ns", ours: s[0], peer: "bits-and-blooms", theirs: s[2]})
		}
	}
	return nil
}

// fullFilters are filters that have the same items.
type fullFilters struct {
	store *store
	f     *sievekv.Bloom
	blob  *blobloom.Filter
	bits  *bloom.BloomFilter
	n     uint64
	x     uint64 // random numbers
}

// fullFilters fills filters with n items, bits-and-blooms' only if it is wanted.
func (b *bench) fullFilters(n uint64, withBits bool) (*fullFilters, error) {
	s, err := b.openStore(&sievekv.Options{Durability: sievekv.NoSync, CacheSize: 1 << 30})
	if err != nil {
		return nil, err
	}
	t := &fullFilters{
		store: s, f: s.Bloom("f"), n: n, x: 1,
		blob: blobloom.NewOptimized(blobloom.Config{Capacity: n, FPRate: 0.01}),
	}
	if withBits {
		t.bits = bloom.NewWithEstimates(uint(n), 0.01)
	}
	b.progress("filling filters of %d", n)
	if err := t.f.Reserve(sievekv.Capacity(n, 0.01), &sievekv.BloomConfig{NonScaling: true}); err != nil {
		return nil, err
	}
	if err := fill(t.f, 0, n); err != nil {
		return nil, err
	}
	var buf [16]byte
	for i := range n {
		item := key16(&buf, i)
		t.blob.Add(xxhash.Sum64(item))
		if withBits {
			t.bits.Add(item)
		}
	}
	_, err = t.ours(0, int(n)) // reads every block
	return t, err
}

func (t *fullFilters) end() { t.store.end() }

// The loops differ in the lookup alone. No function value is called in them, which would add to the time of each.

func (t *fullFilters) ours(base uint64, lookups int) (float64, error) {
	var buf [16]byte
	begin := time.Now()
	for range lookups {
		if _, err := t.f.MayContain(key16(&buf, base+next(&t.x, t.n))); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(begin).Nanoseconds()) / float64(lookups), nil
}

func (t *fullFilters) blobloom(base uint64, lookups int) (float64, error) {
	var buf [16]byte
	found := 0
	begin := time.Now()
	for range lookups {
		if t.blob.Has(xxhash.Sum64(key16(&buf, base+next(&t.x, t.n)))) {
			found++
		}
	}
	return float64(time.Since(begin).Nanoseconds()) / float64(lookups), checkFound(base, found, lookups)
}

func (t *fullFilters) bitsAndBlooms(base uint64, lookups int) (float64, error) {
	var buf [16]byte
	found := 0
	begin := time.Now()
	for range lookups {
		if t.bits.Test(key16(&buf, base+next(&t.x, t.n))) {
			found++
		}
	}
	return float64(time.Since(begin).Nanoseconds()) / float64(lookups), checkFound(base, found, lookups)
}

// checkFound checks that a loop has done what it should.
func checkFound(base uint64, found, lookups int) error {
	if base == 0 && found != lookups || base != 0 && found > lookups/20 {
		return fmt.Errorf("found %d of %d items", found, lookups)
	}
	return nil
}
