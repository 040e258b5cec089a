package guard_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sievekv/sievekv/guard"
)

// A write does not wait longer than LoadTimeout for each call of a cache that does not answer, nor does Close.
func TestCache_stuckWrite(t *testing.T) {
	c := stuck{newOutside()}
	inWorld(t, &guard.Options{Cache: c, Empty: true, LoadTimeout: 10 * time.Second}, func(w *world) {
		w.put("a", "1")
		c.change(func() { c.err = errOther })
		begin := time.Now()
		if err := w.g.Put(w.Context(), "a", []byte("2"), nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Put: %v", err)
		}
		if took := time.Since(begin); took != 10*time.Second {
			t.Errorf("Put took %v", took)
		}
		begin = time.Now()
		written := w.g.PutVia(w.Context(), "a", []byte("2"), func(context.Context) error { return nil })
		if took := time.Since(begin); took != 10*time.Second || !errors.Is(written, context.DeadlineExceeded) {
			t.Errorf("PutVia took %v: %v", took, written)
		}
		c.change(func() { c.err = nil })
		begin = time.Now()
		w.check(w.g.PutVia(w.Context(), "a", []byte("3"), func(context.Context) error { // the row is written
			c.change(func() { c.err = errOther })
			return nil
		}))
		if took := time.Since(begin); took != 10*time.Second {
			t.Errorf("PutVia whose value does not get into the cache took %v", took)
		}
		w.g.Close()
	})
}

// Close, which ends loads, says nothing about the ids.
func TestGet_failedIsAbsentClosed(t *testing.T) {
	load := func(ctx context.Context, _ string) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	inWorld(t, &guard.Options{FailedIsAbsent: true, Load: load, MaxLoads: 1}, func(w *world) {
		loading := w.get(w.Context(), "a")
		synctest.Wait()
		waiting := w.get(w.Context(), "b") // for its turn
		synctest.Wait()
		w.g.Close()
		for _, r := range []guard.Result{<-loading, <-waiting} {
			if r.Err == nil || errors.Is(r.Err, guard.ErrNotFound) {
				t.Errorf("Get that Close has ended: %v", r.Err)
			}
		}
		w.set("a", "1")
		w.set("b", "1")
		w.g = w.open("users", w.options(guard.Options{}))
		w.want("a", "1")
		w.want("b", "1")
	})
}

// The records of ids mean nothing for the filters of a guard that was made again, however soon.
func TestRebuild_metaLostAtOnce(t *testing.T) {
	for _, filter := range []guard.Filter{guard.Cuckoo, guard.Counting} {
		o := guard.Options{Filter: filter, ErrorRate: exact}
		inWorld(t, &o, func(w *world) {
			w.set("a", "1")
			for range 5 {
				w.check(w.g.Rebuild(w.Context(), w.allRows()))
				w.want("a", "1")
				w.g.Close()
				_, err := w.db.Delete("guard:users")
				w.check(err)
				w.g = w.open("users", w.options(o))
			}
			w.check(w.g.Rebuild(w.Context(), w.allRows()))
			w.want("a", "1")
		})
	}
}

// Asking for a soft value that is being loaded already takes no load away from others.
func TestLimits_softAndHot(t *testing.T) {
	o := &guard.Options{
		Empty: true, LoadsPerSecond: 10, TTL: 100 * time.Second, SoftTTL: time.Second, MaxStale: time.Hour, Jitter: -1, LoadTimeout: time.Minute,
	}
	inWorld(t, o, func(w *world) {
		w.put("hot", "1")
		w.put("b", "old")
		w.set("b", "new") // past the guard
		time.Sleep(time.Second)
		let := w.holding("hot")
		w.want("hot", "1")
		free := let.next()
		for range 1950 { // so that the last of the loads a second would be taken
			w.want("hot", "1")
			time.Sleep(time.Millisecond)
		}
		if got, err := w.g.Get(w.Context(), "b"); string(got) != "old" || err != nil {
			t.Errorf("a soft value is %q, %v", got, err)
		}
		synctest.Wait()
		w.want("b", "new")
		free()
	})
}
