package tests_test

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

var mergedFilters = flag.Int("mergedfilters", 2, "filters of each kind in TestMerge_rate")

// mergedKind is a type of filters that can be merged.
type mergedKind struct {
	name   string
	make   func(t *testing.T, db *kv.DB, key string) mergedFilter
	layout func(blocks, lines, hashes, linesPerItem uint64) (probe.Layout, error)
}

// mergedFilter is a filter that does not grow.
type mergedFilter struct {
	reserve func(capacity uint64, rate float64) error
	add     func(items [][]byte) error
	merge   func(source string) error
	facts   func() (rate float64, hashes, lines int, err error)
}

func mergedBloom(t *testing.T, db *kv.DB, key string) mergedFilter {
	f := bloomext.New(db, key)
	return mergedFilter{
		reserve: func(capacity uint64, rate float64) error {
			return f.Reserve(bloomext.Config{Capacity: capacity, ErrorRate: rate, NonScaling: true})
		},
		add: func(items [][]byte) error {
			_, err := f.AddMany(items, nil)
			return err
		},
		merge: func(source string) error { return f.Merge(t.Context(), bloomext.New(db, source)) },
		facts: func() (float64, int, int, error) {
			info, err := f.Info()
			return info.ExpectedRate, info.Layers[0].Hashes, info.Layers[0].Lines, err
		},
	}
}

func mergedCounting(t *testing.T, db *kv.DB, key string) mergedFilter {
	f := countingext.New(db, key)
	return mergedFilter{
		reserve: func(capacity uint64, rate float64) error {
			return f.Reserve(countingext.Config{Capacity: capacity, ErrorRate: rate, NonScaling: true})
		},
		add: func(items [][]byte) error {
			_, err := f.AddMany(items, nil)
			return err
		},
		merge: func(source string) error { return f.Merge(t.Context(), countingext.New(db, source)) },
		facts: func() (float64, int, int, error) {
			info, err := f.Info()
			return info.ExpectedRate, info.Layers[0].Hashes, info.Layers[0].Lines, err
		},
	}
}

// rate returns the rate of the filter f, exactly, from which of its cells are set, and what it says itself.
func (k mergedKind) rate(t *testing.T, db *kv.DB, f mergedFilter) (exact, said float64) {
	t.Helper()
	said, hashes, lines, err := f.facts()
	must(t, err)
	must(t, db.Read(func(r kv.Reader) error {
		o, err := r.Lookup([]byte("f"))
		if err != nil {
			return err
		}
		l := o.Layers()[0]
		s := l.Spec()
		layout, err := k.layout(s.Blocks, uint64(s.Lines), uint64(hashes), uint64(lines))
		if err != nil {
			return err
		}
		places := layout.NewFillRate()
		for blk := range s.Blocks {
			first, err := r.Load(o, l, blk)
			if err != nil {
				return err
			}
			places.Add(l.Words(first))
		}
		exact = places.Rate(0)
		return nil
	}))
	return exact, said
}

// A filter that others are merged into until it refuses one has at most the rate that it was made for, exactly, and
// says so. Items that are then added, until it is full, may make the rate of one filter higher, as in any other filter;
// the mean of many, which -mergedfilters 50 compares, is at most the rate asked for, to four standard errors.
func TestMerge_rate(t *testing.T) {
	t.Parallel()
	for _, kind := range []mergedKind{{"bloom", mergedBloom, probe.NewLayout}, {"counting", mergedCounting, probe.NewCounterLayout}} {
		for _, rate := range []float64{0.5, 0.1, 0.01, 1e-3, 1e-4, 1e-6} {
			for _, capacity := range []int{100, 300, 1000, 10_000} {
				t.Run(fmt.Sprintf("%s/%g/%d", kind.name, rate, capacity), func(t *testing.T) {
					mergeMany(t, kind, capacity, rate)
				})
			}
		}
	}
}

func mergeMany(t *testing.T, kind mergedKind, capacity int, rate float64) {
	db := open(t, "", &kv.Options{InMemory: true, Durability: kv.NoSync, Seed: 1, Modules: coreext.With(bloomext.Module(), countingext.Module())})
	random := rand.New(rand.NewPCG(uint64(capacity), 1))
	most := min(rate, 0.25) // what a higher one is lowered to
	var taken, merged, full, squares float64
	filters := float64(*mergedFilters)
	for i := range *mergedFilters {
		f := kind.make(t, db, "f")
		must(t, f.reserve(uint64(capacity), rate))
		n := mergeUntilRefused(t, db, kind, i, capacity, rate, random)
		exact, said := kind.rate(t, db, f)
		if exact > most || said > most {
			t.Errorf("filter %d: merged with %d items it has a rate of %.4g, and says %.4g", i, n, exact, said)
		}
		taken, merged = taken+float64(n)/filters, merged+exact/most/filters
		if err := f.add(numbered(i, n, 2*capacity)); !errors.Is(err, scalableext.ErrFull) {
			t.Fatal(err)
		}
		exact, _ = kind.rate(t, db, f)
		full, squares = full+exact/most/filters, squares+(exact/most)*(exact/most)/filters
		_, err := db.Delete(kv.NoSync, []byte("f"))
		must(t, err)
	}
	deviation := math.Sqrt(max(0, squares-full*full) / filters)
	t.Logf("%.0f of %d items, %.3f of the rate; when full %.3f", taken, capacity, merged, full)
	if taken < 0.7*float64(capacity) {
		t.Errorf("filters for %d items take only %.0f", capacity, taken)
	}
	if *mergedFilters >= 50 && full > 1+4*deviation {
		t.Errorf("when full they have %.4g of the rate, give or take %.2g", full, deviation)
	}
}

// mergeUntilRefused merges filters of up to a sixteenth of the capacity into f until it refuses one. It returns how many
// items it took.
func mergeUntilRefused(t *testing.T, db *kv.DB, kind mergedKind, number, capacity int, rate float64, random *rand.Rand) (taken int) {
	t.Helper()
	f, part := kind.make(t, db, "f"), kind.make(t, db, "part")
	for {
		must(t, part.reserve(uint64(capacity), rate))
		n := 1 + random.IntN(capacity/16)
		must(t, part.add(numbered(number, taken, n)))
		refused := f.merge("part")
		_, err := db.Delete(kv.NoSync, []byte("part"))
		must(t, err)
		switch {
		case errors.Is(refused, scalableext.ErrRate):
			return taken
		case refused != nil:
			t.Fatal(refused)
		}
		taken += n
	}
}

// numbered returns items of a filter; another number has other items.
func numbered(number, from, n int) (items [][]byte) {
	for i := range n {
		items = append(items, binary.LittleEndian.AppendUint64(nil, uint64(number)<<32+uint64(from+i)))
	}
	return items
}
