package countingext_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

func TestConfig_refused(t *testing.T) {
	db := open(t, kv.Options{})
	f := countingext.New(db, "f")
	ok := countingext.Config{Capacity: 100, ErrorRate: 0.01}
	for _, tt := range []struct {
		want   string
		change func(*countingext.Config)
	}{
		{"capacity is 0, want 1 to 1099511627776", func(c *countingext.Config) { c.Capacity = 0 }},
		{"capacity is 1099511627777", func(c *countingext.Config) { c.Capacity = 1<<40 + 1 }},
		{"error rate is 0, want above 0 and below 1", func(c *countingext.Config) { c.ErrorRate = 0 }},
		{"error rate is 1", func(c *countingext.Config) { c.ErrorRate = 1 }},
		{"error rate is 1e-30", func(c *countingext.Config) { c.ErrorRate = 1e-30; c.NonScaling = true }},
		{"expansion is 32769, want 1 to 32768", func(c *countingext.Config) { c.Expansion = 32769 }},
		{"expansion is 2 in a filter that does not grow", func(c *countingext.Config) { c.Expansion, c.NonScaling = 2, true }},
		{"TTL is 1µs, want at least 1ms", func(c *countingext.Config) { c.TTL = time.Microsecond }},
		{"counters are 10 and hashes 0", func(c *countingext.Config) { c.Counters = 10 }},
		{"counters are 0 and hashes 3", func(c *countingext.Config) { c.Hashes = 3 }},
		{"error rate is 0.01 with counters given", func(c *countingext.Config) { c.Counters, c.Hashes = 1000, 3 }},
		{"hashes is 65, want 1 to 64", func(c *countingext.Config) { c.Counters, c.Hashes, c.ErrorRate = 1000, 65, 0 }},
		{"expansion is 1 with counters given", func(c *countingext.Config) { *c = countingext.Config{Counters: 9, Hashes: 1, Expansion: 1} }},
	} {
		c := ok
		tt.change(&c)
		if err := f.Reserve(c); !errors.Is(err, probe.ErrParams) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Reserve(%+v) = %v, want ErrParams with %q", c, err, tt.want)
		}
	}
	if found, err := f.Drop(); found || err != nil {
		t.Errorf("Drop = %t, %v", found, err)
	}
}

// Sizes given by hand are rounded up to lines; rate and capacity follow.
func TestConfig_counters(t *testing.T) {
	db := open(t, kv.Options{})
	f := countingext.New(db, "f")
	must(t, f.Reserve(countingext.Config{Counters: 10_000, Hashes: 5}))
	info := infoOf(t, f)
	l := info.Layers[0]
	if l.Counters != 10_112 || l.Hashes != 5 || info.Bytes != 5056 || info.Capacity != 1401 || info.Expansion != 0 {
		t.Errorf("Info = %+v", info)
	}
	if info.ErrorRate < 0.03 || info.ErrorRate > 0.04 { // 2^-5 in a filter that is not blocked
		t.Errorf("the rate is %g", info.ErrorRate)
	}
	must(t, f.OpenOrReserve(countingext.Config{Counters: 10_100, Hashes: 5}))
	err := f.OpenOrReserve(countingext.Config{Counters: 20_000, Hashes: 4})
	if !errors.Is(err, scalableext.ErrMismatch) || !strings.Contains(err.Error(), "counters is 10112, asked for 20224; hashes is 5, asked for 4") {
		t.Errorf("OpenOrReserve = %v", err)
	}
}

func TestFilter_OpenOrReserve(t *testing.T) {
	db := open(t, kv.Options{})
	f := countingext.New(db, "f")
	c := countingext.Config{Capacity: 100, ErrorRate: 0.01}
	must(t, f.OpenOrReserve(c))
	if _, err := f.Add([]byte("a")); err != nil {
		t.Fatal(err)
	}
	must(t, f.OpenOrReserve(c))
	c.ErrorRate, c.Expansion = 0.02, 4
	err := f.OpenOrReserve(c)
	if !errors.Is(err, scalableext.ErrMismatch) ||
		!strings.HasSuffix(err.Error(), "error rate is 0.01, asked for 0.02; expansion is 2, asked for 4") {
		t.Errorf("OpenOrReserve = %v", err)
	}
	if err := f.Reserve(c); !errors.Is(err, kv.ErrExists) {
		t.Errorf("Reserve = %v, want ErrExists", err)
	}
	if ok, err := f.MayContain([]byte("a")); !ok || err != nil {
		t.Errorf("MayContain = %t, %v", ok, err)
	}
}
