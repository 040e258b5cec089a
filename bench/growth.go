package main

import (
	"time"

	"github.com/sievekv/sievekv"
)

const growthAbout = `A Bloom filter that is made for a thousand items and grows by layers, each twice as large as the one
before, beside one that was made for all items: filling it by AddMany, looking items up, and bits for each item.`

// growth compares a filter that grows with one that fits.
func growth(b *bench) error {
	n := pick(b, uint64(300_000), 3_000_000, 10_000_000)
	s, err := b.openStore(&sievekv.Options{Durability: sievekv.NoSync, CacheSize: 1 << 30})
	if err != nil {
		return err
	}
	defer s.end()
	made := func(capacity uint64) func() (float64, error) {
		return func() (float64, error) {
			f := s.Bloom(format(float64(capacity)))
			if _, err := f.Drop(); err != nil {
				return 0, err
			}
			if err := f.Reserve(sievekv.BloomConfig{Capacity: capacity, ErrorRate: 0.01}); err != nil {
				return 0, err
			}
			begin := time.Now()
			err := fill(f, 0, n)
			return float64(time.Since(begin).Nanoseconds()) / float64(n), err
		}
	}
	filled, err := b.interleave(pick(b, 1, 3, 5), side{"growing", made(1000)}, side{"fitting", made(n)})
	if err != nil {
		return err
	}
	what, peer := " of "+format(float64(n))+" items", "filter that fits"
	b.row(row{what: "filling" + what, unit: "ns/item", ours: filled[0], peer: peer, theirs: filled[1]})
	grown, fitting := s.Bloom(format(1000)), s.Bloom(format(float64(n)))
	x := uint64(1)
	var buf [16]byte
	for _, kind := range []struct {
		what string
		base uint64
	}{{"a present item", 0}, {"an absent item", absent}} {
		lookup := func(f *sievekv.Bloom) func() (float64, error) {
			return nsEach(100_000, func(uint64) error { _, err := f.MayContain(key16(&buf, kind.base+next(&x, n))); return err })
		}
		for _, f := range []*sievekv.Bloom{grown, fitting} { // reads every block
			if err := askAll(f, n); err != nil {
				return err
			}
		}
		figures, err := b.interleave(pick(b, 7, 21, 41), side{"growing, " + kind.what, lookup(grown)}, side{"fitting, " + kind.what, lookup(fitting)})
		if err != nil {
			return err
		}
		b.row(row{what: "lookup of " + kind.what, unit: "ns", ours: figures[0], peer: peer, theirs: figures[1]})
	}
	big, err := grown.Info()
	if err != nil {
		return err
	}
	fit, err := fitting.Info()
	if err != nil {
		return err
	}
	bits := func(bytes uint64) series { return series{float64(bytes) * 8 / float64(n)} }
	b.row(row{what: "size", unit: "bits/item", ours: bits(big.Bytes), peer: peer, theirs: bits(fit.Bytes)})
	b.note("The filter that grew has %d layers.", len(big.Layers))
	return nil
}

// askAll looks up n items.
func askAll(f *sievekv.Bloom, n uint64) error {
	var buf [16]byte
	for i := range n {
		if _, err := f.MayContain(key16(&buf, i)); err != nil {
			return err
		}
	}
	return nil
}
