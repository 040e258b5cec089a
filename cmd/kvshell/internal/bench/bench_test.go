package bench

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/kv"
)

// Each number is in one bucket, and buckets follow one another without a gap.
func TestBucket(t *testing.T) {
	for i := range len(histogram{}.counts) - 1 {
		low, high := uint64(0), highest(i)
		if i > 0 {
			low = highest(i-1) + 1
		}
		if low > high || bucket(low) != i || bucket(high) != i {
			t.Fatalf("bucket %d is from %d to %d, which are in %d and %d", i, low, high, bucket(low), bucket(high))
		}
		if high-low > low/32 {
			t.Fatalf("bucket %d is from %d to %d: too wide", i, low, high)
		}
		if high >= math.MaxInt64 {
			return
		}
	}
}

func TestHistogram(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var parts [3]histogram
	var all []time.Duration
	for i := range 10_000 {
		x := time.Duration(math.Exp(random.Float64() * 20))
		all = append(all, x)
		parts[i%3].add(x)
	}
	var h histogram
	for i := range parts {
		h.merge(&parts[i])
	}
	slices.Sort(all)
	for _, share := range []float64{0, 0.5, 0.99, 0.999, 0.9999} {
		got, want := h.share(share), all[int(share*float64(len(all)))]
		if got < want || got > want+want/32 {
			t.Errorf("share %v is %d, want %d", share, got, want)
		}
	}
	if longest := all[len(all)-1]; h.longest != longest || h.share(1) != longest || h.n != 10_000 {
		t.Errorf("longest %d, share 1 %d, want %d; %d times", h.longest, h.share(1), longest, h.n)
	}
	var empty histogram
	if got := empty.share(0.5); got != 0 {
		t.Errorf("half of nothing is %d", got)
	}
}

func TestText(t *testing.T) {
	r := Result{Directory: "/data", Items: 50_000, Lines: []Line{
		{What: Add, Level: "always", Clients: 16, PerSecond: 1234567, P50: 999, P99: 1234567, P999: 12345678901, Longest: 0},
		{What: FromFile, Clients: 1, PerSecond: 0.5},
	}}
	text := r.Text()
	for _, want := range []string{"clients", "add, always", " 1,230,000 ", " 999ns ", " 1.23ms ", " 12.3s ", "lookup from files", " 0.5 ", "50000 items", "in /data and"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// newRun returns a very short run.
func newRun(t *testing.T, tell func(what string)) *Run {
	return &Run{Dir: t.TempDir(), During: time.Millisecond, Tell: tell, Open: func(dir string, cacheSize int64) (*kv.DB, error) {
		return kv.Open(dir, &kv.Options{
			CacheSize: cacheSize, BallastSize: -1, Logger: slog.New(slog.DiscardHandler), Modules: coreext.With(bloomext.Module()),
		})
	}}
}

// Each part has a line, also if the time is over before it begins.
func TestRun(t *testing.T) {
	var told []string
	result, err := newRun(t, func(what string) { told = append(told, what) }).Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range result.Lines {
		names = append(names, l.name())
		if l.PerSecond <= 0 || l.P50 > l.P99 || l.P99 > l.P999 || l.P999 > l.Longest {
			t.Errorf("%+v", l)
		}
	}
	want := []string{
		"add, always", "add, always", "add, everysec", "add, everysec", "add, no", "add, no", "lookup in memory", "lookup from files",
	}
	if !slices.Equal(names, want) || result.Items != leastItems {
		t.Errorf("%q of %d items, want %q", names, result.Items, want)
	}
	if len(told) != parts+1 { // filling is told too
		t.Errorf("told %q", told)
	}
}

// A run ends with the error of its context whatever it does, and leaves no store open.
func TestRun_canceled(t *testing.T) {
	for stop := range parts + 1 {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		run := newRun(t, func(string) {
			if n == stop {
				cancel()
			}
			n++
		})
		var opened []*kv.DB
		open := run.Open
		run.Open = func(dir string, cacheSize int64) (*kv.DB, error) {
			db, err := open(dir, cacheSize)
			opened = append(opened, db)
			return db, err
		}
		if result, err := run.Do(ctx); !errors.Is(err, context.Canceled) || result != nil {
			t.Errorf("canceled in part %d: %v, %v", stop, result, err)
		}
		if n != stop+1 {
			t.Errorf("canceled in part %d, and %d parts began", stop, n)
		}
		for _, db := range opened {
			if err := db.Close(); !errors.Is(err, kv.ErrClosed) {
				t.Errorf("canceled in part %d: a store was left open: %v", stop, err)
			}
		}
	}
}
