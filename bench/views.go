package main

import (
	"github.com/sievekv/sievekv"
)

const viewsAbout = `What a snapshot (View) costs in a Bloom filter for ten million items that has one million: to take one and
look up one item in it; a lookup in one, beside the same lookup outside of it, before and after adds have changed blocks;
and an add, not synced, while one is open, beside an add in a store without.`

// views measures snapshots.
func views(b *bench) error {
	n := pick(b, uint64(200_000), 1_000_000, 1_000_000)
	stores := make([]*store, 2)
	for i := range stores {
		s, err := b.openStore(nil)
		if err != nil {
			return err
		}
		defer s.end()
		stores[i] = s
		if err := s.Bloom("f").Reserve(sievekv.Capacity(10*million, 0.01), &sievekv.BloomConfig{NonScaling: true}); err != nil {
			return err
		}
		if err := fill(s.Bloom("f"), 0, n); err != nil {
			return err
		}
	}
	viewed, plain := stores[0], stores[1]
	live, other := viewed.Bloom("f"), plain.Bloom("f")
	var buf [16]byte
	x := uint64(1)
	taken, err := b.interleave(pick(b, 3, 9, 15), side{"taking snapshots", nsEach(2000, func(uint64) error {
		return viewed.View(b.ctx, func(v *sievekv.Snapshot) error {
			_, err := v.Bloom("f").MayContain(key16(&buf, next(&x, n)))
			return err
		})
	})})
	if err != nil {
		return err
	}
	b.row(row{what: "a snapshot taken, one lookup in it, and its end", unit: "ns", ours: taken[0]})
	return viewed.View(b.ctx, func(v *sievekv.Snapshot) error {
		inside := v.Bloom("f")
		added := [2]uint64{absent, absent}
		add := func(i int, f *sievekv.Bloom) func(uint64) error {
			return func(uint64) error {
				added[i]++
				_, err := f.Add(key16(&buf, added[i]))
				return err
			}
		}
		look := func(f *sievekv.Bloom) func() (float64, error) {
			return nsEach(100_000, func(uint64) error { _, err := f.MayContain(key16(&buf, next(&x, n))); return err })
		}
		unchanged, err := b.interleave(pick(b, 5, 15, 31), side{"lookup in a snapshot", look(inside)}, side{"lookup outside", look(live)})
		if err != nil {
			return err
		}
		b.row(row{what: "lookup in a snapshot", unit: "ns", ours: unchanged[0], peer: "outside of it", theirs: unchanged[1]})
		figures, err := b.interleave(pick(b, 5, 15, 31),
			side{"lookup in a snapshot", nsEach(5_000, func(uint64) error { _, err := inside.MayContain(key16(&buf, next(&x, n))); return err })},
			side{"lookup outside", look(live)},
			side{"add beside a snapshot", nsEach(20_000, add(0, live))},
			side{"add without", nsEach(20_000, add(1, other))})
		if err != nil {
			return err
		}
		b.row(row{what: "the same while adds change its blocks", unit: "ns", ours: figures[0], peer: "outside of it", theirs: figures[1]})
		b.row(row{what: "add while a snapshot is open", unit: "ns", ours: figures[2], peer: "without one", theirs: figures[3]})
		return nil
	})
}
