package guard_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/guard"
	"github.com/sievekv/sievekv/internal/kvtest"
)

type receipt struct {
	Number int
	Lines  []string
}

// counting returns a function that counts its runs.
func counting(n *int) func(context.Context) (receipt, error) {
	return func(context.Context) (receipt, error) {
		*n++
		return receipt{*n, []string{"apples"}}, nil
	}
}

func TestOnce(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		runs := 0
		once := func(key string, want int) {
			t.Helper()
			got, err := guard.Once(w.Context(), w.db, key, time.Minute, counting(&runs))
			if got.Number != want || len(got.Lines) != 1 || err != nil {
				t.Errorf("Once %s: %+v, %v, want %d", key, got, err, want)
			}
			if len(got.Lines) == 1 {
				got.Lines[0] = "changed" // in a copy
			}
		}
		once("a", 1)
		once("a", 1)
		once("b", 2)
		time.Sleep(time.Minute)
		once("a", 3)
		w.check(guard.OnceForget(w.db, "a"))
		once("a", 4)
		_, err := guard.Once(w.Context(), w.db, "c", time.Minute, func(context.Context) (int, error) { return 1, errOther })
		if !errors.Is(err, errOther) {
			t.Error(err)
		}
		once("c", 5)
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		if _, err := guard.Once(ctx, w.db, "d", time.Minute, counting(&runs)); !errors.Is(err, context.Canceled) || runs != 5 {
			t.Errorf("%v after %d runs", err, runs)
		}
		for range 2 { // the answer nil is an answer
			if r, err := guard.Once(w.Context(), w.db, "nil", time.Minute, func(context.Context) (*receipt, error) { return nil, nil }); r != nil || err != nil {
				t.Errorf("an answer nil: %+v, %v", r, err)
			}
		}
		for range 2 { // for ever
			if r, err := guard.Once(w.Context(), w.db, "d", 0, counting(&runs)); r.Number != 6 || err != nil {
				t.Errorf("without a ttl: %+v, %v", r, err)
			}
			time.Sleep(time.Minute)
		}
	})
}

// Calls at the same time run the function once. One that gives up ends neither the run nor the wait of others.
func TestOnce_together(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		runs, running := 0, make(gate)
		f := func(ctx context.Context) (receipt, error) {
			runs++
			running.arrive()
			return receipt{Number: runs}, ctx.Err()
		}
		type result struct {
			receipt receipt
			err     error
		}
		once := func(ctx context.Context) <-chan result {
			c := make(chan result, 1)
			go func() {
				r, err := guard.Once(ctx, w.db, "a", time.Minute, f)
				c <- result{r, err}
			}()
			return c
		}
		ctx, cancel := context.WithCancel(w.Context())
		first := once(ctx)
		goOn := running.next()
		var others []<-chan result
		for range 100 {
			others = append(others, once(w.Context()))
		}
		synctest.Wait()
		cancel()
		if r := <-first; !errors.Is(r.err, context.Canceled) {
			t.Error(r.err)
		}
		goOn()
		for _, other := range others {
			if r := <-other; r.receipt.Number != 1 || r.err != nil {
				t.Errorf("%+v", r)
			}
		}
	})
}

// After a panic, and an answer that cannot be stored, the outcome is unknown.
func TestOnce_unknown(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		for name, f := range map[string]func(context.Context) (any, error){
			"panic":     func(context.Context) (any, error) { panic("oh") },
			"no answer": func(context.Context) (any, error) { return make(chan int), nil },
		} {
			runs := 0
			counted := func(ctx context.Context) (any, error) { runs++; return f(ctx) }
			for range 2 {
				if _, err := guard.Once(w.Context(), w.db, name, time.Minute, counted); !errors.Is(err, guard.ErrUnknown) || runs != 1 {
					t.Errorf("%s: %v after %d runs", name, err, runs)
				}
			}
			if _, err := guard.OnceTx(w.Context(), w.db, name, time.Minute, func(*sievekv.Tx) (int, error) { return 1, nil }); !errors.Is(err, guard.ErrUnknown) {
				t.Errorf("%s: OnceTx: %v", name, err)
			}
			time.Sleep(time.Minute)
			if _, err := guard.Once(w.Context(), w.db, name, time.Minute, counted); runs != 2 {
				t.Errorf("%s: %v after %d runs", name, err, runs)
			}
		}
	})
}

// crashed opens a store that does not sync by itself, runs a function on it that says when it crashes, and opens what that crash has left.
func crashed(t *testing.T, run func(db *sievekv.DB, crash func())) *sievekv.DB {
	t.Helper()
	disk := kvtest.NewDisk()
	open := func(fs vfs.FS) *sievekv.DB {
		t.Helper()
		db, err := sievekv.Open("/store", &sievekv.Options{FS: fs, BallastSize: -1, MinFreeSpace: -1, Logger: quiet, Durability: sievekv.NoSync})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := open(disk)
	left := disk
	run(db, func() {
		left = disk.CrashClone(vfs.CrashCloneCfg{RNG: rand.New(rand.NewPCG(1, 2))}) // what was not synced is lost
	})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(left)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// A crash before the function leaves nothing; one in it, or after it and before Once has returned, leaves an unknown outcome;
// one after that, the answer.
func TestOnce_crash(t *testing.T) {
	runs := 0
	db := crashed(t, func(db *sievekv.DB, crash func()) {
		_, _ = guard.Once(t.Context(), db, "in", time.Hour, func(context.Context) (int, error) { crash(); return 1, nil })
	})
	if _, err := guard.Once(t.Context(), db, "in", time.Hour, counting(&runs)); !errors.Is(err, guard.ErrUnknown) || runs != 0 {
		t.Errorf("%v after %d runs", err, runs)
	}
	db = crashed(t, func(db *sievekv.DB, crash func()) {
		_, _ = guard.Once(t.Context(), db, "before", time.Hour, counting(&runs))
		crash()
	})
	if r, err := guard.Once(t.Context(), db, "before", time.Hour, counting(&runs)); r.Number != 1 || err != nil || runs != 1 {
		t.Errorf("%+v, %v after %d runs", r, err, runs)
	}
}

func TestOnceTx(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		once := func(key string, fail error) (int64, error) {
			return guard.OnceTx(w.Context(), w.db, key, time.Minute, func(tx *sievekv.Tx) (int64, error) {
				n, err := tx.Incr("effect", 1)
				return n, errors.Join(err, fail)
			})
		}
		want := func(key string, fail error, want int64) {
			t.Helper()
			if n, err := once(key, fail); n != want || !errors.Is(err, fail) {
				t.Errorf("OnceTx %s: %d, %v, want %d, %v", key, n, err, want, fail)
			}
		}
		want("a", nil, 1)
		want("a", nil, 1)
		want("b", errOther, 0)
		want("b", nil, 2)
		time.Sleep(time.Minute)
		want("a", nil, 3)
	})
	// A crash leaves the effect and the answer, or neither.
	for _, after := range []bool{false, true} {
		effect := func(tx *sievekv.Tx) (int64, error) { return tx.Incr("effect", 1) }
		db := crashed(t, func(db *sievekv.DB, crash func()) {
			_, err := guard.OnceTx(t.Context(), db, "a", time.Hour, func(tx *sievekv.Tx) (int64, error) {
				if !after {
					crash()
				}
				return effect(tx)
			})
			if err != nil {
				t.Error(err)
			}
			if after {
				crash()
			}
		})
		n, err := guard.OnceTx(t.Context(), db, "a", time.Hour, func(tx *sievekv.Tx) (int64, error) {
			if after {
				t.Error("it runs again")
			}
			return effect(tx)
		})
		if stored, gerr := db.Get("effect"); n != 1 || string(stored) != "1" || err != nil || gerr != nil {
			t.Errorf("%d, %v, effect %q, %v", n, err, stored, gerr)
		}
	}
}

// A key that is empty, as a header that the client did not send, would give one caller the answer of another. It is refused
// by each function, before anything runs, and so is a time to live that there cannot be.
func TestOnce_badArguments(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		runs := 0
		once := func(key string, ttl time.Duration) error {
			_, err := guard.Once(w.Context(), w.db, key, ttl, func(context.Context) (int, error) { runs++; return 1, nil })
			return err
		}
		onceTx := func(key string, ttl time.Duration) error {
			_, err := guard.OnceTx(w.Context(), w.db, key, ttl, func(*sievekv.Tx) (int, error) { runs++; return 1, nil })
			return err
		}
		for name, err := range map[string]error{
			"Once, empty key":       once("", time.Hour),
			"OnceTx, empty key":     onceTx("", time.Hour),
			"OnceForget, empty key": guard.OnceForget(w.db, ""),
			"Once, ttl -1s":         once("a", -time.Second),
			"OnceTx, ttl -1s":       onceTx("a", -time.Second),
			"Once, ttl 1µs":         once("a", time.Microsecond),
			"OnceTx, ttl 1µs":       onceTx("a", time.Microsecond),
		} {
			what := name[strings.LastIndex(name, " ")+1:]
			if strings.HasSuffix(name, "key") {
				what = "the key is empty"
			}
			if !errors.Is(err, sievekv.ErrOptions) || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "guard: Once") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n, err := w.db.Exists("once:", "once:a"); runs != 0 || n != 0 || err != nil {
			t.Errorf("%d runs, %d records, %v", runs, n, err)
		}
	})
}

// A record of Once that is there for one look at the clock, and not for the next, keeps no caller looking.
func TestClock_once(t *testing.T) {
	const ttl = time.Hour
	for pattern := range int64(8) {
		var jumps atomic.Bool
		clock := &wrongClock{wrong: func(look int64) time.Duration {
			if !jumps.Load() {
				return 0
			}
			return time.Duration(pattern>>(look%3)&1) * 2 * ttl
		}}
		inWorldAt(t, clock.time, nil, func(w *world) {
			var runs []int
			once := func() {
				n, err := guard.Once(w.Context(), w.db, "a", ttl, func(context.Context) (int, error) {
					runs = append(runs, len(runs)+1)
					return len(runs), nil
				})
				if w.check(err); !slices.Contains(runs, n) {
					w.Errorf("pattern %03b: the answer %d, of %v", pattern, n, runs)
				}
			}
			once()
			jumps.Store(true)
			for range 3 {
				once()
			}
			if len(runs) > 4 {
				w.Errorf("pattern %03b: it ran %d times", pattern, len(runs))
			}
		})
	}
}
