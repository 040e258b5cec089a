package guard_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/guard"
)

// Goroutines that run freely put and remove rows, look them up and rebuild the filter. An id that is there all the time
// is found all the time, and when all goroutines have ended every Get returns what the source has.
func TestTogether(t *testing.T) {
	const ids, writers, writes = 20, 3, 25
	for _, filter := range filters {
		t.Run(string(filter), func(t *testing.T) {
			var mu sync.Mutex
			rows := make(map[string]string)
			set := func(id, row string) {
				mu.Lock()
				defer mu.Unlock()
				if rows[id] = row; row == "" {
					delete(rows, id)
				}
			}
			load := func(_ context.Context, id string) ([]byte, error) {
				mu.Lock()
				defer mu.Unlock()
				row, there := rows[id]
				if !there {
					return nil, guard.ErrNotFound
				}
				return []byte(row), nil
			}
			all := func(yield func(string, error) bool) {
				for i := range ids {
					id := fmt.Sprint(i)
					if _, err := load(t.Context(), id); err == nil && !yield(id, nil) {
						return
					}
				}
			}
			db, err := sievekv.Open("", &sievekv.Options{InMemory: true, Logger: quiet})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			g, err := guard.New(db, "users", guard.Options{Empty: true, Filter: filter, Capacity: ids, ErrorRate: 0.25, Load: load, Logger: quiet})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			check := func(err error) {
				if err != nil {
					t.Error(err)
				}
			}
			put := func(id, row string) {
				check(g.PutVia(t.Context(), id, []byte(row), func(context.Context) error { set(id, row); return nil }))
			}
			for i := 0; i < ids; i += 2 { // these stay
				put(fmt.Sprint(i), "row")
			}
			var writing, reading sync.WaitGroup
			ended := make(chan struct{})
			for range 2 {
				reading.Go(func() {
					for {
						for i := 0; i < ids; i += 2 {
							if value, err := g.Get(t.Context(), fmt.Sprint(i)); err != nil || len(value) == 0 {
								t.Errorf("Get %d: %q, %v", i, value, err)
							}
							if _, err := g.Get(t.Context(), fmt.Sprint(i+1)); err != nil && !errors.Is(err, guard.ErrNotFound) {
								t.Error(err)
							}
						}
						select {
						case <-ended:
							return
						default:
						}
					}
				})
			}
			reading.Go(func() {
				for {
					check(g.Rebuild(t.Context(), all))
					select {
					case <-ended:
						return
					default:
					}
				}
			})
			for w := range writers {
				writing.Go(func() {
					for n := range writes {
						id := fmt.Sprint(rand.IntN(ids/2)*2 + 1)
						switch rand.IntN(3) {
						case 0:
							check(g.RemoveVia(t.Context(), id, func(context.Context) error { set(id, ""); return nil }))
						case 1:
							put(id, fmt.Sprint(w, n))
						default:
							put(fmt.Sprint(rand.IntN(ids/2)*2), fmt.Sprint(w, n))
						}
					}
				})
			}
			writing.Wait()
			close(ended)
			reading.Wait()
			for i := range ids {
				id := fmt.Sprint(i)
				var want any = guard.ErrNotFound
				if row, there := rows[id]; there {
					want = row
				}
				value, err := g.Get(t.Context(), id)
				wantResult(t, id, guard.Result{Value: value, Err: err}, want)
			}
		})
	}
}
