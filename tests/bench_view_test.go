package tests_test

import (
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// viewBench is a store on disk with a filter, and numbers for what is written to it.
type viewBench struct {
	db   *kv.DB
	f    *bloomext.Filter
	next uint64
	took []float64 // ns of each round
}

const viewBenchCapacity = 10_000_000

func newViewBench(b *testing.B) *viewBench {
	b.Helper()
	db, err := kv.Open(b.TempDir(), &kv.Options{
		Durability: kv.NoSync, Seed: modelSeed, BallastSize: -1,
		Logger: slog.New(slog.DiscardHandler), Modules: coreext.With(bloomext.Module()),
	})
	if err != nil {
		b.Fatal(err)
	}
	s := &viewBench{db: db, f: bloomext.New(db, "f")}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	if err := s.f.Reserve(bloomext.Config{Capacity: viewBenchCapacity, ErrorRate: 0.01, NonScaling: true}); err != nil {
		b.Fatal(err)
	}
	items := make([]uint64, 100_000) // every block is there, and in memory
	for i := range items {
		items[i] = uint64(i)
	}
	s.next = uint64(len(items))
	if _, err := s.f.AddMany(scalableext.Uint64s(items...), make([]bool, len(items))); err != nil {
		b.Fatal(err)
	}
	for i := range uint64(1000) {
		if err := s.set(i); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

func (s *viewBench) add(i uint64) error {
	_, err := s.f.Add(scalableext.Uint64(i))
	return err
}

// set writes one of a thousand strings.
func (s *viewBench) set(i uint64) error {
	value := strconv.AppendUint(nil, i, 10)
	_, err := s.db.Set(kv.NoSync, strconv.AppendUint([]byte("key "), i%1000, 10), value, kv.SetOptions{})
	return err
}

// run makes a round of writes, and notes the time it took.
func (s *viewBench) run(n uint64, write func(i uint64) error) error {
	start := time.Now()
	for end := s.next + n; s.next < end; s.next++ {
		if err := write(s.next); err != nil {
			return err
		}
	}
	s.took = append(s.took, float64(time.Since(start).Nanoseconds()))
	return nil
}

// BenchmarkAdd_view compares adds of new items, and overwrites of strings, in a store with an earlier view, with the
// same in a store without one: it prints ns of each and their ratio, view/no-view. An operation is a round of a hundred
// writes in both stores, which take turns at being the first. Times are medians of rounds: on a busy machine a few
// rounds take many times as long.
func BenchmarkAdd_view(b *testing.B) {
	for _, bench := range []struct {
		name  string
		write func(s *viewBench, i uint64) error
	}{{"add", (*viewBench).add}, {"set", (*viewBench).set}} {
		b.Run(bench.name, func(b *testing.B) {
			plain, viewed := newViewBench(b), newViewBench(b)
			view, err := viewed.db.NewView(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			const writes = 100
			for b.Loop() {
				stores := [2]*viewBench{plain, viewed}
				if len(plain.took)%2 == 1 {
					stores = [2]*viewBench{viewed, plain}
				}
				for _, s := range stores {
					err := s.run(writes, func(i uint64) error { return bench.write(s, i) })
					if errors.Is(err, scalableext.ErrFull) {
						b.Fatalf("the filter is full after %d items: give a smaller -benchtime", s.next)
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			if info, err := viewed.f.In(view).Info(); err != nil || info.Items > 100_000 {
				b.Errorf("the view has %d items, %v, more than when it was taken", info.Items, err)
			}
			view.Rollback()
			b.ReportMetric(median(plain.took)/writes, "ns/write")
			b.ReportMetric(median(viewed.took)/writes, "ns/write-view")
			b.ReportMetric(median(viewed.took)/median(plain.took), "view/no-view")
		})
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
