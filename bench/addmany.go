package main

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/greatroar/blobloom"

	"github.com/sievekv/sievekv"
)

const addManyAbout = `The time that an item takes when a Go program fills a Bloom filter by AddMany, 16,384 items of 8 bytes a
call, 1 % false positives, not synced. The filter of sievekv is stored on disk meanwhile; blobloom's is in memory only.`

// addMany fills filters with numbers.
func addMany(b *bench) error {
	for _, c := range []struct {
		capacity uint64
		items    uint64
		must     float64
		reps     int
	}{
		{1e6, 1e6, 200, pick(b, 5, 9, 15)},
		{3e7, pick(b, uint64(3e6), 3e7, 3e7), 350, pick(b, 1, 3, 5)},
	} {
		// Each repetition has items of its own, which the filter has not seen.
		start := uint64(0)
		s, err := b.interleave(c.reps,
			side{"sievekv", func() (float64, error) { start += c.items; return b.fillStored(c.capacity, c.items, start) }},
			side{"blobloom", func() (float64, error) { return fillBlobloom(c.capacity, c.items, start) }})
		if err != nil {
			return err
		}
		what := fmt.Sprintf("%s items into a filter for %s", format(float64(c.items)), format(float64(c.capacity)))
		b.row(row{
			what: what, unit: "ns/item", ours: s[0], peer: "blobloom with XXH64", theirs: s[1], must: figureAtMost(c.must),
			reduced: c.items < c.capacity,
		})
	}
	return nil
}

// manyItems is how many items a call of AddMany has.
const manyItems = 16384

// fillStored fills a new filter on disk, and returns ns per item.
func (b *bench) fillStored(capacity, n, first uint64) (float64, error) {
	s, err := b.openStore(nil)
	if err != nil {
		return 0, err
	}
	defer s.end()
	f := s.Bloom("f")
	if err := f.Reserve(sievekv.Capacity(capacity, 0.01), &sievekv.BloomConfig{NonScaling: true}); err != nil {
		return 0, err
	}
	items := make([]uint64, manyItems)
	begin := time.Now()
	for at := uint64(0); at < n; at += manyItems {
		m := min(manyItems, n-at)
		for i := range m {
			items[i] = first + at + i
		}
		if _, err := f.AddMany(sievekv.Uint64s(items[:m]...), nil); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(begin).Nanoseconds()) / float64(n), nil
}

// fillBlobloom fills a filter in memory, and returns ns per item.
func fillBlobloom(capacity, n, first uint64) (float64, error) {
	f := blobloom.NewOptimized(blobloom.Config{Capacity: capacity, FPRate: 0.01})
	var item [8]byte
	begin := time.Now()
	for i := range n {
		binary.LittleEndian.PutUint64(item[:], first+i)
		f.Add(xxhash.Sum64(item[:]))
	}
	return float64(time.Since(begin).Nanoseconds()) / float64(n), nil
}
