package guard_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sievekv/sievekv/guard"
)

// A load whose source ends the goroutine has failed: stale values are served, others get an error, and the breaker does not
// wait for its outcome for ever.
func TestBreaker_goexit(t *testing.T) {
	exits := true
	load := func(context.Context, string) ([]byte, error) {
		if exits {
			runtime.Goexit()
		}
		return []byte("new"), nil
	}
	o := &guard.Options{
		Load: load, Empty: true, TTL: time.Second, MaxStale: time.Hour, Jitter: -1, BreakerFailures: 2, BreakerPause: time.Second,
	}
	inWorld(t, o, func(w *world) {
		w.put("a", "old")
		w.check(w.g.Put(w.Context(), "b", nil, nil))
		time.Sleep(time.Second)
		w.want("a", "old")
		if _, err := w.g.Get(w.Context(), "b"); err == nil || errors.Is(err, guard.ErrUnavailable) || errors.Is(err, guard.ErrNotFound) {
			t.Errorf("Get: %v, want an error of its own", err)
		}
		if s := w.g.Stats(); s.Breaker != "open" || s.Failed != 2 || s.Loads != 2 {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Second + 1)
		w.want("a", "old") // the one load that tries
		w.want("b", guard.ErrUnavailable)
		exits = false
		time.Sleep(time.Second + 1)
		w.want("b", "new")
		w.want("a", "new")
	})
}

// A function that ends its goroutine leaves no caller waiting. Its outcome is unknown.
func TestOnce_goexit(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		for range 2 {
			_, err := guard.Once(ctx, w.db, "a", time.Hour, func(context.Context) (int, error) { runtime.Goexit(); return 1, nil })
			if !errors.Is(err, guard.ErrUnknown) {
				t.Errorf("Once: %v, want %v", err, guard.ErrUnknown)
			}
		}
		w.check(guard.OnceForget(w.db, "a"))
		if n, err := guard.Once(ctx, w.db, "a", time.Hour, func(context.Context) (int, error) { return 1, nil }); n != 1 || err != nil {
			t.Error(n, err)
		}
	})
}

// stuck is a cache that answers only when the context ends.
type stuck struct{ *outside }

func (c stuck) Get(ctx context.Context, key string) ([]byte, error) {
	if c.stuckIs() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return c.outside.Get(ctx, key)
}

func (c stuck) Set(ctx context.Context, key string, entry []byte, ttl time.Duration) error {
	if c.stuckIs() {
		<-ctx.Done()
		return ctx.Err()
	}
	return c.outside.Set(ctx, key, entry, ttl)
}

func (c stuck) stuckIs() (is bool) {
	c.change(func() { is = c.err != nil })
	return is
}

// A load does not wait for a cache that does not answer longer than LoadTimeout, and Close not at all.
func TestCache_stuck(t *testing.T) {
	c := stuck{newOutside()}
	inWorld(t, &guard.Options{Cache: c, LoadTimeout: 10 * time.Second}, func(w *world) {
		w.set("a", "1")
		late := w.get(w.Context(), "a")
		synctest.Wait()
		wantResult(t, "a", <-late, "1")
		c.change(func() { c.err = errOther; clear(c.entries) })
		given, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		if _, err := w.g.Get(given, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Get: %v", err)
		}
		looking := make(gate)
		c.change(func() { c.err, c.get = nil, looking })
		begin := time.Now()
		late = w.get(w.Context(), "a")
		goOn := looking.next() // it has missed the value
		c.change(func() { c.err, c.get = errOther, nil })
		goOn()
		wantResult(t, "a", <-late, "1")
		if took := time.Since(begin); took != 20*time.Second { // to read, and to write
			t.Errorf("it took %v", took)
		}
		c.change(func() { c.err, c.get = nil, looking })
		late = w.get(w.Context(), "a")
		goOn = looking.next()
		c.change(func() { c.err, c.get = errOther, nil })
		goOn()
		synctest.Wait()
		begin = time.Now()
		w.g.Close()
		if took := time.Since(begin); took != 0 {
			t.Errorf("Close took %v", took)
		}
		if result := <-late; result.Err == nil {
			t.Errorf("%q", result.Value)
		}
	})
}

// A load that finds a value in the cache, and goes on for other ids, does not give it to a caller that comes when it is
// too old.
func TestLoad_foundThenOld(t *testing.T) {
	for name, row := range map[string]string{"value": "old", "absent": ""} {
		t.Run(name, func(t *testing.T) {
			c, loading := newOutside(), make(gate)
			o := &guard.Options{Cache: c, TTL: 2 * time.Second, MaxStale: -1, NullTTL: 2 * time.Second, Jitter: -1, LoadTimeout: time.Minute}
			var w *world
			o.LoadMany = func(_ context.Context, ids []string) (map[string][]byte, error) {
				if ids[0] == "b" {
					loading.arrive()
				}
				values := make(map[string][]byte)
				for _, id := range ids {
					if row, err := w.load(context.Background(), id); err == nil {
						values[id] = row
					}
				}
				return values, nil
			}
			inWorld(t, o, func(in *world) {
				w, loading = in, make(gate)
				var found any = guard.ErrNotFound
				if row != "" {
					w.set("a", row)
					found = row
				}
				looking := make(gate)
				c.change(func() { c.get = looking })
				many := make(chan []guard.Result, 1)
				go func() { many <- w.g.GetMany(w.Context(), "a", "b") }()
				missed := looking.next() // it has missed "a"
				c.change(func() { c.get = nil })
				w.want("a", found) // puts the entry into the cache
				time.Sleep(1500 * time.Millisecond)
				missed()
				free := loading.next() // it has found the entry of "a", and loads "b"
				w.set("a", "new")
				c.change(func() { clear(c.entries) })
				time.Sleep(time.Second)
				late := w.get(w.Context(), "a") // joins the load of both
				synctest.Wait()
				free()
				wantResult(t, "a", (<-many)[0], found)
				wantResult(t, "a", <-late, "new")
			})
		})
	}
}

// Where absent ids are not remembered, a refresh that finds an id absent takes away the value.
func TestLoad_absentForgets(t *testing.T) {
	for name, cache := range map[string]guard.Cache{"store": nil, "outside": newOutside()} {
		t.Run(name, func(t *testing.T) {
			o := &guard.Options{Cache: cache, TTL: time.Hour, SoftTTL: time.Second, NullTTL: -1, Jitter: -1}
			inWorld(t, o, func(w *world) {
				w.set("a", "1")
				w.want("a", "1")
				w.unset("a") // past the guard
				time.Sleep(time.Second)
				w.want("a", "1")
				synctest.Wait()
				w.want("a", guard.ErrNotFound)
				w.fail(errSource)
				w.want("a", errSource)
			})
		})
	}
}
