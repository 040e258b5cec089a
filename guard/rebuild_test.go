package guard_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/guard"
)

// paused gives ids, and waits at a gate before each.
func paused(at gate, ids iter.Seq2[string, error]) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for id, err := range ids {
			at.arrive()
			if !yield(id, err) {
				return
			}
		}
		at.arrive()
	}
}

// Rebuild fills the first filter, and makes a new one without the ids that are gone.
func TestRebuild(t *testing.T) {
	defer guard.SetRebuildBatch(100)()
	for _, filter := range filters {
		inWorld(t, &guard.Options{Filter: filter, ErrorRate: exact, NullTTL: -1}, func(w *world) {
			const ids = 250
			for i := range ids {
				w.set(fmt.Sprint(i), "row")
			}
			w.want("17", "row")
			w.want("nobody", guard.ErrNotFound)
			w.wantLoads("nobody", 1)
			w.check(w.g.Rebuild(w.Context(), w.allRows()))
			w.want("nobody", guard.ErrNotFound)
			w.wantLoads("nobody", 1)
			for i := range ids {
				w.want(fmt.Sprint(i), "row")
			}
			for i := range ids {
				if i%2 == 0 {
					w.unset(fmt.Sprint(i))
				}
			}
			w.check(w.g.Rebuild(w.Context(), w.allRows()))
			for i := 1; i < ids; i += 2 {
				w.want(fmt.Sprint(i), "row")
			}
			before := w.g.Stats().Refused
			for i := 0; i < ids; i += 2 {
				w.want(fmt.Sprint(i), guard.ErrNotFound)
			}
			if n := w.g.Stats().Refused - before; n != ids/2 {
				t.Errorf("%s: %d of %d ids that are gone are refused", filter, n, ids/2)
			}
			want := guard.Progress{Filled: true, Taken: ids / 2}
			if p, err := w.g.Progress(); p != want || err != nil {
				t.Errorf("%s: %+v, %v", filter, p, err)
			}
			records := 0
			for _, err := range w.db.Scan(w.Context(), sievekv.ScanOptions{Match: "guard:users:id:*"}) {
				w.check(err)
				records++
			}
			if want := ids / 2; filter != guard.Bloom && records != want || filter == guard.Bloom && records != 0 {
				t.Errorf("%s: %d records of ids", filter, records)
			}
			for i := 1; i < ids; i += 2 { // they can be deleted from the new filter
				w.remove(fmt.Sprint(i))
				w.want(fmt.Sprint(i), guard.ErrNotFound)
			}
		})
	}
}

// Names are no patterns.
func TestRebuild_name(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		o := w.options(guard.Options{Empty: true, Filter: guard.Cuckoo, ErrorRate: exact})
		ab, pattern := w.open("ab", o), w.open(`a*?[b]\`, o)
		defer ab.Close()
		defer pattern.Close()
		w.check(ab.Put(w.Context(), "x", []byte("1"), nil))
		w.check(pattern.Put(w.Context(), "x", []byte("1"), nil))
		w.check(pattern.Rebuild(w.Context(), seqOf()))
		w.check(ab.Remove(w.Context(), "x", nil))
		if n, err := w.db.Exists(`guard:a*?[b]\:id:x`); n != 0 || err != nil {
			t.Errorf("%d records, %v", n, err)
		}
	})
}

// Ids that are put while Rebuild runs are in the new filter, wherever Rebuild is; those that are removed do no harm.
func TestRebuild_meanwhile(t *testing.T) {
	for _, filter := range filters {
		inWorld(t, &guard.Options{Empty: true, Filter: filter, Capacity: 100, ErrorRate: 0.25, NullTTL: -1}, func(w *world) {
			const ids = 100
			for i := range ids {
				w.put(fmt.Sprintf("%03d", i), "row")
			}
			at := make(gate)
			rebuilt := done(func() error { return w.g.Rebuild(w.Context(), paused(at, w.allRows())) })
			for i := range ids + 1 {
				goOn := at.next()
				switch id := fmt.Sprintf("%03d", i); i % 4 {
				case 0:
					w.put(id+"-new", "row")
				case 1:
					w.put(id, "row")                         // it comes
					w.put(fmt.Sprintf("%03d", i-1), "other") // it came
				case 2:
					w.remove(id) // it comes all the same
					w.put(id, "row")
				case 3:
					w.remove(fmt.Sprintf("%03d", i-3))
					w.remove(id) // it comes nevertheless
				}
				goOn()
			}
			w.check(<-rebuilt)
			check := func() {
				t.Helper()
				for id := range w.rows {
					w.want(id, w.rows[id])
				}
			}
			check()
			for id := range w.rows { // and the records are right
				if strings.HasSuffix(id, "-new") {
					w.remove(id)
					w.remove(id)
				}
			}
			w.remove("003")
			check()
		})
	}
}

// Rebuild waits for a PutVia that has begun before it: the row may be written after Rebuild has read the source.
func TestRebuild_putViaBefore(t *testing.T) {
	inWorld(t, &guard.Options{Empty: true, ErrorRate: exact}, func(w *world) {
		writing := make(gate)
		put := done(func() error {
			return w.g.PutVia(w.Context(), "a", []byte("1"), func(context.Context) error {
				writing.arrive()
				w.set("a", "1")
				return nil
			})
		})
		write := writing.next()
		ctx, cancel := context.WithCancel(w.Context())
		rebuilt := done(func() error { return w.g.Rebuild(ctx, w.allRows()) })
		synctest.Wait()
		cancel() // the next one waits too
		if err := <-rebuilt; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		rebuilt = done(func() error { return w.g.Rebuild(w.Context(), w.allRows()) })
		synctest.Wait() // it reads the source, or waits
		w.put("b", "2") // a PutVia after it began does not wait
		if err := w.g.Rebuild(w.Context(), seqOf()); !errors.Is(err, guard.ErrRebuilding) {
			t.Error(err)
		}
		write()
		w.check(<-put)
		w.check(<-rebuilt)
		w.want("a", "1")
		w.want("b", "2")
	})
}

// A rebuild that was ended goes on: it keeps what it has, and what was put since.
func TestRebuild_resumed(t *testing.T) {
	defer guard.SetRebuildBatch(100)()
	for _, filter := range filters {
		for _, ordered := range []bool{false, true} {
			inWorld(t, &guard.Options{Filter: filter, ErrorRate: exact}, func(w *world) {
				const ids = 350
				for i := range ids {
					w.set(fmt.Sprintf("%04d", i), "row")
				}
				var given []string
				until := 0 // ids until the source fails
				from := func(after string) iter.Seq2[string, error] {
					return func(yield func(string, error) bool) {
						n := 0
						for id := range w.rowsAfter(after) {
							if n++; n == until {
								yield("", errSource)
								return
							}
							given = append(given, id)
							if !yield(id, nil) {
								return
							}
						}
					}
				}
				rebuild := func() error {
					if ordered {
						return w.g.RebuildFrom(w.Context(), from)
					}
					return w.g.Rebuild(w.Context(), from(""))
				}
				until = 220
				if err := rebuild(); !errors.Is(err, errSource) {
					t.Error(err)
				}
				want := guard.Progress{Rebuilding: true, Taken: 200}
				if ordered {
					want.After = "0199"
				}
				if p, err := w.g.Progress(); p != want || err != nil {
					t.Errorf("%+v, %v, want %+v", p, err, want)
				}
				w.put("0000-new", "row") // behind where the rebuild is
				w.want("nobody", guard.ErrNotFound)
				w.wantLoads("nobody", 1) // there is no filter yet
				w.g.Close()
				w.g = w.open("users", w.options(guard.Options{Filter: filter, ErrorRate: exact}))
				given, until = nil, 0
				w.check(rebuild())
				first, n := "0000", ids+1
				if ordered {
					first, n = "0200", 150
				}
				if len(given) != n || given[0] != first {
					t.Errorf("the second time %d ids were read, the first %q", len(given), given[0])
				}
				for id := range w.allRows() {
					w.want(id, "row")
				}
				w.want("someone", guard.ErrNotFound)
				w.wantLoads("someone", 0)
			})
		}
	}
}

// What a Rebuild in another order has taken is no place to go on from.
func TestRebuildFrom_otherOrder(t *testing.T) {
	inWorld(t, &guard.Options{ErrorRate: exact}, func(w *world) {
		ids := make([]string, 1500)
		for i := range ids {
			ids[i] = fmt.Sprintf("%04d", i)
			w.set(ids[i], "row")
		}
		failing := func(ids []string) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				for _, id := range ids {
					if !yield(id, nil) {
						return
					}
				}
				yield("", errSource)
			}
		}
		wantErr := func(err error) {
			t.Helper()
			if !errors.Is(err, errSource) {
				t.Error(err)
			}
		}
		from := func(want string, then iter.Seq2[string, error]) func(string) iter.Seq2[string, error] {
			return func(after string) iter.Seq2[string, error] {
				if after != want {
					t.Errorf("it goes on after %q, want %q", after, want)
				}
				return then
			}
		}
		wantErr(w.g.RebuildFrom(w.Context(), from("", failing(ids[:1000]))))
		wantErr(w.g.RebuildFrom(w.Context(), from("0999", failing(nil))))
		backwards := slices.Clone(ids)
		slices.Reverse(backwards)
		wantErr(w.g.Rebuild(w.Context(), failing(backwards[:1000])))
		w.check(w.g.RebuildFrom(w.Context(), from("", w.allRows())))
		w.want("0000", "row")
	})
}

// With other parameters, or without its filter, a rebuild begins again.
func TestRebuild_anew(t *testing.T) {
	o := guard.Options{ErrorRate: exact}
	inWorld(t, &o, func(w *world) {
		w.set("a", "row")
		failing := func(yield func(string, error) bool) {
			for i := range 1000 {
				yield(fmt.Sprint(i), nil)
			}
			yield("", errSource)
		}
		begin := func() {
			t.Helper()
			if err := w.g.RebuildFrom(w.Context(), func(string) iter.Seq2[string, error] { return failing }); !errors.Is(err, errSource) {
				t.Error(err)
			}
			if p, err := w.g.Progress(); p.Taken != 1000 || err != nil {
				t.Errorf("%+v, %v", p, err)
			}
		}
		end := func() {
			t.Helper()
			w.check(w.g.RebuildFrom(w.Context(), w.rowsAfter)) // "a" is behind all numbers
			w.want("a", "row")
			w.want("17", guard.ErrNotFound)
			w.wantLoads("17", 0)
		}
		begin()
		w.g.Close()
		o.Capacity = 5000
		w.g = w.open("users", w.options(o))
		end()
		begin()
		if _, err := w.db.Delete("guard:users:next"); err != nil {
			t.Fatal(err)
		}
		end()
		// If the keys go away while it runs, the filter stays as it is.
		at := make(gate)
		rebuilt := done(func() error { return w.g.Rebuild(w.Context(), paused(at, w.allRows())) })
		goOn := at.next()
		if _, err := w.db.Delete("guard:users"); err != nil {
			t.Fatal(err)
		}
		goOn()
		at.next()()
		if err := <-rebuilt; !errors.Is(err, sievekv.ErrNotFound) {
			t.Error(err)
		}
		w.want("a", "row")
	})
}

// A rebuild ends with its context, with Close, and with an error of the ids, and leaves the filter in use alone.
func TestRebuild_ended(t *testing.T) {
	inWorld(t, &guard.Options{Empty: true, ErrorRate: exact}, func(w *world) {
		w.put("a", "row")
		ctx, cancel := context.WithCancel(w.Context())
		ids := func(yield func(string, error) bool) { cancel(); yield("b", nil) }
		if err := w.g.Rebuild(ctx, ids); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		w.want("a", "row")
		at := make(gate)
		rebuilt := done(func() error { return w.g.Rebuild(w.Context(), paused(at, seqOf())) })
		goOn := at.next()
		closed := done(func() error { w.g.Close(); return nil })
		synctest.Wait()
		goOn()
		if err := <-rebuilt; !errors.Is(err, guard.ErrClosed) {
			t.Error(err)
		}
		<-closed
		w.want("a", "row")
	})
}

// Ids that are too long for one commit together are taken in several.
func TestRebuild_longIDs(t *testing.T) {
	var ids []string
	for i := range 6 {
		ids = append(ids, fmt.Sprint(i, strings.Repeat("x", 60_000)))
	}
	db, err := sievekv.Open("", &sievekv.Options{InMemory: true, MemTableSize: 1 << 20}) // a commit has 256 KiB at most
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, filter := range filters {
		load := func(context.Context, string) ([]byte, error) { return []byte("row"), nil }
		g, err := guard.New(db, string(filter), guard.Options{Filter: filter, ErrorRate: exact, Load: load, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		if err := g.Rebuild(t.Context(), seqOf(ids...)); err != nil {
			t.Fatal(err)
		}
		for _, r := range g.GetMany(t.Context(), ids...) {
			wantResult(t, "long id", r, "row")
		}
		if _, err := g.Get(t.Context(), "nobody"); !errors.Is(err, guard.ErrNotFound) {
			t.Error(err)
		}
	}
}

func TestWarm(t *testing.T) {
	for _, many := range []bool{false, true} {
		var w *world
		o := guard.Options{TTL: time.Minute, Jitter: -1, MaxStale: -1}
		calls := 0
		if many {
			o.LoadMany = func(ctx context.Context, ids []string) (map[string][]byte, error) {
				calls++
				values := make(map[string][]byte)
				for _, id := range ids {
					value, err := w.load(ctx, id)
					if err == nil {
						values[id] = value
					} else if !errors.Is(err, guard.ErrNotFound) {
						return nil, err
					}
				}
				return values, nil
			}
		}
		inWorld(t, &o, func(inner *world) {
			w = inner
			var ids []string
			for i := range 250 {
				ids = append(ids, fmt.Sprint(i))
				w.set(ids[i], "row")
			}
			warm := func(want int, wantErr error, ids ...string) {
				t.Helper()
				if n, err := w.g.Warm(w.Context(), seqOf(ids...)); n != want || !errors.Is(err, wantErr) {
					t.Errorf("Warm: %d, %v, want %d, %v", n, err, want, wantErr)
				}
			}
			w.want("7", "row")
			warm(249, nil, append(ids, "nobody", "nobody")...)
			if many && calls != 4 {
				t.Errorf("%d calls of LoadMany, want 4", calls)
			}
			warm(0, nil, append(ids, "nobody")...)
			if p, err := w.g.Progress(); p.Warmed != 252+251 || err != nil {
				t.Errorf("%+v, %v", p, err)
			}
			w.wantLoads("7", 1)
			w.wantLoads("nobody", 1)
			w.want("8", "row")
			w.wantLoads("8", 1)
			time.Sleep(time.Minute)
			w.fail(errSource)
			warm(0, errSource, ids[:1]...)
			w.fail(nil)
			ctx, cancel := context.WithCancel(w.Context())
			cancel()
			if _, err := w.g.Warm(ctx, seqOf(ids...)); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			warm(250, nil, ids...)
		})
	}
	inWorld(t, &guard.Options{TTL: time.Second, Jitter: -1}, func(w *world) { // stale values are loaded too
		w.set("a", "1")
		if n, err := w.g.Warm(w.Context(), seqOf("a", "a")); n != 1 || err != nil {
			t.Errorf("Warm of one id twice: %d, %v", n, err)
		}
		time.Sleep(time.Second)
		w.fail(errSource)
		if n, err := w.g.Warm(w.Context(), seqOf("a")); n != 0 || !errors.Is(err, guard.ErrUnavailable) {
			t.Errorf("Warm: %d, %v", n, err)
		}
		w.fail(nil)
		if n, err := w.g.Warm(w.Context(), seqOf("a")); n != 1 || err != nil {
			t.Errorf("Warm: %d, %v", n, err)
		}
	})
}

// Warm goes on at the pace of the limits, however slow that is, and so do values that others load meanwhile.
func TestWarm_slow(t *testing.T) {
	for name, o := range map[string]*guard.Options{
		"a second": {LoadsPerSecond: 0.05}, "at once": {MaxLoads: 1},
	} {
		for _, many := range []bool{false, true} {
			t.Run(fmt.Sprint(name, many), func(t *testing.T) {
				o := *o
				o.LoadTimeout, o.TTL = 15*time.Second, time.Hour
				var calls []time.Duration
				var begin time.Time
				query := func() { calls = append(calls, time.Since(begin)) }
				if many {
					o.LoadMany = func(_ context.Context, ids []string) (map[string][]byte, error) {
						query()
						time.Sleep(10 * time.Second)
						values := make(map[string][]byte)
						for _, id := range ids {
							values[id] = []byte("row")
						}
						return values, nil
					}
				} else {
					o.Load = func(context.Context, string) ([]byte, error) {
						query()
						time.Sleep(10 * time.Second)
						return []byte("row"), nil
					}
				}
				inWorld(t, &o, func(w *world) {
					begin = time.Now()
					first := w.get(w.Context(), "other")
					synctest.Wait()
					late := w.get(w.Context(), "b")
					synctest.Wait()
					if n, err := w.g.Warm(w.Context(), seqOf("a", "b", "c")); n != 3 || err != nil {
						t.Errorf("Warm: %d, %v", n, err)
					}
					wantResult(t, "other", <-first, "row")
					<-late // a Get does not wait for so long
					pace := 10 * time.Second
					if o.LoadsPerSecond > 0 {
						pace = 20 * time.Second
					}
					for i := range calls {
						if i > 0 && calls[i]-calls[i-1] < pace {
							t.Errorf("calls of the source after %v", calls)
						}
					}
					for _, id := range []string{"a", "b", "c"} {
						w.want(id, "row")
					}
				})
			})
		}
	}
}

// Warm loads itself what another caller began to load, if that found no load free.
func TestWarm_joined(t *testing.T) {
	inWorld(t, &guard.Options{MaxLoads: 1, LoadTimeout: 15 * time.Second, TTL: time.Hour}, func(w *world) {
		w.set("b", "row")
		let := w.holding("other")
		other := w.get(w.Context(), "other")
		free := let.next() // takes all
		late := w.get(w.Context(), "b")
		synctest.Wait()
		var loaded int
		warmed := done(func() (err error) { loaded, err = w.g.Warm(w.Context(), seqOf("b")); return err })
		time.Sleep(16 * time.Second)
		wantResult(t, "b", <-late, guard.ErrUnavailable)
		free()
		if err := <-warmed; err != nil || loaded != 1 {
			t.Errorf("Warm: %d, %v", loaded, err)
		}
		wantResult(t, "other", <-other, guard.ErrNotFound)
		w.want("b", "row")
		w.wantLoads("b", 1)
	})
}

// Warm ends with its context, with Close, and at once if its turn would come too late; and it leaves its place to others.
func TestWarm_ended(t *testing.T) {
	inWorld(t, &guard.Options{LoadsPerSecond: 1.0 / 60, MaxLoads: 1, TTL: time.Hour}, func(w *world) {
		for _, id := range []string{"a", "b", "c"} {
			w.set(id, "row")
		}
		w.want("a", "row")
		warm := func(ctx context.Context, id string) <-chan error {
			return done(func() error { _, err := w.g.Warm(ctx, seqOf(id)); return err })
		}
		begin := time.Now()
		ctx, cancel := context.WithTimeout(w.Context(), 10*time.Second)
		defer cancel()
		if err := <-warm(ctx, "b"); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 0 {
			t.Errorf("a turn after the deadline: %v after %v", err, time.Since(begin))
		}
		ctx, cancel = context.WithCancel(w.Context())
		ended := warm(ctx, "b")
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a context that ends: %v", err)
		}
		if n, err := w.g.Warm(w.Context(), seqOf("b")); n != 1 || err != nil || time.Since(begin) > 3*time.Minute {
			t.Errorf("Warm: %d, %v after %v", n, err, time.Since(begin))
		}
		ended = warm(w.Context(), "c")
		synctest.Wait()
		begin = time.Now()
		w.g.Close()
		if err := <-ended; !errors.Is(err, guard.ErrClosed) || time.Since(begin) != 0 {
			t.Errorf("Close: %v after %v", err, time.Since(begin))
		}
	})
}
