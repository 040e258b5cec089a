package main

import (
	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv"
)

const addsAbout = `The time of one call that adds or deletes one item of 16 bytes, not synced, by one goroutine, beside a Set
of a key of 16 bytes and a value of 8 in Pebble, the engine below sievekv. All are stored on disk. The items and keys come
in random order, or for "ascending keys" in the order of Pebble's keys, which is easiest for it.`

// adds compares single writes.
func adds(b *bench) error {
	const slice = 50_000
	reps := pick(b, 5, 21, 41)
	all := uint64(reps * slice)
	s, err := b.openStore(nil)
	if err != nil {
		return err
	}
	defer s.end()
	bloom, cuckoo, counting, deleted := s.Bloom("bloom"), s.Cuckoo("cuckoo"), s.Counting("counting"), s.Cuckoo("deleted")
	const capacity = 10_000_000
	for _, err := range []error{
		bloom.Reserve(sievekv.Capacity(capacity, 0.01), &sievekv.BloomConfig{NonScaling: true}),
		cuckoo.Reserve(sievekv.Capacity(capacity, 0.01), &sievekv.CuckooConfig{NonScaling: true}),
		deleted.Reserve(sievekv.Capacity(capacity, 0.01), &sievekv.CuckooConfig{NonScaling: true}),
		counting.Reserve(sievekv.Capacity(capacity, 0.01), &sievekv.CountingConfig{NonScaling: true}),
		fill(deleted, 0, all),
	} {
		if err != nil {
			return err
		}
	}
	raw, err := b.openPebble(pebbleOptions())
	if err != nil {
		return err
	}
	defer raw.end()
	ascending, err := b.openPebble(pebbleOptions())
	if err != nil {
		return err
	}
	defer ascending.end()
	var buf [16]byte
	figures, err := b.interleave(reps,
		side{"Bloom add", nsEach(slice, func(i uint64) error { _, err := bloom.Add(key16(&buf, i)); return err })},
		side{"cuckoo add", nsEach(slice, func(i uint64) error { _, err := cuckoo.Add(key16(&buf, i)); return err })},
		side{"cuckoo delete", nsEach(slice, func(i uint64) error { _, err := deleted.Delete(key16(&buf, i)); return err })},
		side{"counting add", nsEach(slice, func(i uint64) error { _, err := counting.Add(key16(&buf, i)); return err })},
		side{"Pebble", nsEach(slice, func(i uint64) error { return raw.Set(key16(&buf, i), buf[:8], pebble.NoSync) })},
		side{"Pebble, ascending", nsEach(slice, func(i uint64) error {
			return ascending.Set(ascendingKey(&buf, i), buf[:8], pebble.NoSync)
		})})
	if err != nil {
		return err
	}
	for i, limit := range []float64{1.2, 1.5, 1.5, 2} {
		what := []string{"Bloom add", "cuckoo add", "cuckoo delete", "counting add"}[i]
		b.row(row{what: what, unit: "ns", ours: figures[i], peer: "Pebble Set of 24 bytes", theirs: figures[4], must: ratioAtMost(limit)})
		b.row(row{what: what, unit: "ns", ours: figures[i], peer: "the same, ascending keys", theirs: figures[5]})
	}
	return nil
}
