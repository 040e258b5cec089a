package guard_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sievekv/sievekv/guard"
)

// No more than MaxLoads run at once; others wait, and give up after LoadTimeout.
func TestLimits_atOnce(t *testing.T) {
	loading := make(gate)
	var running atomic.Int32
	load := func(context.Context, string) ([]byte, error) {
		if n := running.Add(1); n > 2 {
			t.Errorf("%d loads run at once, want at most 2", n)
		}
		defer running.Add(-1)
		loading.arrive()
		return []byte("row"), nil
	}
	inWorld(t, &guard.Options{Load: load, MaxLoads: 2, LoadTimeout: time.Second}, func(w *world) {
		loading = make(gate)
		var results []<-chan guard.Result
		for i := range 5 {
			results = append(results, w.get(w.Context(), fmt.Sprint(i)))
		}
		first, second := loading.next(), loading.next()
		synctest.Wait()
		first()
		third := loading.next()
		time.Sleep(time.Second + time.Millisecond) // the last two give up; at that very moment either may come first
		second()
		third()
		for i, result := range results {
			switch got := <-result; {
			case got.Err == nil:
			case errors.Is(got.Err, guard.ErrUnavailable):
				results[i] = nil
			default:
				t.Error(got.Err)
			}
		}
		failed := 0
		for _, result := range results {
			if result == nil {
				failed++
			}
		}
		if failed != 2 {
			t.Errorf("%d failed, want 2", failed)
		}
	})
}

// A load that takes longer than LoadTimeout has failed.
func TestLimits_timeout(t *testing.T) {
	load := func(ctx context.Context, id string) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	inWorld(t, &guard.Options{Load: load, LoadTimeout: time.Second}, func(w *world) {
		begin := time.Now()
		w.want("a", context.DeadlineExceeded)
		if took := time.Since(begin); took != time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// No more than LoadsPerSecond begin in a second, except for a burst of a tenth.
func TestLimits_rate(t *testing.T) {
	inWorld(t, &guard.Options{LoadsPerSecond: 100, MaxLoads: 1000}, func(w *world) {
		begin := time.Now()
		for i := range 500 {
			go func() { _, _ = w.g.Get(w.Context(), fmt.Sprint(i)) }()
		}
		for second := 1; second <= 5; second++ {
			time.Sleep(time.Until(begin.Add(time.Duration(second) * time.Second)))
			if n := w.g.Stats().Loads; n < uint64(second*100) || n > uint64(second*100+10) {
				t.Errorf("%d loads after %d seconds", n, second)
			}
		}
	})
}

// Where a value may still be served, nobody waits for a load to be free.
func TestLimits_stale(t *testing.T) {
	for name, o := range map[string]*guard.Options{
		"at once": {MaxLoads: 1}, "a second": {LoadsPerSecond: 1e-6},
	} {
		t.Run(name, func(t *testing.T) {
			o.Empty, o.TTL, o.Jitter, o.LoadTimeout = true, 10*time.Second, -1, time.Hour
			inWorld(t, o, func(w *world) {
				w.put("a", "1")
				w.set("b", "1")
				w.check(w.g.Put(w.Context(), "b", nil, nil))
				let := w.holding("b")
				other := w.get(w.Context(), "b")
				free := let.next() // takes all
				if o.MaxLoads == 0 {
					free()
				}
				begin := time.Now()
				for range 3 {
					time.Sleep(4 * time.Second) // fresh, soft, stale
					w.want("a", "1")
					synctest.Wait()
				}
				w.wantLoads("a", 0)
				if took := time.Since(begin); took != 12*time.Second {
					t.Errorf("it took %v", took)
				}
				if o.MaxLoads != 0 {
					free()
				}
				wantResult(t, "b", <-other, "1")
			})
		})
	}
}

// After BreakerFailures failures in a row the source is left alone; then one load at a time tries it.
func TestBreaker(t *testing.T) {
	o := &guard.Options{
		Empty: true, TTL: 10 * time.Second, SoftTTL: 10 * time.Second, MaxStale: time.Minute, Jitter: -1,
		BreakerFailures: 3, BreakerPause: 5 * time.Second,
	}
	inWorld(t, o, func(w *world) {
		for i := range 10 {
			w.put(fmt.Sprint(i), "row")
		}
		w.set("cold", "row")
		w.check(w.g.Put(w.Context(), "cold", nil, nil))
		time.Sleep(10 * time.Second)
		w.fail(errSource)
		breaker := func(want string) {
			t.Helper()
			if got := w.g.Stats().Breaker; got != want {
				t.Errorf("the breaker is %s, want %s", got, want)
			}
		}
		breaker("closed")
		for range 3 {
			for i := range 10 {
				w.want(fmt.Sprint(i), "row") // stale
			}
			if n := w.g.Stats().Loads; n != 3 {
				t.Errorf("%d loads, want 3", n)
			}
		}
		breaker("open")
		w.want("cold", guard.ErrUnavailable)
		wantResult(t, "cold", w.g.GetMany(w.Context(), "cold")[0], guard.ErrUnavailable)
		for n := uint64(4); n < 7; n++ {
			time.Sleep(5*time.Second + 1)
			breaker("half-open")
			w.want("0", "row")
			w.want("1", "row")
			w.want("cold", guard.ErrUnavailable)
			if got := w.g.Stats().Loads; got != n {
				t.Errorf("%d loads, want %d", got, n)
			}
		}
		time.Sleep(5*time.Second + 1)
		w.fail(nil)
		let := w.holding("0")
		first := w.get(w.Context(), "0")
		free := let.next()
		w.want("cold", guard.ErrUnavailable) // another one tries
		w.want("1", "row")
		free()
		wantResult(t, "0", <-first, "row")
		w.want("cold", "row")
		breaker("closed")
	})
}

// An id that is absent, a caller that gives up and Close are no failures.
func TestBreaker_notFailures(t *testing.T) {
	inWorld(t, &guard.Options{BreakerFailures: 1}, func(w *world) {
		w.want("a", guard.ErrNotFound)
		ctx, cancel := context.WithCancel(w.Context())
		let := w.holding("b")
		result := w.get(ctx, "b")
		free := let.next()
		cancel()
		<-result
		free()
		synctest.Wait()
		if s := w.g.Stats(); s.Breaker != "closed" || s.Failed != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A soft value is not refreshed while the breaker is open, and no goroutine begins for it.
func TestBreaker_soft(t *testing.T) {
	o := &guard.Options{Empty: true, TTL: time.Hour, SoftTTL: time.Second, Jitter: -1, BreakerFailures: 1, BreakerPause: time.Minute}
	inWorld(t, o, func(w *world) {
		w.put("a", "1")
		time.Sleep(time.Second)
		w.fail(errSource)
		for range 5 {
			w.want("a", "1")
			synctest.Wait()
		}
		w.wantLoads("a", 1)
	})
}

// Callers of a source that is down do not wait for their turn to be told so.
func TestBreaker_turn(t *testing.T) {
	inWorld(t, &guard.Options{BreakerFailures: 1, LoadsPerSecond: 1}, func(w *world) {
		w.fail(errSource)
		w.want("a", errSource)
		begin := time.Now()
		w.want("b", guard.ErrUnavailable)
		if took := time.Since(begin); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}

// Close is no failure of the source.
func TestBreaker_closed(t *testing.T) {
	load := func(ctx context.Context, _ string) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	inWorld(t, &guard.Options{Load: load, BreakerFailures: 1}, func(w *world) {
		result := w.get(w.Context(), "a")
		synctest.Wait()
		w.g.Close()
		wantResult(t, "a", <-result, guard.ErrClosed)
		if s := w.g.Stats(); s.Breaker != "closed" {
			t.Errorf("the breaker is %s", s.Breaker)
		}
	})
}

// A refresh that turns out not to be needed leaves its place to others.
func TestLimits_refreshed(t *testing.T) {
	o := &guard.Options{Empty: true, MaxLoads: 2, TTL: time.Hour, SoftTTL: time.Second, Jitter: -1}
	inWorld(t, o, func(w *world) { // one is under way
		w.put("a", "1")
		w.set("b", "1")
		w.check(w.g.Put(w.Context(), "b", nil, nil))
		time.Sleep(time.Second)
		let := w.holding("a")
		w.want("a", "1")
		free := let.next()
		w.want("a", "1")
		w.want("a", "1")
		w.want("b", "1")
		free()
	})
	c := newOutside()
	o.Cache, o.MaxLoads = c, 1
	inWorld(t, o, func(w *world) { // the value has just been put
		w.put("a", "1")
		w.set("b", "1")
		w.check(w.g.Put(w.Context(), "b", nil, nil))
		time.Sleep(time.Second)
		looking := make(gate)
		c.change(func() { c.get = looking })
		late := w.get(w.Context(), "a")
		goOn := looking.next() // it has found a soft value
		c.change(func() { c.get = nil })
		w.put("a", "2")
		goOn()
		wantResult(t, "a", <-late, "1")
		synctest.Wait()
		w.wantLoads("a", 0)
		w.want("b", "1")
	})
}

// Keys that were written at one moment with one TTL are loaded again at different moments, by jitter alone: in no
// second afterwards do more than twice the mean of the loads begin. The mean of the busiest second is 833 loads, 1.7
// times the mean of all; twice is five standard deviations above.
func TestLimits_avalanche(t *testing.T) {
	const keys, seconds = 10_000, 60
	load := func(context.Context, string) ([]byte, error) { return []byte("row"), nil }
	inWorld(t, &guard.Options{Load: load, TTL: 30 * time.Second, MaxLoads: keys}, func(w *world) {
		var ids []string
		for i := range keys {
			ids = append(ids, fmt.Sprint(i))
		}
		if n, err := w.g.Warm(w.Context(), seqOf(ids...)); n != keys || err != nil {
			t.Fatalf("Warm: %d, %v", n, err)
		}
		var most uint64
		first := w.g.Stats().Loads
		for last := first; w.g.Stats().Asked < seconds*keys; {
			time.Sleep(time.Second)
			for _, id := range ids {
				if _, err := w.g.Get(w.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			now := w.g.Stats().Loads
			most, last = max(most, now-last), now
		}
		if mean := (w.g.Stats().Loads - first) / seconds; most > 2*mean || mean < keys/30 {
			t.Errorf("%d loads in a second, the mean is %d", most, mean)
		}
	})
}
