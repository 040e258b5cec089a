package guard_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/guard"
	"github.com/sievekv/sievekv/kv"
)

func TestGet(t *testing.T) {
	for _, filter := range filters {
		t.Run(string(filter), func(t *testing.T) {
			o := &guard.Options{Empty: true, Filter: filter, ErrorRate: exact, TTL: 10 * time.Second, Jitter: -1, MaxStale: -1}
			inWorld(t, o, func(w *world) {
				w.want("a", guard.ErrNotFound)
				w.wantLoads("a", 0) // the filter refused it
				w.put("a", "1")
				w.want("a", "1")
				w.wantLoads("a", 0) // the value was Put
				time.Sleep(10 * time.Second)
				w.want("a", "1")
				w.want("a", "1")
				w.wantLoads("a", 1)
				w.put("empty", "")
				time.Sleep(10 * time.Second)
				w.want("empty", "")
				w.want("empty", "")
				w.remove("a")
				w.want("a", guard.ErrNotFound)
				w.wantLoads("a", 1)
				w.put("a", "2")
				w.want("a", "2")
				s := w.g.Stats()
				if s.Asked != 8 || s.Hits != 4 || s.Misses != 2 || s.Loads != 2 || s.Refused+s.Nulls != 2 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// Each id that is absent in the source is remembered for NullTTL.
func TestGet_null(t *testing.T) {
	inWorld(t, &guard.Options{NullTTL: 5 * time.Second, Jitter: -1}, func(w *world) { // no filter yet
		for round := range 3 {
			for range 3 {
				w.want("a", guard.ErrNotFound)
			}
			w.wantLoads("a", round+1)
			time.Sleep(5 * time.Second)
		}
		w.put("a", "1")
		w.want("a", "1")
	})
	inWorld(t, &guard.Options{NullTTL: -1}, func(w *world) {
		w.want("a", guard.ErrNotFound)
		w.want("a", guard.ErrNotFound)
		w.wantLoads("a", 2)
	})
}

// A caller may change the slice that Get returns.
func TestGet_ownSlice(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.set("a", "1")
		let := w.holding("a")
		first, second := w.get(w.Context(), "a"), w.get(w.Context(), "a")
		free := let.next()
		synctest.Wait()
		free()
		for _, result := range []<-chan guard.Result{first, second} {
			got := <-result
			wantResult(t, "a", got, "1")
			got.Value[0] = 'x'
		}
		w.free("a")
		got, err := w.g.Get(w.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		got[0] = 'x'
		w.want("a", "1")
	})
}

// A failure of the source is not remembered as absent, whatever it looks like.
func TestGet_failure(t *testing.T) {
	for name, fail := range map[string]func(context.Context, string) ([]byte, error){
		"error": func(context.Context, string) ([]byte, error) { return nil, errSource },
		"panic": func(context.Context, string) ([]byte, error) { panic("oh") },
	} {
		t.Run(name, func(t *testing.T) {
			var w *world
			down := true
			load := func(ctx context.Context, id string) ([]byte, error) {
				if down {
					return fail(ctx, id)
				}
				return w.load(ctx, id)
			}
			inWorld(t, &guard.Options{Load: load}, func(inner *world) {
				w = inner
				w.set("a", "1")
				if _, err := w.g.Get(w.Context(), "a"); err == nil || errors.Is(err, guard.ErrNotFound) {
					t.Errorf("Get: %v", err)
				}
				down = false
				w.want("a", "1")
				w.want("b", guard.ErrNotFound)
			})
		})
	}
}

// An error of LoadMany is a failure, even if it is ErrNotFound: that says nothing of a single id.
func TestGetMany_failure(t *testing.T) {
	many := func(context.Context, []string) (map[string][]byte, error) { return nil, guard.ErrNotFound }
	inWorld(t, &guard.Options{LoadMany: many}, func(w *world) {
		for _, r := range w.g.GetMany(w.Context(), "a", "b") {
			if r.Err == nil || errors.Is(r.Err, guard.ErrNotFound) {
				t.Error(r.Err)
			}
		}
	})
}

func TestGet_failedIsAbsent(t *testing.T) {
	inWorld(t, &guard.Options{FailedIsAbsent: true, NullTTL: time.Minute, Jitter: -1}, func(w *world) {
		w.set("a", "1")
		w.fail(errSource)
		w.want("a", guard.ErrNotFound)
		w.fail(nil)
		w.want("a", guard.ErrNotFound)
		time.Sleep(time.Minute)
		w.want("a", "1")
	})
}

// Without a filter, and with one that cannot be read, every lookup goes on.
func TestGet_unfiltered(t *testing.T) {
	inWorld(t, &guard.Options{Empty: true, ErrorRate: exact}, func(w *world) {
		w.set("a", "1")
		w.want("a", guard.ErrNotFound) // it was not Put
		if _, err := w.db.Delete("guard:users:filter"); err != nil {
			t.Fatal(err)
		}
		w.want("a", "1")
		wantResult(t, "a", w.g.GetMany(w.Context(), "a")[0], "1")
		if n := w.g.Stats().FilterFaults; n != 2 {
			t.Errorf("%d faults of the filter, want 2", n)
		}
		w.put("b", "2") // the filter stays away
		w.want("b", "2")
		w.check(w.db.Set("guard:users:filter", []byte("no filter")))
		w.want("a", "1")
		w.check(w.g.Rebuild(w.Context(), w.allRows()))
		w.want("a", "1")
		w.want("c", guard.ErrNotFound)
		w.wantLoads("c", 0)
	})
	inWorld(t, &guard.Options{RefuseUnfiltered: true}, func(w *world) {
		w.set("a", "1")
		refused := func(cause error) {
			t.Helper()
			_, err := w.g.Get(w.Context(), "a")
			for _, err := range []error{err, w.g.GetMany(w.Context(), "a")[0].Err} {
				if !errors.Is(err, guard.ErrUnfiltered) || errors.Is(err, guard.ErrNotFound) || errors.Is(err, sievekv.ErrNotFound) || !errors.Is(err, cause) {
					t.Errorf("without a filter: %v", err)
				}
			}
		}
		refused(guard.ErrUnfiltered)
		w.check(w.g.Rebuild(w.Context(), w.allRows()))
		w.want("a", "1")
		w.check(w.db.Set("guard:users:filter", []byte("no filter")))
		refused(sievekv.ErrWrongType)
		w.wantLoads("a", 1)
	})
}

// A guard whose meta record somebody has removed refuses no id that is there, and begins again.
func TestGet_lostMeta(t *testing.T) {
	for _, filter := range filters {
		for _, again := range []bool{false, true} {
			o := guard.Options{Empty: true, Filter: filter, ErrorRate: exact}
			inWorld(t, &o, func(w *world) {
				w.put("a", "1")
				time.Sleep(time.Minute)
				if _, err := w.db.Delete("guard:users"); err != nil {
					t.Fatal(err)
				}
				if again {
					w.g.Close()
					o.Empty = false
					w.g = w.open("users", w.options(o))
					w.set("b", "2")
				} else {
					w.put("b", "2")
				}
				w.want("a", "1")
				w.want("b", "2")
				w.check(w.g.Rebuild(w.Context(), w.allRows()))
				w.want("a", "1")
				w.want("b", "2")
				w.want("c", guard.ErrNotFound)
				w.wantLoads("c", 0)
			})
		}
	}
}

// An id that is too long for a key of the store is loaded each time, and is no fault of the cache.
func TestGet_longID(t *testing.T) {
	id := strings.Repeat("x", kv.MaxKeyLen)
	inWorld(t, nil, func(w *world) {
		w.set(id, "1")
		w.want(id, "1")
		wantResult(t, "long id", w.g.GetMany(w.Context(), id)[0], "1")
		w.check(w.g.Rebuild(w.Context(), seqOf(id)))
		w.want(id, "1")
		w.wantLoads(id, 3)
		if s := w.g.Stats(); s.CacheFaults != 0 {
			t.Errorf("%+v", s)
		}
		err := w.g.PutVia(w.Context(), id, []byte("2"), func(context.Context) error { t.Error("the row was written"); return nil })
		if !errors.Is(err, sievekv.ErrTooLarge) {
			t.Error(err)
		}
	})
}

func TestGetMany(t *testing.T) {
	var calls [][]string
	var w *world
	many := func(_ context.Context, ids []string) (map[string][]byte, error) {
		calls = append(calls, ids)
		found := make(map[string][]byte)
		for _, id := range ids {
			if row, there := w.rows[id]; there {
				found[id] = []byte(row)
			}
		}
		return found, w.err
	}
	for _, withLoad := range []bool{false, true} {
		o := &guard.Options{Empty: true, ErrorRate: exact, TTL: time.Minute, Jitter: -1, MaxStale: -1, LoadMany: many}
		calls = nil
		inWorld(t, o, func(inner *world) {
			w = inner
			if withLoad {
				w.g.Close()
				o.Load, o.Logger = w.load, quiet
				w.g = w.open("users", *o)
			}
			for i := range 5 {
				w.put(fmt.Sprint(i), fmt.Sprint("row ", i))
			}
			w.unset("3") // past the guard
			time.Sleep(time.Minute)
			w.want("0", "row 0")
			calls = nil
			for range 2 {
				got := w.g.GetMany(w.Context(), "0", "4", "1", "nobody", "3", "4")
				for i, want := range []any{"row 0", "row 4", "row 1", guard.ErrNotFound, guard.ErrNotFound, "row 4"} {
					wantResult(t, fmt.Sprint("result ", i), got[i], want)
				}
			}
			if len(calls) != 1 || strings.Join(calls[0], " ") != "4 1 3" {
				t.Errorf("LoadMany was called for %q", calls)
			}
			if len(w.g.GetMany(w.Context())) != 0 {
				t.Error("results for no ids")
			}
			time.Sleep(time.Minute)
			w.err = errSource
			for i, r := range w.g.GetMany(w.Context(), "0", "1") {
				wantResult(t, fmt.Sprint(i), r, errSource)
			}
		})
	}
	inWorld(t, nil, func(w *world) { // each by Load
		w.set("a", "1")
		w.set("b", "2")
		got := w.g.GetMany(w.Context(), "a", "b", "c", "a")
		for i, want := range []any{"1", "2", guard.ErrNotFound, "1"} {
			wantResult(t, fmt.Sprint("result ", i), got[i], want)
		}
		w.wantLoads("a", 1)
		w.wantLoads("c", 1)
	})
}

// A value is fresh until its soft TTL, then served while one load refreshes it, then loaded, and served for MaxStale more
// while the source fails.
func TestGet_ages(t *testing.T) {
	o := &guard.Options{Empty: true, TTL: 10 * time.Second, SoftTTL: 6 * time.Second, MaxStale: 5 * time.Second, Jitter: -1, BreakerFailures: -1}
	inWorld(t, o, func(w *world) {
		w.put("a", "1")
		w.set("a", "2") // past the guard
		time.Sleep(6*time.Second - time.Millisecond)
		w.want("a", "1")
		synctest.Wait()
		w.wantLoads("a", 0)
		time.Sleep(time.Millisecond)
		w.fail(errSource)
		w.want("a", "1") // soft
		synctest.Wait()
		w.wantLoads("a", 1)
		w.want("a", "1")
		synctest.Wait()
		w.wantLoads("a", 2) // the first refresh has failed
		w.fail(nil)
		w.want("a", "1")
		synctest.Wait()
		w.want("a", "2") // refreshed
		w.wantLoads("a", 3)

		w.set("a", "3")
		w.fail(errSource)
		time.Sleep(10 * time.Second)
		w.want("a", "2") // stale
		w.wantLoads("a", 4)
		time.Sleep(5*time.Second - time.Millisecond)
		w.want("a", "2")
		time.Sleep(time.Millisecond)
		w.want("a", errSource)
		w.fail(nil)
		w.want("a", "3")
		if s := w.g.Stats(); s.Stale != 2 || s.Soft != 3 || s.Failed != 5 {
			t.Errorf("%+v", s)
		}
	})
}

// A value's age begins when its load does.
func TestGet_born(t *testing.T) {
	var w *world
	load := func(ctx context.Context, id string) ([]byte, error) {
		value, err := w.load(ctx, id)
		time.Sleep(4 * time.Second)
		return value, err
	}
	inWorld(t, &guard.Options{Load: load, TTL: 10 * time.Second, SoftTTL: 10 * time.Second, Jitter: -1, MaxStale: -1}, func(inner *world) {
		w = inner
		w.set("a", "1")
		w.want("a", "1")
		w.set("a", "2")
		time.Sleep(6*time.Second - time.Millisecond)
		w.want("a", "1")
		time.Sleep(time.Millisecond)
		w.want("a", "2")
	})
}

// A stale value that becomes too old while a load tries to replace it is not served.
func TestGet_tooOld(t *testing.T) {
	down := func(context.Context, string) ([]byte, error) {
		time.Sleep(2 * time.Second)
		return nil, errSource
	}
	inWorld(t, &guard.Options{Empty: true, Load: down, TTL: 10 * time.Second, MaxStale: 5 * time.Second, Jitter: -1}, func(w *world) {
		w.put("a", "1")
		time.Sleep(12 * time.Second)
		w.want("a", "1")
		w.want("a", errSource)
	})
}

// If the clock was set back, nothing is known of the age of what was stored.
func TestGet_clock(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	db, err := sievekv.Open("", &sievekv.Options{InMemory: true, Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	loads := 0
	load := func(context.Context, string) ([]byte, error) { loads++; return []byte("row"), nil }
	g, err := guard.New(db, "users", guard.Options{Load: load, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for _, step := range []struct {
		by    time.Duration
		loads int
	}{{0, 1}, {-time.Second, 1}, {-time.Millisecond, 2}, {0, 2}} {
		now = now.Add(step.by)
		value, err := g.Get(t.Context(), "a")
		if wantResult(t, "a", guard.Result{Value: value, Err: err}, "row"); loads != step.loads {
			t.Errorf("after %v: %d loads, want %d", step.by, loads, step.loads)
		}
	}
}

// Jitter makes every entry live for a part of its times.
func TestGet_jitter(t *testing.T) {
	const ids, ttl = 1000, 100 * time.Second
	o := &guard.Options{Empty: true, ErrorRate: exact, TTL: ttl, SoftTTL: ttl, MaxStale: -1, Jitter: 0.5}
	inWorld(t, o, func(w *world) {
		for i := range ids {
			w.check(w.g.Put(w.Context(), fmt.Sprint(i), []byte("row"), nil))
			w.set(fmt.Sprint(i), "row")
		}
		time.Sleep(ttl/2 - time.Millisecond)
		before := 0
		for part := range 6 { // before half of the TTL, then each tenth of it
			for i := range ids {
				w.want(fmt.Sprint(i), "row")
			}
			loads := int(w.g.Stats().Loads)
			switch n := loads - before; {
			case part == 0 && n != 0:
				t.Errorf("%d values expired in the first half of their TTL", n)
			case part > 0 && (n < ids/10 || n > ids*3/10): // of 200, with a standard deviation of 13
				t.Errorf("%d of %d values expired in a tenth of the TTL", n, ids)
			}
			before = loads
			if part == 0 {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(ttl / 10)
		}
		if before != ids {
			t.Errorf("%d of %d values expired within the TTL", before, ids)
		}
	})
}

// What was stored under other options expires by the present ones.
func TestNew_otherTimes(t *testing.T) {
	o := guard.Options{TTL: time.Hour, NullTTL: time.Hour, Jitter: -1}
	inWorld(t, &o, func(w *world) {
		w.put("a", "1")
		w.set("a", "2")
		w.want("b", guard.ErrNotFound)
		w.set("b", "2")
		w.g.Close()
		o.TTL, o.MaxStale, o.NullTTL = time.Second, -1, time.Second
		w.g = w.open("users", w.options(o))
		w.want("a", "1")
		time.Sleep(time.Second)
		w.want("a", "2")
		w.want("b", "2")
	})
}

// The error of New names every wrong option, and none that is right or was not set.
func TestNew_wrong(t *testing.T) {
	const long = 1 << 62
	inWorld(t, nil, func(w *world) {
		for _, tt := range []struct {
			o    guard.Options
			want string
		}{
			{guard.Options{TTL: -time.Second}, "TTL"},
			{guard.Options{TTL: long}, "TTL"},
			{guard.Options{TTL: -time.Second, SoftTTL: time.Second}, "TTL"},
			{guard.Options{TTL: time.Second, SoftTTL: long}, "SoftTTL"},
			{guard.Options{TTL: time.Second, SoftTTL: time.Minute, MaxStale: long}, "SoftTTL MaxStale"},
			{guard.Options{SoftTTL: time.Hour}, "SoftTTL"},
			{guard.Options{Capacity: 1 << 62}, "Capacity"},
			{guard.Options{ErrorRate: 2}, "ErrorRate"},
			{guard.Options{Capacity: 1 << 62, ErrorRate: 2}, "Capacity ErrorRate"},
			{guard.Options{Capacity: 1 << 62, ErrorRate: 2, Filter: "xor"}, "Filter Capacity ErrorRate"},
			{guard.Options{Capacity: 1e9, ErrorRate: 1.65e-9, Filter: guard.Cuckoo}, "Capacity and ErrorRate"}, // either alone would do
			{guard.Options{
				LoadTimeout: -1, TTL: 1, SoftTTL: long, MaxStale: long, NullTTL: long, BreakerPause: -1, Jitter: 1.5, MaxLoads: -1, LoadsPerSecond: -1,
			}, "LoadTimeout TTL SoftTTL MaxStale NullTTL BreakerPause Jitter MaxLoads LoadsPerSecond"},
		} {
			tt.o.Load, tt.o.Logger = w.load, quiet
			_, err := guard.New(w.db, "other", tt.o)
			if err == nil {
				t.Errorf("%s: no error", tt.want)
				continue
			}
			var names []string
			for line := range strings.SplitSeq(strings.TrimPrefix(err.Error(), "kv: bad options: guard: "), "\n") {
				name, _, _ := strings.Cut(line, ":")
				name, _, _ = strings.Cut(name, " is ")
				names = append(names, name)
			}
			if got := strings.Join(names, " "); got != tt.want {
				t.Errorf("named: %s, wrong: %s\n%v", got, tt.want, err)
			}
		}
	})
}

func TestNew_errors(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		load := w.load
		many := func(context.Context, []string) (map[string][]byte, error) { return nil, nil }
		for name, o := range map[string]guard.Options{
			"neither Load nor LoadMany": {},
			"Filter":                    {Load: load, Filter: "xor"},
			"LoadTimeout":               {Load: load, LoadTimeout: 1},
			"TTL":                       {Load: load, TTL: -time.Second},
			"SoftTTL":                   {Load: load, TTL: time.Second, SoftTTL: 2 * time.Second},
			"MaxStale":                  {Load: load, MaxStale: 1 << 62},
			"NullTTL":                   {LoadMany: many, NullTTL: 1 << 62},
			"BreakerPause":              {Load: load, BreakerPause: -1},
			"Jitter":                    {Load: load, Jitter: 1.5},
			"MaxLoads":                  {Load: load, MaxLoads: -1},
			"LoadsPerSecond":            {Load: load, LoadsPerSecond: -1},
		} {
			if _, err := guard.New(w.db, "other", o); !errors.Is(err, sievekv.ErrOptions) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, name := range []string{"", "a:b", strings.Repeat("a", 201)} {
			if _, err := guard.New(w.db, name, guard.Options{Load: load}); !errors.Is(err, sievekv.ErrOptions) {
				t.Errorf("name %q: %v", name, err)
			}
		}
		for _, filter := range filters {
			for name, o := range map[string]guard.Options{
				"error rate is 2":           {ErrorRate: 2},
				"error rate is -1":          {ErrorRate: -1},
				"error rate is NaN":         {ErrorRate: math.NaN()},
				"capacity is 1099511627777": {Capacity: 1<<40 + 1},
			} {
				o.Load, o.Filter, o.Logger = load, filter, quiet
				for _, o.Empty = range []bool{false, true} {
					if _, err := guard.New(w.db, "other", o); !errors.Is(err, sievekv.ErrConfig) || !errors.Is(err, sievekv.ErrOptions) || !strings.Contains(err.Error(), name) {
						t.Errorf("%s, %s: %v", filter, name, err)
					}
				}
			}
		}
		if _, err := guard.New(w.db, "users", guard.Options{Load: load}); !errors.Is(err, guard.ErrOpen) {
			t.Error(err)
		}
		g := w.open("other", guard.Options{Load: load, Logger: quiet}) // the failed ones are not open
		g.Close()
		g.Close()
		w.open("other", guard.Options{Load: load, Logger: quiet}).Close()
	})
}

// Guards of one store share nothing.
func TestNew_several(t *testing.T) {
	inWorld(t, &guard.Options{Empty: true, ErrorRate: exact}, func(w *world) {
		other := w.open("users2", w.options(guard.Options{Empty: true, ErrorRate: exact}))
		defer other.Close()
		w.put("a", "1")
		w.want("a", "1")
		w.wantOf(other, "a", guard.ErrNotFound)
	})
}

// A guard finds what it left, and with another type of filter begins without one.
func TestNew_again(t *testing.T) {
	for _, first := range filters {
		for _, second := range filters {
			inWorld(t, &guard.Options{Empty: true, Filter: first, ErrorRate: exact}, func(w *world) {
				w.put("a", "1")
				w.g.Close()
				w.set("b", "2")
				w.g = w.open("users", w.options(guard.Options{Empty: true, Filter: second, ErrorRate: exact}))
				w.want("a", "1")
				p, err := w.g.Progress()
				if err != nil || p.Filled != (first == second) {
					t.Errorf("%s, then %s: %+v, %v", first, second, p, err)
				}
				if first == second {
					w.want("b", guard.ErrNotFound)
					return
				}
				w.want("b", "2")
				w.check(w.g.Rebuild(w.Context(), w.allRows()))
				w.want("b", "2")
				w.want("c", guard.ErrNotFound)
				w.wantLoads("c", 0)
				w.remove("a")
				w.want("a", guard.ErrNotFound)
			})
		}
	}
}

func TestClose(t *testing.T) {
	inWorld(t, &guard.Options{Empty: true, ErrorRate: exact}, func(w *world) {
		w.put("a", "1")
		w.set("b", "2")
		w.check(w.g.Put(w.Context(), "b", nil, nil))
		ended := make(chan struct{})
		w.g.Close()
		w.g = w.open("users", w.options(guard.Options{Load: func(ctx context.Context, id string) ([]byte, error) {
			<-ctx.Done()
			close(ended)
			return nil, ctx.Err()
		}}))
		result := w.get(w.Context(), "b")
		synctest.Wait()
		begin := time.Now()
		w.g.Close() // ends the load
		if took := time.Since(begin); took != 0 {
			t.Errorf("Close took %v", took)
		}
		select {
		case <-ended:
		default:
			t.Error("Close has not waited for the load")
		}
		wantResult(t, "b", <-result, guard.ErrClosed)
		w.want("a", "1")
		w.want("b", guard.ErrClosed)
		w.want("nobody", guard.ErrNotFound)
		wantResult(t, "b", w.g.GetMany(w.Context(), "b")[0], guard.ErrClosed)
		for _, err := range []error{
			w.g.Put(w.Context(), "c", nil, nil), w.g.Remove(w.Context(), "c", nil), w.g.Rebuild(w.Context(), seqOf()),
			func() error { _, err := w.g.Warm(w.Context(), seqOf()); return err }(),
		} {
			if !errors.Is(err, guard.ErrClosed) {
				t.Error(err)
			}
		}
		if p, err := w.g.Progress(); p.Rebuilding || err != nil {
			t.Errorf("a Rebuild after Close has begun a filter: %+v, %v", p, err)
		}
	})
}

// counted is a cache that counts the looks into it.
type counted struct {
	*outside
	looks atomic.Int64
}

func (c *counted) Get(ctx context.Context, key string) ([]byte, error) {
	c.looks.Add(1)
	return c.outside.Get(ctx, key)
}

// Close has waited for all work of the guard: no load begins afterwards, so that a Get looks into the cache once.
func TestClose_noLoad(t *testing.T) {
	c := &counted{outside: newOutside()}
	inWorld(t, &guard.Options{Empty: true, ErrorRate: exact, Cache: c, NullTTL: -1}, func(w *world) {
		w.check(w.g.Put(w.Context(), "a", nil, nil))
		w.g.Close()
		c.looks.Store(0)
		w.want("a", guard.ErrClosed)
		synctest.Wait()
		if n := c.looks.Load(); n != 1 {
			t.Errorf("%d looks into the cache, want 1", n)
		}
	})
}
