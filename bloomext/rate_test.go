package bloomext_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// fillUp adds distinct items, from the given one on, until the filter is full, and returns how many it gave to the
// filter.
func fillUp(t *testing.T, f *bloomext.Filter, from uint64) int {
	t.Helper()
	items, added := make([]uint64, 1000), make([]bool, 1000)
	for n := 0; ; n += len(items) {
		for i := range items {
			items[i] = from + uint64(n+i)
		}
		_, err := f.AddMany(scalableext.Uint64s(items...), added)
		if errors.Is(err, scalableext.ErrFull) {
			m := firstLeft(t, err)
			if slices.Contains(added[m:], true) {
				t.Errorf("items after the %dth of a batch, which had no room, are added", m)
			}
			return n + m
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// firstLeft returns the number of items of a batch before the first that was not added.
func firstLeft(t *testing.T, err error) int {
	t.Helper()
	var left *scalableext.ItemError
	if !errors.As(err, &left) {
		t.Fatalf("%v does not tell the item", err)
	}
	return left.Item
}

// A filter that does not grow has at most the rate asked for when it refuses an item, and has then been given as many
// distinct items as its capacity. The rate is a mean: single small filters differ by how many items chance puts into
// the same line. So small filters are measured fifty times, and the bound is four standard errors of their mean above
// the rate. For a large filter, sized for 97 % of the rate, it is four standard deviations of the hits, and Info may
// differ by that and 3 %.
func TestFilter_fullRate(t *testing.T) {
	for _, rate := range []float64{0.25, 0.1, 0.01, 0.001} {
		for _, capacity := range []int{1, 10, 100, 1000, 100_000} {
			t.Run(fmt.Sprintf("%g/%d", rate, capacity), func(t *testing.T) {
				t.Parallel()
				filters, asked := 50, 4000
				if capacity > 1000 {
					filters, asked = 1, 200_000
				}
				if raceEnabled {
					filters, asked = max(1, filters/5), asked/5
				}
				db := open(t, "", &kv.Options{InMemory: true, Durability: kv.NoSync, Seed: 1})
				defer closeDB(t, db)
				var sum, squares, said float64
				for i := range filters {
					f := bloomext.New(db, fmt.Sprint("f", i))
					if err := f.Reserve(bloomext.Config{Capacity: uint64(capacity), ErrorRate: rate, NonScaling: true}); err != nil {
						t.Fatal(err)
					}
					items := fillUp(t, f, uint64(i)<<32)
					if items < capacity {
						t.Errorf("filter %d is full after %d items", i, items)
					}
					_, err := f.Add(scalableext.Uint64(uint64(i)<<32 + uint64(items)))
					if !errors.Is(err, scalableext.ErrFull) {
						t.Errorf("filter %d: the item that had no room is answered with %v now", i, err)
					}
					info, err := f.Info()
					if err != nil {
						t.Fatal(err)
					}
					measured := measuredRate(t, f, asked)
					sum, squares, said = sum+measured, squares+measured*measured, said+info.ExpectedRate
				}
				n := float64(filters)
				mean := sum / n
				deviation := math.Sqrt(max(rate/float64(asked), squares/n-mean*mean) / n)
				t.Logf("measured %.4g, expected by the bits set %.4g", mean, said/n)
				if mean > rate+4*deviation {
					t.Errorf("the rate is %.4g, standard error %.2g, asked for was %g", mean, deviation, rate)
				}
				if said/n > rate || math.Abs(said/n-mean) > 4*deviation+0.03*rate {
					t.Errorf("Info says that the rate is %.4g, measured was %.4g", said/n, mean)
				}
				report, err := db.Check(t.Context())
				if err != nil || len(report.Problems) > 0 || len(report.Notes) > 0 {
					t.Errorf("Check = %v, %v, %v", report.Problems, report.Notes, err)
				}
			})
		}
	}
}
