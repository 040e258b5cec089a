package main

import (
	"slices"
	"time"

	"github.com/sievekv/sievekv"
)

const growthAbout = `Bloom filters that are made for a hundred items at 1 % and grow: from a log of their items (docs/GROWTH.md),
and by layers, each twice as large as the one before. Beside them is one that was made for all items. Filling by AddMany and by
single adds, not synced, the work of services included; looking items up; bits for each item; and the slowest of a
thousand adds.`

// growing are the filters that growth compares, by how they grow.
var growing = map[string]*sievekv.BloomConfig{
	"log":     nil,
	"layers":  {GrowthLog: -1},
	"fitting": {GrowthLog: -1},
}

// growth compares filters that grow with one that fits.
func growth(b *bench) error {
	n := pick(b, uint64(300_000), 3_000_000, 10_000_000)
	s, err := b.openStore(&sievekv.Options{Durability: sievekv.NoSync, CacheSize: 1 << 30})
	if err != nil {
		return err
	}
	defer s.end()
	made := func(key string, n uint64) (*sievekv.Bloom, error) {
		f := s.Bloom(key)
		if _, err := f.Drop(); err != nil {
			return nil, err
		}
		capacity := uint64(100)
		if key == "fitting" {
			capacity = n
		}
		return f, f.Reserve(sievekv.Capacity(capacity, 0.01), growing[key])
	}
	repeat := pick(b, 1, 3, 5)
	batches := func(key string) side {
		return side{key, func() (float64, error) {
			f, err := made(key, n)
			if err != nil {
				return 0, err
			}
			begin := processorTime()
			err = fill(f, 0, n)
			return float64((processorTime() - begin).Nanoseconds()) / float64(n), err
		}}
	}
	ones := pick(b, uint64(100_000), million, 3*million)
	slowest := map[string]series{}
	singly := func(key string) side {
		return side{key, func() (float64, error) {
			f, err := made(key, ones)
			if err != nil {
				return 0, err
			}
			begin := processorTime()
			took, err := addSingly(f, ones)
			slowest[key] = append(slowest[key], took)
			return float64((processorTime() - begin).Nanoseconds()) / float64(ones), err
		}}
	}
	for _, c := range []struct {
		what string
		n    uint64
		of   func(key string) side
		must *must
	}{
		{"one add, processor time,", ones, singly, ratioAtMost(1.25)},
		{"an item of a batch, processor time,", n, batches, nil},
	} {
		figures, err := b.interleave(repeat, c.of("log"), c.of("layers"), c.of("fitting"))
		if err != nil {
			return err
		}
		what := c.what + " of " + format(float64(c.n)) + " items"
		b.row(row{what: what, unit: "ns", ours: figures[0], peer: "by layers", theirs: figures[1], must: c.must, reduced: c.n < million})
		b.row(row{what: what, unit: "ns", ours: figures[0], peer: "filter that fits", theirs: figures[2]})
	}
	b.row(row{what: "one add, p99.9", unit: "µs", ours: slowest["log"], peer: "by layers", theirs: slowest["layers"], must: ratioAtMost(2), reduced: ones < million})
	return b.grown(s, pick(b, n, 10*million, 10*million), made)
}

// addSingly adds n items one by one. It returns the time, in microseconds, that 999 of 1000 adds do not exceed.
func addSingly(f *sievekv.Bloom, n uint64) (p999 float64, err error) {
	took := make([]time.Duration, n)
	var buf [16]byte
	for i := range n {
		begin := time.Now()
		if _, err := f.Add(key16(&buf, i)); err != nil {
			return 0, err
		}
		took[i] = time.Since(begin)
	}
	slices.Sort(took)
	return float64(took[n*999/1000].Nanoseconds()) / 1000, nil
}

// grown compares filters that were filled.
func (b *bench) grown(s *store, n uint64, made func(key string, n uint64) (*sievekv.Bloom, error)) error {
	filters, infos := map[string]*sievekv.Bloom{}, map[string]sievekv.BloomInfo{}
	for key := range growing {
		f, err := made(key, n)
		if err == nil {
			err = fill(f, 0, n)
		}
		if err == nil {
			err = s.Store().Compact(b.ctx) // ends the growth
		}
		if err == nil {
			err = askAll(f, n) // reads every block
		}
		if err != nil {
			return err
		}
		if filters[key] = f; err == nil {
			infos[key], err = f.Info()
		}
		if err != nil {
			return err
		}
	}
	x := uint64(1)
	var buf [16]byte
	for _, kind := range []struct {
		what string
		base uint64
		must *must
	}{{"a present item", 0, nil}, {"an absent item", absent, ratioAtMost(1.5)}} {
		lookup := func(key string) side {
			return side{key + ", " + kind.what, nsEach(100_000, func(uint64) error {
				_, err := filters[key].MayContain(key16(&buf, kind.base+next(&x, n)))
				return err
			})}
		}
		figures, err := b.interleave(pick(b, 7, 21, 41), lookup("log"), lookup("layers"), lookup("fitting"))
		if err != nil {
			return err
		}
		what := format(float64(n)) + " items, lookup of " + kind.what
		b.row(row{what: what, unit: "ns", ours: figures[0], peer: "by layers", theirs: figures[1]})
		b.row(row{what: what, unit: "ns", ours: figures[0], peer: "filter that fits", theirs: figures[2], must: kind.must})
	}
	what := format(float64(n)) + " items, size"
	bits := func(key string) series { return series{float64(infos[key].Bytes) * 8 / float64(n)} }
	b.row(row{what: what, unit: "bits/item", ours: bits("log"), peer: "by layers", theirs: bits("layers"), must: figureAtMost(14)})
	b.row(row{what: what, unit: "bits/item", ours: bits("log"), peer: "filter that fits", theirs: bits("fitting")})
	b.note("The filter that grew from a log has %d layers, the one that grew by layers %d.", len(infos["log"].Layers), len(infos["layers"].Layers))
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
