package bloomext_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// A filter that is planned is the one that is made, however far it has grown.
func TestConfig_Planned(t *testing.T) {
	const items = 5000
	for _, c := range []bloomext.Config{
		{Capacity: items, ErrorRate: 0.01},
		{Capacity: 1000, ErrorRate: 0.9, Expansion: 3, GrowthLog: -1},
		{Bits: 1 << 17, Hashes: 5},
	} {
		planned, err := c.Planned(items)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		db := open(t, "", nil)
		f := bloomext.New(db, "f")
		if err := f.Reserve(c); err != nil {
			t.Fatal(err)
		}
		for n, i := 0, uint64(0); n < items; i++ {
			isNew, err := f.Add(scalableext.Uint64(i))
			if err != nil {
				t.Fatal(err)
			}
			if isNew {
				n++
			}
		}
		made, err := f.Info()
		closeDB(t, db)
		if err != nil {
			t.Fatal(err)
		}
		if planned.Items != made.Items || planned.Capacity != made.Capacity || planned.ErrorRate != made.ErrorRate ||
			planned.Expansion != made.Expansion || planned.Bytes != made.Bytes || math.Abs(planned.Fill-made.Fill) > 0.01 ||
			planned.ExpectedRate > made.ErrorRate || len(planned.Layers) != len(made.Layers) {
			t.Fatalf("%+v: planned %+v, made %+v", c, planned, made)
		}
		for i, p := range planned.Layers {
			m := made.Layers[i]
			if p.Capacity != m.Capacity || p.ErrorRate != m.ErrorRate || p.Bits != m.Bits || p.Hashes != m.Hashes || p.Lines != m.Lines {
				t.Errorf("%+v: layer %d is planned as %+v, made as %+v", c, i, p, m)
			}
		}
	}
}

func TestConfig_Planned_errors(t *testing.T) {
	for want, c := range map[error]bloomext.Config{
		scalableext.ErrConfig:     {Capacity: 10, ErrorRate: 1},
		scalableext.ErrFull:       {Capacity: 10, ErrorRate: 0.1, NonScaling: true},
		scalableext.ErrCannotGrow: {Capacity: 10, ErrorRate: 0.1, Expansion: 1, GrowthLog: -1},
	} {
		if _, err := c.Planned(1e6); !errors.Is(err, want) {
			t.Errorf("%+v: %v, want %v", c, err, want)
		}
	}
}

// The error of too low a rate names the lowest that the user may give, though a layer has only a share of it.
func TestConfig_lowestRate(t *testing.T) {
	for _, tt := range []struct {
		config bloomext.Config
		items  uint64
		errors int // one for each layer that has a higher lowest rate than those before
	}{
		{bloomext.Config{Capacity: 1e6, NonScaling: true}, 1e6, 1},
		{bloomext.Config{Capacity: 1e6}, 1e6, 1},
		{bloomext.Config{Capacity: 1e6}, 3e6, 2},
		{bloomext.Config{Capacity: 1, Expansion: 1}, 3, 2},
	} {
		c := tt.config
		c.ErrorRate, c.GrowthLog = 1e-30, -1
		_, err := c.Planned(tt.items)
		found := 0
		for ; err != nil && found < 10; found++ {
			var lowest float64
			_, text, _ := strings.Cut(err.Error(), "want at least ")
			if _, bad := fmt.Sscan(text, &lowest); bad != nil || !errors.Is(err, scalableext.ErrConfig) {
				t.Fatalf("%+v: %v", c, err)
			}
			c.ErrorRate = 0.98 * lowest
			if _, err := c.Planned(tt.items); err == nil {
				t.Errorf("%+v is planned, though the lowest rate is %v", c, lowest)
			}
			c.ErrorRate = lowest
			_, err = c.Planned(tt.items)
		}
		if found != tt.errors {
			t.Errorf("%+v: %d errors, want %d", tt.config, found, tt.errors)
		}
	}
}

// A filter with a log is planned about as it is when what is filled has been, and when its log has ended.
func TestConfig_Planned_logged(t *testing.T) {
	for _, c := range []bloomext.Config{
		{Capacity: 100, ErrorRate: 0.01},
		{Capacity: 100, ErrorRate: 0.2, GrowthLog: 16_000},
		{Capacity: 2000, ErrorRate: 0.01},
		{Capacity: 2000, ErrorRate: 0.01, GrowthLog: 100},
	} {
		db := open(t, "", nil)
		f := bloomext.New(db, "f").With(kv.NoSync)
		if err := f.Reserve(c); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, items := range []int{100, 300, 2000, 2100, 10_000, 40_000} {
			addRange(t, f, n, items, c.ErrorRate)
			n = items
			compacts(t, db, 1000)
			planned, err := c.Planned(uint64(items))
			if err != nil {
				t.Fatal(err)
			}
			made, err := f.Info()
			if err != nil {
				t.Fatal(err)
			}
			most := 1.35 // steps of the one and of the other
			if made.GrowthLog == 0 {
				most = 2.5
			}
			if ratio := float64(planned.Bytes) / float64(made.Bytes); ratio > most || ratio < 1/most || planned.ExpectedRate > c.ErrorRate ||
				planned.GrowthLog != made.GrowthLog || made.LogBytes == 0 && planned.LogBytes > 1000 || float64(planned.LogBytes) < 0.9*float64(made.LogBytes)-1000 {
				t.Errorf("%+v, %d items: planned\n%+v, made\n%+v", c, items, planned, made)
			}
		}
		closeDB(t, db)
	}
}
