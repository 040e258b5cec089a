package countingext_test

import (
	"errors"
	"math"
	"testing"

	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// A filter that is planned is the one that is made, however far it has grown.
func TestConfig_Planned(t *testing.T) {
	const items = 5000
	for _, c := range []countingext.Config{
		{Capacity: items, ErrorRate: 0.01},
		{Capacity: 1000, ErrorRate: 0.01, Expansion: 3},
		{Counters: 1 << 17, Hashes: 5},
	} {
		planned, err := c.Planned(items)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		db := open(t, kv.Options{Durability: kv.NoSync})
		f := countingext.New(db, "f")
		if err := f.Reserve(c); err != nil {
			t.Fatal(err)
		}
		for i := range uint64(items) {
			if _, err := f.Add(scalableext.Uint64(i)); err != nil {
				t.Fatal(err)
			}
		}
		made := infoOf(t, f)
		if planned.Items != made.Items || planned.Capacity != made.Capacity || planned.ErrorRate != made.ErrorRate ||
			planned.Expansion != made.Expansion || planned.Ordered != made.Ordered || planned.Bytes != made.Bytes || math.Abs(planned.Fill-made.Fill) > 0.01 ||
			planned.ExpectedRate > made.ErrorRate || len(planned.Layers) != len(made.Layers) {
			t.Fatalf("%+v: planned %+v, made %+v", c, planned, made)
		}
		for i, p := range planned.Layers {
			m := made.Layers[i]
			if p.Capacity != m.Capacity || p.ErrorRate != m.ErrorRate || p.Counters != m.Counters || p.Hashes != m.Hashes || p.Lines != m.Lines {
				t.Errorf("%+v: layer %d is planned as %+v, made as %+v", c, i, p, m)
			}
		}
	}
}

func TestConfig_Planned_errors(t *testing.T) {
	for want, c := range map[error]countingext.Config{
		scalableext.ErrConfig:     {Capacity: 10, ErrorRate: 1},
		scalableext.ErrFull:       {Capacity: 10, ErrorRate: 0.1, NonScaling: true},
		scalableext.ErrCannotGrow: {Capacity: 10, ErrorRate: 0.1, Expansion: 1},
	} {
		if _, err := c.Planned(1e6); !errors.Is(err, want) {
			t.Errorf("%+v: %v, want %v", c, err, want)
		}
	}
}
