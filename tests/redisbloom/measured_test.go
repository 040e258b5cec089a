package redisbloom

import (
	"flag"
	"fmt"
	"testing"
)

var measured = flag.Bool("measured", false, "compare all filters with what was counted in a RedisBloom, not only one of each type")

const million = 1_000_000

// TestMeasured compares the model with numbers that were counted in a RedisBloom, with Redis 7.4.1: how many of a
// million items, item:0, item:1 and so on, were new, and which part of a million others was found, absent:0 and so on.
func TestMeasured(t *testing.T) {
	rate := func(exists func([]byte) bool) string {
		found := 0
		for i := range million {
			if exists(absent(i)) {
				found++
			}
		}
		return fmt.Sprintf("%.3g", float64(found)/million)
	}
	for _, tt := range []struct {
		capacity       uint64
		rate           float64
		nonscaling     bool
		added, filters int
		found          string
	}{
		{million, 0.01, false, 0, 1, "0.00489"},
		{100, 0.01, false, 991029, 14, "0.009"},
		{million, 0.01, true, 0, 1, "0.00983"},
		{million, 0.001, false, 0, 1, "0.000521"},
		{million, 0.001, true, 0, 1, "0.000947"},
		{million, 0.0001, true, 0, 1, "0.000101"},
	} {
		b := mustBloom(t, tt.capacity, tt.rate, 2, tt.nonscaling)
		added := b.fill(t, million)
		if found := rate(b.Exists); tt.added != 0 && added != tt.added || len(b.filters) != tt.filters || found != tt.found {
			t.Errorf("%+v: %d new, %d sub-filters, %s found", tt, added, len(b.filters), found)
		}
		if !*measured {
			break
		}
	}
	for _, tt := range []struct {
		capacity   uint64
		bucketSize uint16
		found      string
	}{
		{million, 2, "0.015"},
		{million, 4, "0.0297"},
	} {
		c := mustCuckoo(t, tt.capacity, tt.bucketSize, 20, 1)
		c.fill(t, million)
		if found := rate(c.Exists); found != tt.found || len(c.filters) != 2 {
			t.Errorf("%+v: %d sub-filters, %s found", tt, len(c.filters), found)
		}
		if !*measured {
			break
		}
	}
}
