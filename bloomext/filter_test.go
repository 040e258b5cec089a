package bloomext_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// measuredRate returns the share of absent items that seem to be present.
func measuredRate(t *testing.T, f *bloomext.Filter, asked int) float64 {
	t.Helper()
	items, present := make([]uint64, asked), make([]bool, asked)
	for i := range items {
		items[i] = 1<<50 + uint64(i)
	}
	if err := f.MayContainMany(scalableext.Uint64s(items...), present); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, p := range present {
		if p {
			n++
		}
	}
	return float64(n) / float64(asked)
}

// addRange adds the items from to to-1, and fails the test unless all but a share of at most rate are new. It allows for chance:
// in one of many thousand runs several of few items seem known.
func addRange(t *testing.T, f *bloomext.Filter, from, to int, rate float64) {
	t.Helper()
	items, added := make([]uint64, to-from), make([]bool, to-from)
	for i := range items {
		items[i] = uint64(from + i)
	}
	if _, err := f.AddMany(scalableext.Uint64s(items...), added); err != nil {
		t.Fatal(err)
	}
	known := 0
	for _, isNew := range added {
		if !isNew {
			known++
		}
	}
	n := float64(len(items))
	if most := n*rate + 5*math.Sqrt(n*rate) + 4; float64(known) > most {
		t.Errorf("%d of %d new items seemed known, want at most %.0f", known, len(items), most)
	}
}

// A chain keeps its rate at every moment of growing, measured at ten points and reported by Info, and has no more
// layers and bits than it should.
func TestChain_grows(t *testing.T) {
	tests := []struct {
		name        string
		config      bloomext.Config
		to          int
		layers      int     // at most, at the end
		bitsPerItem float64 // at most, at the end
	}{
		{"expansion 1", bloomext.Config{Capacity: 4000, ErrorRate: 0.01, Expansion: 1}, 250_000, 63, 23},
		{"expansion 2", bloomext.Config{Capacity: 100, ErrorRate: 0.01, Expansion: 2}, 250_000, 12, 34},
		{"expansion 4", bloomext.Config{Capacity: 100, ErrorRate: 0.01, Expansion: 4}, 250_000, 7, 45},
		{"sized right", bloomext.Config{Capacity: 1_000_000, ErrorRate: 0.001}, 1_000_000, 1, 15.8},
		{"high rate", bloomext.Config{Capacity: 100, ErrorRate: 0.25, Expansion: 2}, 100_000, 10, 14},
		{"low rate", bloomext.Config{Capacity: 100, ErrorRate: 1e-4, Expansion: 2}, 100_000, 10, 60},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			to := tt.to
			if raceEnabled {
				to /= 20
			}
			db := open(t, "", nil)
			defer closeDB(t, db)
			f := bloomext.New(db, "f").With(kv.NoSync)
			if err := f.Reserve(tt.config); err != nil {
				t.Fatal(err)
			}
			const points = 10
			done := 0
			for point := range points {
				asked := 40_000.
				if point == points-1 {
					asked = 200_000
				}
				// Evenly in the logarithm, so that young chains are measured too.
				next := int(math.Pow(float64(to), float64(point+1)/points))
				addRange(t, f, done, next, tt.config.ErrorRate)
				done = next
				info, err := f.Info()
				if err != nil {
					t.Fatal(err)
				}
				if info.ExpectedRate > tt.config.ErrorRate {
					t.Errorf("at %d items %.3g is expected, above %g", done, info.ExpectedRate, tt.config.ErrorRate)
				}
				// Five standard deviations above the rate asked for.
				most := tt.config.ErrorRate + 5*math.Sqrt(tt.config.ErrorRate/asked)
				if rate := measuredRate(t, f, int(asked)); rate > most {
					t.Errorf("at %d items %.3g was measured, above %g", done, rate, most)
				}
			}
			info, err := f.Info()
			if err != nil {
				t.Fatal(err)
			}
			perItem := 8 * float64(info.Bytes) / float64(to)
			t.Logf("%d items: %d layers, %.1f bits per item, rate %.3g expected", to, len(info.Layers), perItem, info.ExpectedRate)
			if to == tt.to && (len(info.Layers) > tt.layers || perItem > tt.bitsPerItem) {
				t.Errorf("%d layers with %.1f bits per item, want at most %d with %.1f", len(info.Layers), perItem, tt.layers, tt.bitsPerItem)
			}
			// An item that seems to be in an older layer sets no bit.
			if off := math.Abs(float64(info.Distinct)/float64(done) - 1); off > max(0.02, tt.config.ErrorRate) {
				t.Errorf("%d distinct items are estimated, %d were added", info.Distinct, done)
			}
			checkWhole(t, db)
		})
	}
}

func checkWhole(t *testing.T, db *kv.DB) {
	t.Helper()
	report, err := db.Check(context.Background())
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("Check = %v, %v", report.Problems, err)
	}
}

// A filter of the right size costs little more than a classic one: -ln(rate)/ln(2)^2 bits for each item.
func TestChain_bitsPerItem(t *testing.T) {
	db := open(t, "", nil)
	defer closeDB(t, db)
	for _, rate := range []float64{1e-2, 1e-3, 1e-4, 1e-6} {
		for _, nonScaling := range []bool{true, false} {
			f := bloomext.New(db, "f")
			if err := f.Reserve(bloomext.Config{Capacity: 1e6, ErrorRate: rate, NonScaling: nonScaling}); err != nil {
				t.Fatal(err)
			}
			info, err := f.Info()
			if err != nil {
				t.Fatal(err)
			}
			most := 1.10
			if !nonScaling {
				most = 1.15
			}
			classic := -math.Log(rate) / (math.Ln2 * math.Ln2)
			over := 8 * float64(info.Bytes) / 1e6 / classic
			t.Logf("rate %g, non-scaling %t: %.2f bits per item, %.3f of a classic filter", rate, nonScaling, over*classic, over)
			if over > most {
				t.Errorf("rate %g, non-scaling %t: %.3f of a classic filter, want at most %.2f", rate, nonScaling, over, most)
			}
			if _, err := f.Drop(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A chain that can have no further layer says so, and keeps its items.
func TestChain_cannotGrow(t *testing.T) {
	t.Run("layers", func(t *testing.T) {
		db := open(t, "", nil)
		defer closeDB(t, db)
		f := bloomext.New(db, "f")
		if err := f.Reserve(bloomext.Config{Capacity: 2, ErrorRate: 1e-6, Expansion: 1, GrowthLog: -1}); err != nil {
			t.Fatal(err)
		}
		added := make([]bool, 200)
		items := make([]uint64, len(added))
		for i := range items {
			items[i] = uint64(i)
		}
		n, err := f.AddMany(scalableext.Uint64s(items...), added)
		if n != 128 || !errors.Is(err, scalableext.ErrCannotGrow) {
			t.Errorf("AddMany = %d, %v, want 128 items in 64 layers of 2", n, err)
		}
		if isNew, err := f.Add(scalableext.Uint64(5)); isNew || err != nil {
			t.Errorf("a known item is answered with %v, %v", isNew, err)
		}
		if info, err := f.Info(); err != nil || info.Items != 128 || len(info.Layers) != 64 {
			t.Errorf("Info = %+v, %v", info, err)
		}
		checkWhole(t, db)
	})
	for _, log := range []int64{-1, 0} {
		t.Run(fmt.Sprint("bytes ", log), func(t *testing.T) {
			db := open(t, "", &kv.Options{InMemory: true, MaxFilterBytes: 100_000})
			defer closeDB(t, db)
			f := bloomext.New(db, "f")
			if err := f.Reserve(bloomext.Config{Capacity: 1000, ErrorRate: 0.01, GrowthLog: log}); err != nil {
				t.Fatal(err)
			}
			added := make([]bool, 4096)
			items := make([]uint64, len(added))
			n := 0
			for start := uint64(0); ; start += uint64(len(items)) {
				for i := range items {
					items[i] = start + uint64(i)
				}
				m, err := f.AddMany(scalableext.Uint64s(items...), added)
				n += m
				if errors.Is(err, scalableext.ErrCannotGrow) && errors.Is(err, kv.ErrTooLarge) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			info, err := f.Info()
			if err != nil || info.Bytes > 100_000 || log < 0 && (len(info.Layers) < 2 || info.Items > uint64(n)) || n < 10_000 {
				t.Errorf("Info = %+v, %v after %d items", info, err, n)
			}
			finds(t, f, uint64(n))
			checkWhole(t, db)
		})
	}
}
