package guard_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sievekv/sievekv/guard"
)

// wrongClock is the store's clock. It is wrong by the time that wrong returns for the number of the look at it, from 0 on.
type wrongClock struct {
	looks atomic.Int64
	wrong func(look int64) time.Duration
}

func (c *wrongClock) time() time.Time { return time.Now().Add(c.wrong(c.looks.Add(1) - 1)) }

// callsOfAll makes calls of every kind that may need a load: first, joined while that goes on, and afterwards. Results
// must be right whatever the clock says, and every call makes two loads at most.
func callsOfAll(w *world) {
	calls := 0
	w.set("a", "1")
	w.set("b", "2")
	let := w.holding("a")
	var joined []<-chan guard.Result
	joined = append(joined, w.get(w.Context(), "a"))
	free := let.next()
	w.free("a")
	joined = append(joined, w.get(w.Context(), "a"))
	many := make(chan []guard.Result, 1)
	go func() { many <- w.g.GetMany(w.Context(), "a", "b", "none") }()
	warmed := done(func() error { _, err := w.g.Warm(w.Context(), seqOf("a", "b", "none")); return err })
	synctest.Wait()
	free()
	for _, result := range joined {
		wantResult(w.T, "a", <-result, "1")
	}
	calls += len(joined) + 2
	results := <-many
	for i, want := range []any{"1", "2", guard.ErrNotFound} {
		wantResult(w.T, fmt.Sprint("many ", i), results[i], want)
	}
	w.check(<-warmed)
	for range 2 {
		w.want("a", "1")
		w.want("none", guard.ErrNotFound)
		calls++
	}
	w.check(w.g.Put(w.Context(), "a", []byte("1"), nil))
	w.put("a", "1")
	w.want("a", "1")
	w.remove("b")
	w.want("b", guard.ErrNotFound)
	calls++
	for _, id := range []string{"a", "b", "none"} {
		if n := w.loadsOf(id); n > 2*calls {
			w.Errorf("%q was loaded %d times by %d calls", id, n, calls)
		}
	}
}

// A clock that is set back or forward at any moment, or all the time, changes only when an entry expires: every call ends,
// and has a right result.
func TestClock_jumps(t *testing.T) {
	const far = 24 * time.Hour
	for name, cache := range map[string]bool{"store": false, "outside": true} {
		run := func(what string, wrong func(look int64) time.Duration) (looks int64) {
			clock := &wrongClock{wrong: wrong}
			o := &guard.Options{TTL: time.Second, MaxStale: time.Second, NullTTL: time.Second, Jitter: -1}
			if cache {
				o.Cache = newOutside()
			}
			inWorldAt(t, clock.time, o, callsOfAll)
			if t.Failed() {
				t.Fatalf("%s, %s", name, what)
			}
			return clock.looks.Load()
		}
		looks := run("right", func(int64) time.Duration { return 0 })
		for _, by := range []time.Duration{-far, far} {
			for at := range looks {
				run(fmt.Sprintf("set by %v at look %d", by, at), func(look int64) time.Duration {
					if look < at {
						return 0
					}
					return by
				})
			}
		}
		for pattern := range int64(8) {
			run(fmt.Sprintf("pattern %03b", pattern), func(look int64) time.Duration {
				return time.Duration(pattern>>(look%3)&1) * far
			})
		}
	}
}

// Whether a stale value may be served when its load has failed does not depend on the clock.
func TestClock_stale(t *testing.T) {
	for _, set := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		for _, took := range []time.Duration{58 * time.Second, 59 * time.Second} {
			var wrong atomic.Int64
			clock := func() time.Time { return time.Now().Add(time.Duration(wrong.Load())) }
			o := &guard.Options{TTL: time.Second, MaxStale: time.Minute, Jitter: -1, LoadTimeout: time.Hour}
			inWorldAt(t, clock, o, func(w *world) {
				w.set("a", "old")
				w.want("a", "old")
				time.Sleep(2 * time.Second)
				w.fail(errSource)
				let := w.holding("a")
				result := w.get(w.Context(), "a")
				free := let.next()
				wrong.Store(int64(set))
				time.Sleep(took)
				free()
				var want any = "old"
				if took >= 59*time.Second {
					want = errSource
				}
				wantResult(t, "a", <-result, want)
			})
		}
	}
}
