package main

import (
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv"
)

const levelsAbout = `Adds a second of new items to one Bloom filter for 100 million items, by 1 to 256 goroutines, at the three
levels of durability: always (synced before the add returns), everysec (synced once a second) and no. Beside it is a Pebble
in which the same goroutines Set 24 bytes: synced beside always, otherwise not.`

// levels measures adds at each level of durability.
func levels(b *bench) error {
	s, err := b.openStore(nil)
	if err != nil {
		return err
	}
	defer s.end()
	if err := s.Bloom("f").Reserve(sievekv.Capacity(100_000_000, 0.01), &sievekv.BloomConfig{NonScaling: true}); err != nil {
		return err
	}
	raw, err := b.openPebble(pebbleOptions())
	if err != nil {
		return err
	}
	defer raw.end()
	during, reps := pick(b, 150*time.Millisecond, 500*time.Millisecond, time.Second), pick(b, 1, 3, 5)
	p := picture{name: "levels", title: "Adds of new items by number of goroutines and durability", x: "goroutines", y: "adds per second", log: true}
	for _, level := range []sievekv.Durability{sievekv.Always, sievekv.EverySec, sievekv.NoSync} {
		f := s.Bloom("f").With(level)
		sync, peer := pebble.NoSync, "Pebble Set, not synced"
		if level == sievekv.Always {
			sync, peer = pebble.Sync, "Pebble Set, synced"
		}
		ours, theirs := line{name: "sievekv, " + level.String()}, line{name: peer}
		for _, goroutines := range pick(b, []int{1, 16, 256}, []int{1, 4, 16, 64, 256}, []int{1, 2, 4, 8, 16, 32, 64, 128, 256}) {
			figures, err := b.interleave(reps,
				side{level.String(), func() (float64, error) {
					return inGoroutines(goroutines, during, func(_ int, x *uint64) error {
						_, err := f.Add(sievekv.Uint64(next(x, 1<<62)))
						return err
					})
				}},
				side{peer, func() (float64, error) {
					return inGoroutines(goroutines, during, func(_ int, x *uint64) error {
						var key [16]byte
						return raw.Set(key16(&key, next(x, 1<<62)), key[:8], sync)
					})
				}})
			if err != nil {
				return err
			}
			b.row(row{
				what: fmt.Sprintf("%s, %d goroutines", level, goroutines), unit: "adds/s", ours: figures[0], peer: peer, theirs: figures[1],
			})
			ours.add(float64(goroutines), figures[0].median())
			theirs.add(float64(goroutines), figures[1].median())
		}
		p.lines = append(p.lines, ours)
		if level != sievekv.EverySec {
			p.lines = append(p.lines, theirs)
		}
	}
	b.plot(p)
	return nil
}
