package guard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/guard"
)

// These tests force an order of the steps of several goroutines.

// Callers of one missing value share one load.
func TestLoad_shared(t *testing.T) {
	const callers = 1000
	inWorld(t, nil, func(w *world) {
		w.set("hot", "1")
		let := w.holding("hot")
		results := make([]<-chan guard.Result, callers)
		for i := range results {
			results[i] = w.get(w.Context(), "hot")
		}
		free := let.next()
		synctest.Wait() // all wait for the load
		many := make(chan []guard.Result, 1)
		go func() { many <- w.g.GetMany(w.Context(), "hot", "hot") }()
		synctest.Wait()
		free()
		for _, result := range results {
			wantResult(t, "hot", <-result, "1")
		}
		for _, result := range <-many {
			wantResult(t, "hot", result, "1")
		}
		w.wantLoads("hot", 1)
		if s := w.g.Stats(); s.Shared != callers+1 || s.Loads != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// A caller that gives up does not end the load, nor the wait of others.
func TestLoad_givenUp(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.set("a", "1")
		let := w.holding("a")
		ctx, cancel := context.WithCancel(w.Context())
		first := w.get(ctx, "a")
		free := let.next()
		second := w.get(w.Context(), "a")
		synctest.Wait()
		cancel()
		wantResult(t, "a", <-first, context.Canceled)
		wantResult(t, "a", <-w.get(ctx, "a"), context.Canceled)
		wantResult(t, "a", w.g.GetMany(ctx, "a")[0], context.Canceled)
		wantResult(t, "c", <-w.get(ctx, "c"), context.Canceled)
		synctest.Wait()
		w.wantLoads("c", 0) // nobody waits for it
		free()
		wantResult(t, "a", <-second, "1")
		w.free("a")

		let = w.holding("b")
		ctx, cancel = context.WithCancel(w.Context())
		w.set("b", "2")
		first = w.get(ctx, "b")
		free = let.next()
		cancel()
		wantResult(t, "b", <-first, context.Canceled)
		free()
		synctest.Wait()
		w.want("b", "2") // of the load that nobody waited for
		w.wantLoads("a", 1)
		w.wantLoads("b", 1)
	})
}

// The load has the values of the caller's context.
func TestLoad_context(t *testing.T) {
	type key struct{}
	load := func(ctx context.Context, _ string) ([]byte, error) {
		if _, limited := ctx.Deadline(); !limited {
			t.Error("the load has no end")
		}
		return []byte(ctx.Value(key{}).(string)), nil
	}
	inWorld(t, &guard.Options{Load: load}, func(w *world) {
		got, err := w.g.Get(context.WithValue(w.Context(), key{}, "1"), "a")
		wantResult(t, "a", guard.Result{Value: got, Err: err}, "1")
	})
}

// A load that found the id absent does not hide a Put that came in between, in the cache, or from a Get after it.
func TestLoad_absentThenPut(t *testing.T) {
	writesOf(t, func(w *world, write func(id, row string)) {
		let := w.holding("a")
		before := w.get(w.Context(), "a")
		free := let.next() // it has seen no row
		w.free("a")
		write("a", "1")
		w.want("a", "1")
		free()
		wantResult(t, "a", <-before, guard.ErrNotFound) // it began before
		w.want("a", "1")
	})
}

// A caller that joins a load gets nothing that the load read too long before the caller came, whatever the clock was set to
// meanwhile.
func TestLoad_long(t *testing.T) {
	o := &guard.Options{TTL: time.Second, MaxStale: -1, NullTTL: time.Second, Jitter: -1, LoadTimeout: time.Minute}
	for _, set := range []time.Duration{0, -time.Hour, time.Hour} {
		for _, before := range []string{"old", ""} {
			for _, late := range []time.Duration{time.Second, time.Second + time.Millisecond} {
				var wrong atomic.Int64
				clock := func() time.Time { return time.Now().Add(time.Duration(wrong.Load())) }
				inWorldAt(t, clock, o, func(w *world) {
					var found any = guard.ErrNotFound
					if before != "" {
						w.set("a", before)
						found = before
					}
					let := w.holding("a")
					first := w.get(w.Context(), "a")
					free := let.next()
					w.free("a")
					w.set("a", "new") // past the guard
					time.Sleep(late)
					wrong.Store(int64(set))
					second := w.get(w.Context(), "a")
					many := make(chan guard.Result, 1)
					go func() { many <- w.g.GetMany(w.Context(), "a")[0] }()
					synctest.Wait()
					free()
					wantResult(t, "a", <-first, found)
					if late > o.TTL {
						found = "new"
					}
					wantResult(t, "a", <-second, found)
					wantResult(t, "a", <-many, found)
				})
			}
		}
	}
}

// A Get that begins when the row is there finds it, also if the PutVia that wrote it goes on, and a load that saw no row is
// under way.
func TestLoad_rowBeforePutEnds(t *testing.T) {
	for _, endsFirst := range []bool{false, true} {
		inWorld(t, nil, func(w *world) {
			let, writing := w.holding("a"), make(gate)
			before := w.get(w.Context(), "a")
			free := let.next() // it has seen no row
			w.free("a")
			written := done(func() error {
				return w.g.PutVia(w.Context(), "a", nil, func(context.Context) error {
					w.set("a", "1")
					writing.arrive()
					return nil
				})
			})
			end := writing.next() // the row is there
			late, many := w.get(w.Context(), "a"), make(chan guard.Result, 1)
			go func() { many <- w.g.GetMany(w.Context(), "a")[0] }()
			synctest.Wait() // both have joined the load
			if endsFirst {
				end()
				w.check(<-written)
			}
			free()
			wantResult(t, "a", <-before, guard.ErrNotFound) // it began before
			wantResult(t, "a", <-late, "1")
			wantResult(t, "a", <-many, "1")
			if !endsFirst {
				end()
				w.check(<-written)
			}
			w.want("a", "1")
			if s := w.g.Stats(); s.Shared != 2 { // each caller once, though both have loaded again
				t.Errorf("%+v", s)
			}
		})
	}
}

// A load of an old value does not hide a newer one.
func TestLoad_oldThenPut(t *testing.T) {
	writesOf(t, func(w *world, write func(id, row string)) {
		w.set("a", "old")
		let := w.holding("a")
		before := w.get(w.Context(), "a")
		free := let.next()
		w.free("a")
		write("a", "new")
		after := w.get(w.Context(), "a")
		synctest.Wait()
		free()
		wantResult(t, "a", <-before, "old")
		wantResult(t, "a", <-after, "new")
		w.want("a", "new")
	})
}

// Nor does a load that begins while the write goes on, and has read the old row.
func TestLoad_duringPut(t *testing.T) {
	inWorld(t, &guard.Options{Empty: true}, func(w *world) {
		w.put("a", "old")
		loading, writing := w.holding("a"), make(gate)
		written := done(func() error {
			return w.g.PutVia(w.Context(), "a", []byte("new"), func(context.Context) error {
				writing.arrive()
				w.set("a", "new")
				return nil
			})
		})
		write := writing.next()
		early := w.get(w.Context(), "a")
		freeEarly := loading.next() // it has read the old row, and ends before the write
		freeEarly()
		wantResult(t, "a", <-early, "old")
		late := w.get(w.Context(), "a")
		freeLate := loading.next() // it has read the old row, and ends after the write
		w.free("a")
		write()
		w.check(<-written)
		freeLate()
		wantResult(t, "a", <-late, "old")
		w.want("a", "new")
		w.wantLoads("a", 2)
	})
}

// The same holds for an entry that the caller wants removed, and for a row that goes away.
func TestLoad_thenRemove(t *testing.T) {
	inWorld(t, &guard.Options{Empty: true}, func(w *world) {
		w.put("a", "1")
		w.check(w.g.Put(w.Context(), "a", nil, nil)) // forgets the value
		let := w.holding("a")
		before := w.get(w.Context(), "a")
		free := let.next()
		w.free("a")
		w.set("a", "2")
		w.check(w.g.Put(w.Context(), "a", nil, nil))
		w.want("a", "2")
		w.wantLoads("a", 2)
		free()
		wantResult(t, "a", <-before, "1")
		w.want("a", "2")

		w.check(w.g.Put(w.Context(), "a", nil, nil))
		let = w.holding("a")
		before = w.get(w.Context(), "a")
		free = let.next()
		w.free("a")
		w.remove("a")
		w.want("a", guard.ErrNotFound)
		free()
		wantResult(t, "a", <-before, "2")
		w.want("a", guard.ErrNotFound)
	})
}

// A load that ends late takes no later one off its id.
func TestLoad_laterLoad(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.set("a", "1")
		let := w.holding("a")
		first := w.get(w.Context(), "a")
		freeFirst := let.next()
		w.check(w.g.Put(w.Context(), "a", nil, nil))
		second := w.get(w.Context(), "a")
		freeSecond := let.next()
		w.free("a")
		freeFirst()
		wantResult(t, "a", <-first, "1")
		third := w.get(w.Context(), "a")
		synctest.Wait()
		freeSecond()
		wantResult(t, "a", <-second, "1")
		wantResult(t, "a", <-third, "1")
		w.wantLoads("a", 2)
	})
}

// Nothing is kept in memory of ids that nobody loads or writes.
func TestLoad_forgotten(t *testing.T) {
	inWorld(t, &guard.Options{Empty: true}, func(w *world) {
		w.put("a", "1")
		w.check(w.g.Put(w.Context(), "a", nil, nil))
		w.want("a", "1")
		w.g.GetMany(w.Context(), "a", "b", "c")
		w.remove("a")
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		_ = w.g.Put(ctx, "a", nil, nil)
		if n := w.g.States(); n != 0 {
			t.Errorf("%d ids are in memory", n)
		}
	})
}

// While a row is written elsewhere, the cache has nothing: a crash then leaves no old value.
func TestPutVia_entry(t *testing.T) {
	inWorld(t, &guard.Options{Empty: true}, func(w *world) {
		cached := func(when string, want int) {
			t.Helper()
			if n, err := w.db.Exists("guard:users:value:a"); n != want || err != nil {
				t.Errorf("%s: %d entries, %v, want %d", when, n, err, want)
			}
		}
		w.put("a", "1")
		cached("after Put", 1)
		for _, fail := range []error{nil, errOther} {
			err := w.g.PutVia(w.Context(), "a", []byte("2"), func(context.Context) error {
				cached("in Put", 0)
				w.set("a", "2")
				return fail
			})
			if !errors.Is(err, fail) {
				t.Error(err)
			}
			w.want("a", "2")
			cached("after Get", 1)
			err = w.g.RemoveVia(w.Context(), "a", func(context.Context) error {
				cached("in Remove", 0)
				return errOther
			})
			if !errors.Is(err, errOther) {
				t.Error(err)
			}
			w.want("a", "2")
		}
		w.set("b", "1")
		err := w.g.PutVia(w.Context(), "b", []byte("1"), func(context.Context) error {
			w.want("b", "1") // the filter has it before the row is there
			return errOther
		})
		if !errors.Is(err, errOther) {
			t.Error(err)
		}
		w.want("b", "1")
	})
}

// Whatever the store's level of durability, the filter has an id before its row is written, and no entry is left. What
// Rebuild has put in place stays.
func TestPutVia_crash(t *testing.T) {
	load := func(context.Context, string) ([]byte, error) { return []byte("2"), nil }
	o := guard.Options{Empty: true, ErrorRate: exact, Load: load, Logger: quiet}
	open := func(db *sievekv.DB) *guard.Guard {
		t.Helper()
		g, err := guard.New(db, "users", o)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	for name, run := range map[string]func(g *guard.Guard, crash func()) error{
		"first write": func(g *guard.Guard, crash func()) error {
			return g.PutVia(t.Context(), "a", []byte("1"), func(context.Context) error { crash(); return nil })
		},
		"second write": func(g *guard.Guard, crash func()) error {
			if err := g.Put(t.Context(), "a", []byte("1"), nil); err != nil {
				return err
			}
			return g.PutVia(t.Context(), "a", []byte("1"), func(context.Context) error { crash(); return nil })
		},
		"erase": func(g *guard.Guard, crash func()) error {
			if err := g.PutVia(t.Context(), "a", []byte("1"), func(context.Context) error { return nil }); err != nil {
				return err
			}
			return g.RemoveVia(t.Context(), "a", func(context.Context) error { crash(); return nil })
		},
		"rebuild": func(g *guard.Guard, crash func()) error {
			defer crash()
			return g.Rebuild(t.Context(), seqOf("a"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := crashed(t, func(db *sievekv.DB, crash func()) {
				g := open(db)
				defer g.Close()
				if err := run(g, crash); err != nil {
					t.Error(err)
				}
			})
			g := open(db)
			defer g.Close()
			value, err := g.Get(t.Context(), "a")
			wantResult(t, "a", guard.Result{Value: value, Err: err}, "2")
			if n := g.Stats().Loads; n != 1 {
				t.Errorf("%d loads, want 1", n)
			}
		})
	}
}

// Writes of one id run one after the other, also those that panic; others do not wait for them.
func TestPut_oneByOne(t *testing.T) {
	inWorld(t, &guard.Options{Empty: true}, func(w *world) {
		writing := make(gate)
		put := func(ctx context.Context, id, row string) <-chan error {
			return done(func() error {
				return w.g.PutVia(ctx, id, []byte(row), func(context.Context) error {
					writing.arrive()
					w.set(id, row)
					return nil
				})
			})
		}
		first := put(w.Context(), "a", "1")
		write := writing.next()
		second := put(w.Context(), "a", "2")
		ctx, cancel := context.WithCancel(w.Context())
		third := put(ctx, "a", "3")
		synctest.Wait()
		w.put("b", "1")
		cancel()
		if err := <-third; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		write()
		w.check(<-first)
		writing.next()()
		w.check(<-second)
		w.want("a", "2")
		func() {
			defer func() { _ = recover() }()
			_ = w.g.PutVia(w.Context(), "a", nil, func(context.Context) error { panic("oh") })
		}()
		w.put("a", "4")
		w.want("a", "4")
	})
}

// Row, entry and filter change together.
func TestPut_row(t *testing.T) {
	for _, filter := range filters {
		inWorld(t, &guard.Options{Empty: true, Filter: filter, ErrorRate: exact, BreakerFailures: -1}, func(w *world) {
			row := func(tx *sievekv.Tx) error { return tx.Set("row:a", []byte("1")) }
			w.check(w.g.Put(w.Context(), "a", []byte("1"), row))
			w.want("a", "1")
			err := w.g.Put(w.Context(), "a", []byte("2"), func(tx *sievekv.Tx) error {
				if err := tx.Set("row:a", []byte("2")); err != nil {
					return err
				}
				return errOther
			})
			if !errors.Is(err, errOther) {
				t.Error(err)
			}
			w.want("a", "1")
			err = w.g.Remove(w.Context(), "a", func(tx *sievekv.Tx) error { _, err := tx.Delete("row:a"); return errors.Join(err, errOther) })
			if !errors.Is(err, errOther) {
				t.Error(err)
			}
			w.want("a", "1")
			err = w.g.Put(w.Context(), "b", []byte("1"), func(*sievekv.Tx) error { return errOther })
			if !errors.Is(err, errOther) {
				t.Error(err)
			}
			w.want("b", guard.ErrNotFound)
			w.wantLoads("b", 0) // the filter does not have it
			if got, err := w.db.Get("row:a"); string(got) != "1" || err != nil {
				t.Errorf("the row is %q, %v", got, err)
			}
			w.check(w.g.Remove(w.Context(), "a", func(tx *sievekv.Tx) error { _, err := tx.Delete("row:a"); return err }))
			w.want("a", guard.ErrNotFound)
			if n, err := w.db.Exists("row:a"); n != 0 || err != nil {
				t.Errorf("%d rows, %v", n, err)
			}
			w.check(w.g.Remove(w.Context(), "a", nil))
			if err := w.g.Put(w.Context(), "a", make([]byte, 8<<20), nil); !errors.Is(err, sievekv.ErrTooLarge) {
				t.Error(err)
			}
			w.wantLoads("a", 0)
		})
	}
}

// Deleting an id does not take others away that look the same to the filter, however often it is removed or put. The filter
// is so coarse that most ids look like others.
func TestRemove_lookalikes(t *testing.T) {
	for _, filter := range filters[1:] {
		inWorld(t, &guard.Options{Empty: true, Filter: filter, Capacity: 100, ErrorRate: 0.25}, func(w *world) {
			const ids = 100
			for i := range ids {
				w.put(fmt.Sprint(i), "row")
			}
			check := func(from int) {
				t.Helper()
				for i := from; i < ids; i++ {
					w.want(fmt.Sprint(i), "row")
				}
			}
			for i := ids; i < 2*ids; i++ { // they never were there
				w.remove(fmt.Sprint(i))
			}
			check(0)
			for i := range ids / 2 { // put several times, removed several times
				for range 3 {
					w.put(fmt.Sprint(i), "row")
				}
				for range 3 {
					w.remove(fmt.Sprint(i))
				}
			}
			check(ids / 2)
			for i := range ids / 2 {
				w.put(fmt.Sprint(i), "row")
			}
			check(0)
			refused := w.g.Stats().Refused
			for i := range ids {
				w.remove(fmt.Sprint(i))
			}
			for i := range ids {
				w.want(fmt.Sprint(i), guard.ErrNotFound)
			}
			if n := w.g.Stats().Refused - refused; n != ids {
				t.Errorf("%s: the filter refuses %d of %d ids that were removed", filter, n, ids)
			}
		})
	}
}

// outside is a cache in memory, which a test can hold or make fail.
type outside struct {
	mu      sync.Mutex
	entries map[string][]byte
	err     error
	get     gate // lookups wait after they have looked
	set     gate // writes of an entry wait before they write
}

func (c *outside) Get(_ context.Context, key string) ([]byte, error) {
	c.mu.Lock()
	e, err, gate := c.entries[key], c.err, c.get
	c.mu.Unlock()
	if gate != nil {
		gate.arrive()
	}
	return e, err
}

func (c *outside) Set(_ context.Context, key string, entry []byte, ttl time.Duration) error {
	c.mu.Lock()
	gate := c.set
	c.mu.Unlock()
	if gate != nil && entry != nil {
		gate.arrive()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return c.err
	case entry == nil:
		delete(c.entries, key)
	case ttl <= 0:
		return fmt.Errorf("the time to live is %v", ttl)
	default:
		c.entries[key] = entry
	}
	return nil
}

func (c *outside) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func newOutside() *outside { return &outside{entries: make(map[string][]byte)} }

// writesOf runs a test for each way to write a row.
func writesOf(t *testing.T, test func(w *world, write func(id, row string))) {
	t.Helper()
	for name, o := range map[string]*guard.Options{
		"store":   {},
		"outside": {Cache: newOutside()},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, o, func(w *world) { test(w, w.put) })
			if o.Cache != nil {
				o.Cache = newOutside()
			}
			inWorld(t, o, func(w *world) {
				test(w, func(id, row string) {
					w.check(w.g.Put(w.Context(), id, []byte(row), func(*sievekv.Tx) error { w.set(id, row); return nil }))
				})
			})
		})
	}
}

// A caller that missed the value before a load put it there, and began its own load after that load had ended, does not ask
// the source.
func TestLoad_again(t *testing.T) {
	c := newOutside()
	inWorld(t, &guard.Options{Cache: c}, func(w *world) {
		w.set("a", "1")
		looking := make(gate)
		c.change(func() { c.get = looking })
		late := w.get(w.Context(), "a")
		goOn := looking.next() // it has missed the value
		c.change(func() { c.get = nil })
		w.want("a", "1")
		goOn()
		wantResult(t, "a", <-late, "1")
		w.wantLoads("a", 1)

		c.change(func() { c.get = looking })
		late = w.get(w.Context(), "b")
		goOn = looking.next()
		c.change(func() { c.get = nil })
		w.want("b", guard.ErrNotFound)
		goOn()
		wantResult(t, "b", <-late, guard.ErrNotFound)
		w.wantLoads("b", 1)
	})
}

// A load's write to the cache that takes long does not come after a Put's.
func TestCache_slowWrite(t *testing.T) {
	c := newOutside()
	inWorld(t, &guard.Options{Cache: c}, func(w *world) {
		w.set("a", "old")
		writing := make(gate)
		c.change(func() { c.set = writing })
		before := w.get(w.Context(), "a")
		goOn := writing.next() // the load writes its entry
		c.change(func() { c.set = nil })
		put := done(func() error {
			return w.g.Put(w.Context(), "a", []byte("new"), func(*sievekv.Tx) error { w.set("a", "new"); return nil })
		})
		synctest.Wait()
		goOn()
		w.check(<-put)
		wantResult(t, "a", <-before, "old")
		w.want("a", "new")
	})
}

// A cache that fails is passed by. But nothing is written while an old entry cannot be removed.
func TestCache_fails(t *testing.T) {
	c := newOutside()
	inWorld(t, &guard.Options{Cache: c, Empty: true, ErrorRate: exact}, func(w *world) {
		w.put("a", "1")
		w.want("a", "1")
		w.wantLoads("a", 0)
		c.change(func() { c.err = errOther })
		w.want("a", "1")
		w.wantLoads("a", 1)
		wrote := func(context.Context) error { t.Error("the row was written"); return nil }
		for _, err := range []error{
			w.g.PutVia(w.Context(), "a", []byte("2"), wrote), w.g.RemoveVia(w.Context(), "a", wrote),
			w.g.Put(w.Context(), "a", []byte("2"), func(*sievekv.Tx) error { return wrote(nil) }),
			w.g.Remove(w.Context(), "a", func(*sievekv.Tx) error { return wrote(nil) }),
		} {
			if !errors.Is(err, errOther) {
				t.Error(err)
			}
		}
		if n := w.g.Stats().CacheFaults; n != 3 { // Get, its load, and what that found
			t.Errorf("%d faults of the cache, want 3", n)
		}
		c.change(func() { c.err = nil })
		w.put("a", "2")
		w.want("a", "2")
		w.wantLoads("a", 1)
		w.remove("a")
		w.want("a", guard.ErrNotFound)

		c.change(func() { c.entries["guard:users:value:b"] = []byte("not an entry of the guard's") })
		w.set("b", "1")
		w.check(w.g.Put(w.Context(), "b", nil, nil))
		c.change(func() { c.entries["guard:users:value:b"] = []byte("no entry of the guard's") })
		w.want("b", "1")
	})
}

// A stale value is served at once while a GetMany loads it with others, which takes as long as the slowest; and a caller
// that has none waits for it.
func TestLoad_staleInBatch(t *testing.T) {
	loading := make(gate)
	var calls int
	load := func(_ context.Context, ids []string) (map[string][]byte, error) {
		calls++
		loading.arrive()
		values := make(map[string][]byte)
		for _, id := range ids {
			values[id] = []byte("new")
		}
		return values, nil
	}
	o := &guard.Options{Empty: true, LoadMany: load, TTL: time.Minute, MaxStale: time.Hour, Jitter: -1, LoadTimeout: time.Hour}
	inWorld(t, o, func(w *world) {
		loading = make(gate)
		w.put("stale", "old")
		for _, id := range []string{"cold", "other"} {
			w.check(w.g.Put(w.Context(), id, nil, nil))
		}
		time.Sleep(2 * time.Minute)
		many := make(chan []guard.Result, 1)
		go func() { many <- w.g.GetMany(w.Context(), "stale", "cold") }()
		free := loading.next()
		w.want("stale", "old")
		wantResult(t, "stale", w.g.GetMany(w.Context(), "stale")[0], "old")
		cold := w.get(w.Context(), "cold")
		synctest.Wait()
		free()
		for i, r := range <-many {
			wantResult(t, fmt.Sprint(i), r, "new")
		}
		wantResult(t, "cold", <-cold, "new")
		w.want("stale", "new")
		if s := w.g.Stats(); calls != 1 || s.Stale != 2 || s.Shared != 1 || s.Loads != 1 {
			t.Errorf("%d calls, %+v", calls, s)
		}
		time.Sleep(2 * time.Minute) // one load for one caller is waited for
		first, second := w.get(w.Context(), "stale"), w.get(w.Context(), "stale")
		free = loading.next()
		synctest.Wait()
		free()
		wantResult(t, "stale", <-first, "new")
		wantResult(t, "stale", <-second, "new")
		if s := w.g.Stats(); s.Stale != 2 || s.Shared != 2 {
			t.Errorf("%+v", s)
		}
	})
}
