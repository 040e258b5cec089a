package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/sievekv/sievekv/guard"
)

const guardAbout = `What package guard takes before a database, by one goroutine. A Get of a warm value asks the filter and reads the
value with its times; beside it the Get of a string of the same length, in the same store. A Get of an id that the filter
refuses reads no more. The filter has a million ids at 1 %, ids have 12 bytes, values 100. Of a thousand warm ids, all that a
Get reads is in the caches of the processor; of ten thousand, the filter waits for memory once more than the store does.`

// guards measures lookups by a guard.
func guards(b *bench) error {
	n := pick(b, 100_000, int(million), int(million))
	const warm = 10_000
	s, err := b.openStore(nil)
	if err != nil {
		return err
	}
	defer s.end()
	value := make([]byte, 100)
	g, err := guard.New(s.DB, "users", guard.Options{
		Capacity: million, Logger: quiet(nil).Logger,
		Load: func(context.Context, string) ([]byte, error) { return value, nil },
	})
	if err != nil {
		return err
	}
	defer g.Close()
	b.progress("filling the filter of a guard with %d ids", n)
	if err := g.Rebuild(b.ctx, guardIDs(n)); err != nil {
		return err
	}
	if _, err := g.Warm(b.ctx, guardIDs(warm)); err != nil {
		return err
	}
	here, keys := make([]string, warm), make([]string, warm)
	for i := range here {
		here[i], keys[i] = guardID(i), "row:"+guardID(i)
		if err := s.Set(keys[i], value); err != nil {
			return err
		}
	}
	gone, err := refusedIDs(b, g, n, 1000)
	if err != nil {
		return err
	}
	const slice = 50_000
	reps, reduced := pick(b, 9, 41, 81), b.mode == quickMode
	for _, of := range []struct {
		ids  int
		must *must
	}{{1000, ratioAtMost(1.3)}, {warm, nil}} {
		figures, err := b.interleave(reps,
			side{"Get of a guard", nsEach(slice, func(i uint64) error { _, err := g.Get(b.ctx, here[i%uint64(of.ids)]); return err })},
			side{"Get of the store", nsEach(slice, func(i uint64) error { _, err := s.Get(keys[i%uint64(of.ids)]); return err })})
		if err != nil {
			return err
		}
		b.row(row{
			what: fmt.Sprintf("Get of a warm value, one of %s", format(float64(of.ids))), unit: "ns", ours: figures[0],
			peer: "Get of the store", theirs: figures[1], must: of.must, reduced: reduced,
		})
	}
	figures, err := b.interleave(reps, side{"refused Get", nsEach(10*slice, func(i uint64) error {
		if _, err := g.Get(b.ctx, gone[i%uint64(len(gone))]); err != guard.ErrNotFound {
			return fmt.Errorf("an id that is not there: %w", err)
		}
		return nil
	})})
	if err != nil {
		return err
	}
	b.row(row{what: "Get of an id that the filter refuses", unit: "ns", ours: figures[0], must: figureAtMost(100), reduced: reduced})
	return nil
}

func guardID(i int) string { return fmt.Sprintf("user%08d", i) }

func guardIDs(n int) func(yield func(string, error) bool) {
	return func(yield func(string, error) bool) {
		for i := range n {
			if !yield(guardID(i), nil) {
				return
			}
		}
	}
}

// refusedIDs returns ids from a number on that the filter of a guard refuses.
func refusedIDs(b *bench, g *guard.Guard, from, n int) (ids []string, err error) {
	for i := from; len(ids) < n; i++ {
		before := g.Stats().Refused
		if _, err := g.Get(b.ctx, guardID(i)); g.Stats().Refused == before {
			continue // a false positive
		} else if !errors.Is(err, guard.ErrNotFound) {
			return nil, fmt.Errorf("looking up an id that is not there: %w", err)
		}
		ids = append(ids, guardID(i))
	}
	return ids, nil
}
