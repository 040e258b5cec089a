package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/sievekv/sievekv"
)

const randomAbout = `Adds of random new items to a Bloom filter for 100 million items, 135 MB, behind a cache of 64 MiB: 16
goroutines whose adds are synced before they return, and two whose adds are not synced. p99.9 is the time that 999 of 1000
adds do not exceed.`

// random measures adds to a filter that is larger than the cache.
func random(b *bench) error {
	const capacity = 100_000_000
	s, err := b.openStore(nil)
	if err != nil {
		return err
	}
	defer s.end()
	if err := s.Bloom("f").Reserve(sievekv.Capacity(capacity, 0.01), &sievekv.BloomConfig{NonScaling: true}); err != nil {
		return err
	}
	filled := pick(b, uint64(2e6), 3e7, 5e7)
	b.progress("filling")
	if err := fill(s.Bloom("f"), 0, filled); err != nil {
		return err
	}
	if err := s.Store().CompactTables(b.ctx); err != nil {
		return err
	}
	if err := s.reopen(&sievekv.Options{CacheSize: 64 << 20}); err != nil {
		return err
	}
	reduced := filled < 30_000_000
	b.note("Before, the filter had %s items.", format(float64(filled)))
	n := filled
	var runs [2]latencies
	during := pick(b, time.Second, 5*time.Second, 15*time.Second)
	sides := make([]side, 2)
	kinds := []struct {
		level      sievekv.Durability
		goroutines int
		must       float64
	}{{sievekv.Always, 16, 74_000}, {sievekv.NoSync, 2, 144_000}}
	for i, kind := range kinds {
		f := s.Bloom("f").With(kind.level)
		sides[i] = side{kind.level.String(), func() (float64, error) {
			first := n
			n += 1 << 30 // no other run has these items
			return runs[i].run(kind.goroutines, during, first, func(item []byte) error {
				_, err := f.Add(item)
				return err
			})
		}}
	}
	figures, err := b.interleave(pick(b, 1, 3, 5), sides...)
	if err != nil {
		return err
	}
	for i, kind := range kinds {
		what := fmt.Sprintf("%d goroutines, %s, ", kind.goroutines, kind.level)
		b.row(row{what: what + "adds", unit: "adds/s", ours: figures[i], must: figureAtLeast(kind.must), reduced: reduced})
		b.row(row{what: what + "median", unit: "ms", ours: runs[i].median})
		b.row(row{what: what + "p99.9", unit: "ms", ours: runs[i].p999, must: figureAtMost(1), reduced: reduced})
		b.row(row{what: what + "longest", unit: "ms", ours: runs[i].longest, must: figureAtMost(10), reduced: reduced})
	}
	return nil
}

// latencies are the times of single operations, of each run.
type latencies struct{ median, p999, longest series } // ms

// run has goroutines add items for a time, each others, and returns how many a second.
func (l *latencies) run(goroutines int, during time.Duration, first uint64, add func(item []byte) error) (float64, error) {
	var all []time.Duration
	took := make([][]time.Duration, goroutines)
	for g := range took { // room for 400,000 a second, so that no add has to make it
		took[g] = make([]time.Duration, 0, int(during.Seconds()*400_000)/goroutines)
	}
	perSec, err := inGoroutines(goroutines, during, func(g int, _ *uint64) error {
		var buf [16]byte
		item := key16(&buf, first+uint64(len(took[g])*goroutines+g))
		begin := time.Now()
		err := add(item)
		took[g] = append(took[g], time.Since(begin))
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, t := range took {
		all = append(all, t...)
	}
	slices.Sort(all)
	ms := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
	l.median = append(l.median, ms(percentile(all, 0.5)))
	l.p999 = append(l.p999, ms(percentile(all, 0.999)))
	l.longest = append(l.longest, ms(all[len(all)-1]))
	return perSec, nil
}
