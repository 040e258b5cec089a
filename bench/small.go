package main

import (
	"fmt"
	"time"

	"github.com/sievekv/sievekv"
)

const smallAbout = `Many small filters in one store, as one for each user: each is made for 100 items at 1 % and has ten. All is
done by one goroutine and not synced. The cache has 64 MiB. Nothing runs beside it.`

// small measures many filters of ten items.
func small(b *bench) error {
	n := pick(b, uint64(30_000), 200_000, 1_000_000)
	const items = 10
	s, err := b.openStore(&sievekv.Options{Durability: sievekv.NoSync, CacheSize: 64 << 20})
	if err != nil {
		return err
	}
	defer s.end()
	name := func(i uint64) string { return fmt.Sprint("user:", i) }
	many := make([]uint64, items)
	b.progress("making %d filters", n)
	begin := time.Now()
	for i := range n {
		f := s.Bloom(name(i))
		if err := f.Reserve(sievekv.Capacity(100, 0.01), nil); err != nil {
			return err
		}
		for j := range many {
			many[j] = i*items + uint64(j)
		}
		if _, err := f.AddMany(sievekv.Uint64s(many...), nil); err != nil {
			return err
		}
	}
	made := time.Since(begin)
	what := format(float64(n)) + " filters of ten items, "
	b.row(row{what: what + "made", unit: "filters/s", ours: series{perSecond(int(n), made)}})
	x := uint64(1)
	figures, err := b.interleave(pick(b, 3, 7, 15),
		side{"lookups", nsEach(20_000, func(uint64) error {
			i := next(&x, n)
			found, err := s.Bloom(name(i)).MayContain(sievekv.Uint64(i*items + next(&x, items)))
			if err == nil && !found {
				err = fmt.Errorf("filter %d lost an item", i)
			}
			return err
		})},
		side{"adds", nsEach(10_000, func(uint64) error {
			_, err := s.Bloom(name(next(&x, n))).Add(sievekv.Uint64(absent + x))
			return err
		})})
	if err != nil {
		return err
	}
	b.row(row{what: what + "lookup in a random one", unit: "ns", ours: figures[0]})
	b.row(row{what: what + "add to a random one", unit: "ns", ours: figures[1]})
	if err := s.Store().CompactTables(b.ctx); err != nil {
		return err
	}
	metrics, err := s.Store().Metrics()
	if err != nil {
		return err
	}
	b.row(row{what: what + "on disk", unit: "bytes/filter", ours: series{float64(metrics.TableBytes) / float64(n)}})
	b.row(row{what: what + "cache in use", unit: "MiB", ours: series{float64(metrics.CacheUsed) / (1 << 20)}})
	return nil
}
