package guard_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/guard"
)

// A meta record of a newer program is not taken for one of this.
func TestNew_newer(t *testing.T) {
	inWorld(t, &guard.Options{Empty: true}, func(w *world) {
		w.g.Close()
		w.check(w.db.Set("guard:users", []byte(`{"version":2,"filter":"bloom","in_use":1,"last":1}`)))
		if _, err := guard.New(w.db, "users", w.options(guard.Options{})); !errors.Is(err, sievekv.ErrUnsupportedVersion) {
			t.Error(err)
		}
	})
}

// What somebody has put in the place of a guard's keys is an error of writes, which then change nothing.
func TestPut_otherKeys(t *testing.T) {
	for _, filter := range filters {
		inWorld(t, &guard.Options{Empty: true, Filter: filter}, func(w *world) {
			put := func(id string) error { return w.g.Put(w.Context(), id, []byte("1"), nil) }
			w.check(put("a"))
			if filter != guard.Bloom {
				w.check(w.db.Set("guard:users:id:damaged", []byte{0xff}))
				w.check(w.db.Bloom("guard:users:id:other").Reserve(sievekv.Capacity(10, 0.1), nil))
				if err := put("damaged"); !errors.Is(err, sievekv.ErrCorrupt) {
					t.Errorf("%s: a record that ends early: %v", filter, err)
				}
				if err := put("other"); !errors.Is(err, sievekv.ErrWrongType) {
					t.Errorf("%s: a filter in place of a record: %v", filter, err)
				}
			}
			w.check(w.db.Set("guard:users:filter", []byte("x")))
			if err := put("b"); !errors.Is(err, sievekv.ErrWrongType) {
				t.Errorf("%s: a string in place of the filter: %v", filter, err)
			}
			if filter == guard.Bloom {
				return
			}
			if err := w.g.Remove(w.Context(), "a", nil); !errors.Is(err, sievekv.ErrWrongType) {
				t.Errorf("%s: Remove with a string in place of the filter: %v", filter, err)
			}
		})
	}
}

// A rebuild that meets damaged records returns the error of the first.
func TestRebuild_damagedRecords(t *testing.T) {
	defer guard.SetRebuildBatch(1)()
	inWorld(t, &guard.Options{Empty: true, Filter: guard.Cuckoo}, func(w *world) {
		w.put("a", "1")
		for _, id := range []string{"x", "y", "z"} {
			w.check(w.db.Set("guard:users:id:"+id, []byte{0xff}))
		}
		if err := w.g.Rebuild(w.Context(), w.allRows()); !errors.Is(err, sievekv.ErrCorrupt) {
			t.Error(err)
		}
		w.want("a", "1")
	})
}

// An entry of a kind that is not known is missing: the value is loaded.
func TestCache_otherKind(t *testing.T) {
	cache := newOutside()
	inWorld(t, &guard.Options{Empty: true, Cache: cache}, func(w *world) {
		w.put("a", "1")
		w.want("a", "1")
		cache.change(func() {
			entry := cache.entries["guard:users:value:a"]
			cache.entries["guard:users:value:a"] = append([]byte{9}, entry[1:]...)
		})
		w.set("a", "2")
		w.want("a", "2")
	})
}

// In the first seconds of 1970 a missing entry is not young.
func TestGet_clockAtZero(t *testing.T) {
	inWorldAt(t, func() time.Time { return time.UnixMilli(0) }, &guard.Options{Empty: true, TTL: 24 * time.Hour}, func(w *world) {
		w.set("a", "1")
		w.check(w.g.Put(w.Context(), "a", nil, nil))
		w.want("a", "1")
	})
}

// What was not asked is not absent.
func TestGet_failedIsAbsentNotAsked(t *testing.T) {
	inWorld(t, &guard.Options{Empty: true, FailedIsAbsent: true, BreakerFailures: 1, BreakerPause: time.Hour}, func(w *world) {
		for _, id := range []string{"a", "b"} {
			w.set(id, "1")
			w.check(w.g.Put(w.Context(), id, nil, nil))
		}
		w.fail(errSource)
		w.want("a", guard.ErrNotFound)
		w.want("b", guard.ErrUnavailable)
		w.wantLoads("b", 0)
	})
}

// A guard that is closed while its server still runs is not a source that fails.
func TestMiddleware_closed(t *testing.T) {
	inWorld(t, &guard.Options{Empty: true}, func(w *world) {
		w.check(w.g.Put(w.Context(), "a", nil, nil))
		w.g.Close()
		out := httptest.NewRecorder()
		guard.Middleware(w.g, func(*http.Request) string { return "a" })(nil).ServeHTTP(out, httptest.NewRequestWithContext(w.Context(), "GET", "/", nil))
		if out.Code != http.StatusServiceUnavailable || out.Header().Get("Retry-After") == "" {
			t.Errorf("%d, %v", out.Code, out.Header())
		}
	})
}

// Warm gives back its turn if others have begun all of its loads when it is its turn.
func TestWarm_begunByOthers(t *testing.T) {
	inWorld(t, &guard.Options{Empty: true, MaxLoads: 1}, func(w *world) {
		for _, id := range []string{"a", "b"} {
			w.set(id, "1")
			w.check(w.g.Put(w.Context(), id, nil, nil))
		}
		hold := w.holding("b")
		first := w.get(w.Context(), "b")
		let := hold.next()
		warmed := make(chan error, 1)
		go func() { _, err := w.g.Warm(w.Context(), seqOf("a")); warmed <- err }()
		synctest.Wait() // it waits for its turn
		second := w.get(w.Context(), "a")
		synctest.Wait()
		let()
		wantResult(t, "b", <-first, "1")
		wantResult(t, "a", <-second, "1")
		w.check(<-warmed)
		w.wantLoads("a", 1)
	})
}

// Warm takes an id that is being written, and not loaded.
func TestWarm_duringPut(t *testing.T) {
	inWorld(t, &guard.Options{Empty: true}, func(w *world) {
		w.check(w.g.PutVia(w.Context(), "a", []byte("1"), func(ctx context.Context) error {
			w.set("a", "1")
			_, err := w.g.Warm(ctx, seqOf("a"))
			return err
		}))
		w.want("a", "1")
	})
}

// A key of OnceTx that holds something else is an error, and nothing runs.
func TestOnceTx_otherType(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.check(w.db.Bloom(guard.OnceKey("a")).Reserve(sievekv.Capacity(10, 0.1), nil))
		_, err := guard.OnceTx(w.Context(), w.db, "a", time.Minute, func(*sievekv.Tx) (int, error) {
			t.Error("it runs")
			return 1, nil
		})
		if !errors.Is(err, sievekv.ErrWrongType) {
			t.Error(err)
		}
	})
}
