package txn_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/internal/txntest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/scalableext"
	"github.com/sievekv/sievekv/txn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, o kv.Options) *kv.DB {
	t.Helper()
	o.InMemory, o.Durability = true, kv.NoSync
	o.Modules = coreext.Add(o.Modules, bloomext.Module(), txn.Module())
	db, err := kv.Open("", &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		report, err := db.Check(context.Background())
		if err != nil && !errors.Is(err, kv.ErrClosed) || report != nil && len(report.Problems) > 0 {
			t.Errorf("Check = %v, %v", report, err)
		}
		if err := db.Close(); err != nil && !errors.Is(err, kv.ErrClosed) {
			t.Error(err)
		}
	})
	return db
}

func reserve(t testing.TB, db *kv.DB, key string, capacity uint64) *bloomext.Filter {
	t.Helper()
	f := bloomext.New(db, key)
	if err := f.Reserve(bloomext.Config{Capacity: capacity, ErrorRate: 1e-6}); err != nil {
		t.Fatal(err)
	}
	return f
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func update(t testing.TB, db *kv.DB, f func(*txntest.Tx) error) {
	t.Helper()
	must(t, txntest.Update(t.Context(), db, kv.DurabilityDefault, f))
}

// A row and its filter entry change together, and the transaction reads them back before the commit.
func TestUpdate(t *testing.T) {
	db := open(t, kv.Options{})
	seen := reserve(t, db, "seen", 100)
	update(t, db, func(tx *txntest.Tx) error {
		in := seen.In(tx)
		for _, want := range []bool{true, false} {
			if isNew, err := in.Add([]byte("a")); isNew != want || err != nil {
				t.Errorf("Add = %v, %v, want %v", isNew, err, want)
			}
		}
		must(t, tx.Set("row", []byte("1")))
		if n, err := tx.Incr("row", 1); n != 2 || err != nil {
			t.Errorf("Incr = %d, %v, want 2", n, err)
		}
		if ok, err := in.MayContain([]byte("a")); !ok || err != nil {
			t.Errorf("inside: MayContain = %v, %v, want true", ok, err)
		}
		present := make([]bool, 2)
		if err := in.MayContainMany(scalableext.BytesOfAll([]string{"a", "b"}), present); err != nil || !present[0] || present[1] {
			t.Errorf("inside: MayContainMany = %v, %v, want true and false", present, err)
		}
		if info, err := in.Info(); err != nil || info.Items != 1 {
			t.Errorf("inside: %d items, %v, want 1", info.Items, err)
		}
		if ok, err := seen.MayContain([]byte("a")); ok || err != nil {
			t.Errorf("outside: MayContain = %v, %v, want false", ok, err)
		}
		if _, err := db.Get([]byte("row")); !errors.Is(err, kv.ErrNotFound) {
			t.Errorf("outside: Get = %v, want ErrNotFound", err)
		}
		return nil
	})
	if ok, err := seen.MayContain([]byte("a")); !ok || err != nil {
		t.Errorf("after: MayContain = %v, %v, want true", ok, err)
	}
	if v, err := db.Get([]byte("row")); string(v) != "2" || err != nil {
		t.Errorf("after: Get = %q, %v, want 2", v, err)
	}
}

// An error or a panic leaves nothing behind, and the store goes on.
func TestUpdate_rolledBack(t *testing.T) {
	db := open(t, kv.Options{})
	seen := reserve(t, db, "seen", 10)
	failure := errors.New("no")
	change := func(tx *txntest.Tx) {
		items := make([]uint64, 50) // it grows
		for i := range items {
			items[i] = uint64(i)
		}
		if _, err := seen.In(tx).AddMany(scalableext.Uint64s(items...), make([]bool, len(items))); err != nil {
			t.Error(err)
		}
		must(t, tx.Set("row", nil))
		must(t, tx.Rename("seen", "moved"))
	}
	err := txntest.Update(t.Context(), db, kv.NoSync, func(tx *txntest.Tx) error { change(tx); return failure })
	if !errors.Is(err, failure) {
		t.Errorf("Update = %v, want the function's error", err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = txntest.Update(t.Context(), db, kv.NoSync, func(tx *txntest.Tx) error { change(tx); panic("no") })
	}()
	if n, _ := db.Size(); n != 1 {
		t.Errorf("%d keys, want 1", n)
	}
	if info, err := seen.Info(); err != nil || info.Items != 0 || len(info.Layers) != 1 {
		t.Errorf("the filter has %d items in %d layers, %v, want none in one", info.Items, len(info.Layers), err)
	}
	if isNew, err := seen.Add(scalableext.Uint64(1)); !isNew || err != nil {
		t.Errorf("Add = %v, %v, want true", isNew, err)
	}
}

// A failure inside a transaction leaves earlier changes as they were.
func TestTx_errorInside(t *testing.T) {
	db := open(t, kv.Options{MemTableSize: 1 << 20})
	full := bloomext.New(db, "full")
	must(t, full.Reserve(bloomext.Config{Capacity: 2, ErrorRate: 1e-6, NonScaling: true}))
	a, b := bloomext.New(db, "a"), bloomext.New(db, "b")
	for _, f := range []*bloomext.Filter{a, b} {
		must(t, f.Reserve(bloomext.Config{Group: "g", Capacity: 100, ErrorRate: 1e-6, GrowthLog: -1}))
	}
	for i := range uint64(90) {
		if _, err := b.Add(scalableext.Uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	update(t, db, func(tx *txntest.Tx) error {
		must(t, tx.Set("n", []byte("1")))
		for i := range uint64(40) {
			if _, err := a.In(tx).Add(scalableext.Uint64(1000 + i)); err != nil {
				t.Error(err)
			}
		}
		if _, err := tx.Incr("a", 1); !errors.Is(err, kv.ErrWrongType) {
			t.Errorf("Incr of a filter = %v, want ErrWrongType", err)
		}
		if err := a.In(tx).Merge(tx.Context(), b); !errors.Is(err, scalableext.ErrRate) {
			t.Errorf("Merge = %v, want ErrRate", err)
		}
		if err := tx.Set("long", make([]byte, 1<<20)); !errors.Is(err, kv.ErrTooLarge) {
			t.Errorf("Set of a long value = %v, want ErrTooLarge", err)
		}
		if err := tx.Rename("missing", "n"); !errors.Is(err, kv.ErrNotFound) {
			t.Errorf("Rename = %v, want ErrNotFound", err)
		}
		return nil
	})
	if v, err := db.Get([]byte("n")); string(v) != "1" || err != nil {
		t.Errorf("Get = %q, %v, want 1", v, err)
	}
	for i := range uint64(40) {
		if ok, err := a.MayContain(scalableext.Uint64(1000 + i)); !ok || err != nil {
			t.Fatalf("item %d: %v, %v", i, ok, err)
		}
	}
	if info, err := a.Info(); err != nil || info.Items != 40 {
		t.Errorf("%d items, %v, want 40", info.Items, err)
	}
}

func TestTx_misuse(t *testing.T) {
	db := open(t, kv.Options{})
	var leaked *txntest.Tx
	seen := reserve(t, db, "seen", 10)
	update(t, db, func(tx *txntest.Tx) error {
		leaked = tx
		if err := txntest.Update(tx.Context(), db, kv.NoSync, nil); !errors.Is(err, kv.ErrNested) {
			t.Errorf("Update inside = %v, want ErrNested", err)
		}
		if err := txntest.View(tx.Context(), db, nil); !errors.Is(err, kv.ErrNested) {
			t.Errorf("View inside = %v, want ErrNested", err)
		}
		return nil
	})
	if err := leaked.Set("k", nil); !errors.Is(err, kv.ErrEnded) {
		t.Errorf("Set after the end = %v, want ErrEnded", err)
	}
	if _, err := seen.In(leaked).Add([]byte("x")); !errors.Is(err, kv.ErrEnded) {
		t.Errorf("Add after the end = %v, want ErrEnded", err)
	}
	if ok, err := seen.In(leaked).MayContain([]byte("x")); !ok || !errors.Is(err, kv.ErrEnded) {
		t.Errorf("MayContain after the end = %v, %v, want true with ErrEnded", ok, err)
	}
	must(t, txntest.View(t.Context(), db, func(s *txntest.Snapshot) error {
		if _, err := seen.In(s).Add([]byte("x")); !errors.Is(err, kv.ErrReadOnly) {
			t.Errorf("Add in a view = %v, want ErrReadOnly", err)
		}
		return nil
	}))
	ctx, cancel := context.WithCancel(t.Context())
	forgotten, err := txntest.Begin(ctx, db, kv.NoSync)
	must(t, err)
	must(t, forgotten.Set("k", nil))
	cancel() // rolls back; else this would wait for ever
	_, err = db.Set(kv.NoSync, []byte("other"), nil, kv.SetOptions{})
	must(t, err)
	if err := forgotten.Commit(); !errors.Is(err, kv.ErrEnded) || !errors.Is(err, context.Canceled) {
		t.Errorf("Commit after the context's end = %v, want ErrEnded and why", err)
	}
	forgotten, err = txntest.Begin(t.Context(), db, kv.NoSync)
	must(t, err)
	must(t, db.Close())
	if err := forgotten.Set("k", nil); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("Set after Close = %v, want ErrClosed", err)
	}
	if err := txntest.Update(t.Context(), db, kv.NoSync, nil); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("Update after Close = %v, want ErrClosed", err)
	}
}

// A snapshot answers as of its beginning, for strings and filters, whatever is written later, and however small the
// cache.
func TestView(t *testing.T) {
	for _, cache := range []int64{64 << 10, 64 << 20} {
		db := open(t, kv.Options{CacheSize: cache})
		seen := reserve(t, db, "seen", 50_000)
		const before, after = 20_000, 40_000
		add := func(from, to uint64) {
			items := make([]uint64, 0, to-from)
			for i := from; i < to; i++ {
				items = append(items, i)
			}
			if _, err := seen.AddMany(scalableext.Uint64s(items...), make([]bool, len(items))); err != nil {
				t.Error(err)
			}
		}
		add(0, before)
		set := func(key, value string) {
			if _, err := db.Set(kv.NoSync, []byte(key), []byte(value), kv.SetOptions{}); err != nil {
				t.Error(err)
			}
		}
		set("a", "old")
		must(t, txntest.View(t.Context(), db, func(s *txntest.Snapshot) error {
			in := seen.In(s)
			check := func() {
				t.Helper()
				known := 0
				for i := uint64(0); i < after; i += 37 {
					ok, err := in.MayContain(scalableext.Uint64(i))
					if err != nil {
						t.Fatal(err)
					}
					if i < before && !ok {
						t.Fatalf("item %d is missing from the view", i)
					}
					if i >= before && ok {
						known++
					}
				}
				if known > 2 {
					t.Errorf("%d items that were added later are in the view", known)
				}
				if info, err := in.Info(); err != nil || info.Items > before || info.Items < before-5 {
					t.Errorf("%d items, %v, want %d", info.Items, err, before)
				}
				if v, err := s.Get("a"); string(v) != "old" || err != nil {
					t.Errorf("Get = %q, %v, want old", v, err)
				}
				if n, err := s.Exists("a", "seen", "b"); n != 2 || err != nil {
					t.Errorf("%d keys, %v, want 2", n, err)
				}
			}
			check()
			add(before, after)
			set("a", "new")
			set("b", "new")
			check()
			if _, err := db.Delete(kv.NoSync, []byte("seen"), []byte("a")); err != nil {
				t.Error(err)
			}
			check()
			must(t, db.DeleteAll(kv.NoSync))
			check()
			return nil
		}))
	}
}

// A snapshot that reads a filter and then the row that it guards finds both or neither: both are written together.
func TestView_consistent(t *testing.T) {
	db := open(t, kv.Options{})
	seen := reserve(t, db, "seen", 100_000)
	const rows = 3000
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := 0; !done.Load(); i = (i + 1) % rows {
				err := txntest.View(t.Context(), db, func(s *txntest.Snapshot) error {
					known, err := seen.In(s).MayContain(scalableext.Uint64(uint64(i)))
					if err != nil {
						return err
					}
					n, err := s.Exists(fmt.Sprint("row", i))
					if err == nil && known != (n == 1) {
						err = fmt.Errorf("item %d: in the filter %v, rows %d", i, known, n)
					}
					return err
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range rows {
		update(t, db, func(tx *txntest.Tx) error {
			if _, err := seen.In(tx).Add(scalableext.Uint64(uint64(i))); err != nil {
				return err
			}
			return tx.Set(fmt.Sprint("row", i), []byte("x"))
		})
	}
	done.Store(true)
	wg.Wait()
}

// Transactions of several goroutines on the same counters have the same effect as if they ran one after the other.
func TestUpdate_serializable(t *testing.T) {
	db := open(t, kv.Options{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 300 {
				err := txntest.Update(t.Context(), db, kv.NoSync, func(tx *txntest.Tx) error {
					n, err := tx.Incr("a", 1)
					if err != nil {
						return err
					}
					m, err := tx.Incr("b", -1)
					if err == nil && n != -m {
						err = fmt.Errorf("a is %d, b is %d", n, m)
					}
					return err
				})
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := db.Incr(kv.NoSync, []byte("single"), 1); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for key, want := range map[string]string{"a": "1200", "b": "-1200", "single": "1200"} {
		if v, err := db.Get([]byte(key)); string(v) != want || err != nil {
			t.Errorf("%s = %q, %v, want %s", key, v, err, want)
		}
	}
}

// client is a session with a name for failures.
type client struct {
	t *testing.T
	s *module.Session
}

// do runs a line and compares the reply as text.
func (c client) do(line, want string) {
	c.t.Helper()
	var words [][]byte
	for _, w := range strings.Fields(line) {
		words = append(words, []byte(w))
	}
	if got := strings.Join(strings.Fields(c.s.Do(c.t.Context(), words).String()), " "); got != want {
		c.t.Errorf("%s: %s, want %s", line, got, want)
	}
}

func TestMulti(t *testing.T) {
	db := open(t, kv.Options{})
	a, b := client{t, module.NewSession(db)}, client{t, module.NewSession(db)}
	a.do("EXEC", "(error) ERR EXEC without MULTI")
	a.do("DISCARD", "(error) ERR DISCARD without MULTI")
	a.do("MULTI", "OK")
	a.do("MULTI", "(error) ERR MULTI calls can not be nested")
	a.do("WATCH x", "(error) ERR WATCH inside MULTI is not allowed")
	a.do("SET n 1", "QUEUED")
	a.do("BF.ADD seen a", "QUEUED")
	a.do("BF.EXISTS seen a", "QUEUED")
	a.do("BF.CARD seen", "QUEUED")
	a.do("INCR seen", "QUEUED")
	a.do("INCR n", "QUEUED")
	a.do("DBSIZE", "QUEUED")
	a.do("KEYS n*", "QUEUED")
	b.do("EXISTS n seen", "(integer) 0")
	a.do("EXEC", `1) OK 2) (integer) 1 3) (integer) 1 4) (integer) 1 5) (error) WRONGTYPE Operation against a key holding the wrong kind of value 6) (integer) 2 7) (integer) 2 8) 1) "n"`)
	b.do("GET n", `"2"`)
	b.do("BF.EXISTS seen a", "(integer) 1")

	a.do("MULTI", "OK")
	a.do("SET n", "(error) ERR wrong number of arguments for 'set' command")
	a.do("SET n 9", "QUEUED")
	a.do("EXEC", "(error) EXECABORT Transaction discarded because of previous errors.")
	b.do("GET n", `"2"`)
	a.do("MULTI", "OK")
	a.do("SET n 9", "QUEUED")
	a.do("DISCARD", "OK")
	b.do("GET n", `"2"`)
	a.do("MULTI", "OK")
	a.do("EXEC", "(empty array)")

	a.do("MULTI", "OK")
	a.do("MSET x 1 y 2", "QUEUED")
	a.do("FLUSHALL", "QUEUED")
	a.do("SET z 3", "QUEUED")
	a.do("DBSIZE", "QUEUED")
	a.do("KEYS *", "QUEUED")
	a.do("EXEC", `1) OK 2) OK 3) OK 4) (integer) 1 5) 1) "z"`)
	b.do("DBSIZE", "(integer) 1")
	b.do("EXISTS n seen x y", "(integer) 0")

	a.do("MULTI", "OK")
	a.do("RENAME z w", "QUEUED")
	a.do("COPY w v", "QUEUED")
	a.do("BF.MADD f 1 2 3", "QUEUED")
	a.do("COPY f g", "QUEUED")
	a.do("BF.MEXISTS g 1 2 3 4", "QUEUED")
	a.do("BF.MERGE h f g", "QUEUED")
	a.do("BF.CARD h", "QUEUED")
	a.do("DEL f", "QUEUED")
	a.do("EXISTS f g h v w z", "QUEUED")
	a.do("EXEC", `1) OK 2) (integer) 1 3) 1) (integer) 1 2) (integer) 1 3) (integer) 1 4) (integer) 1 5) 1) (integer) 1 2) (integer) 1 3) (integer) 1 4) (integer) 0 6) OK 7) (integer) 3 8) (integer) 1 9) (integer) 4`)
	b.do("BF.MEXISTS h 1 2 3 4", "1) (integer) 1 2) (integer) 1 3) (integer) 1 4) (integer) 0")
}

// An EXEC that is given up because its server ends does nothing: otherwise it might do a DEL but not the COPY before
// it.
func TestMulti_givenUp(t *testing.T) {
	ctx, giveUp := context.WithCancel(t.Context())
	stop := module.Module{Name: "test", Commands: []module.Command{{
		Name: "GIVEUP", Arity: 1, Flags: module.ModuleFlag, Group: "server", Summary: "Ends the context.", Complexity: "O(1)", Example: "GIVEUP",
		Handler: func(*module.Call) reply.Reply { giveUp(); return reply.OK },
	}}}
	db := open(t, kv.Options{Modules: coreext.With(stop)})
	a, b := client{t, module.NewSession(db)}, client{t, module.NewSession(db)}
	a.do("BF.MADD f 1 2 3", "1) (integer) 1 2) (integer) 1 3) (integer) 1")
	a.do("MULTI", "OK")
	a.do("SET n 1", "QUEUED")
	a.do("GIVEUP", "QUEUED")
	a.do("COPY f g", "QUEUED")
	a.do("DEL f", "QUEUED")
	if got := a.s.Do(ctx, [][]byte{[]byte("EXEC")}).String(); got != "(error) ERR context canceled" {
		t.Errorf("EXEC: %s, want the context's error", got)
	}
	b.do("EXISTS n g", "(integer) 0")
	b.do("BF.MEXISTS f 1 2 3", "1) (integer) 1 2) (integer) 1 3) (integer) 1")
	a.do("EXEC", "(error) ERR EXEC without MULTI")
}

func TestWatch(t *testing.T) {
	db := open(t, kv.Options{})
	a, b := client{t, module.NewSession(db)}, client{t, module.NewSession(db)}
	transaction := func(want string) {
		t.Helper()
		a.do("MULTI", "OK")
		a.do("SET done 1", "QUEUED")
		a.do("EXEC", want)
	}
	const ran, not = "1) OK", "(nil)"
	for _, tt := range []struct{ before, change, want string }{
		{"SET k 1", "GET k", ran},
		{"SET k 1", "SET k 1", not},
		{"SET k 1", "SET other 1", ran},
		{"SET k 1", "SET k 1 NX", ran},
		{"SET k 1", "DEL k", not},
		{"DEL k", "DEL k", ran},
		{"DEL k", "SET k 1", not},
		{"SET k 1", "EXPIRE k 100", not},
		{"SET k 1", "RENAME k l", not},
		{"SET l 1", "RENAME l k", not},
		{"SET k 1", "COPY k l REPLACE", ran},
		{"SET k 1", "FLUSHALL", not},
		{"DEL k", "FLUSHALL", ran},
		{"DEL k", "BF.ADD k a", not},
		{"FLUSHALL", "BF.RESERVE k 0.01 100", not},
		{"BF.ADD k a", "BF.ADD k b", not},
		{"BF.ADD k a", "BF.EXISTS k a", ran},
	} {
		b.s.Do(t.Context(), [][]byte{[]byte("FLUSHALL")})
		for _, line := range []string{tt.before} {
			var words [][]byte
			for _, w := range strings.Fields(line) {
				words = append(words, []byte(w))
			}
			b.s.Do(t.Context(), words)
		}
		a.do("WATCH k", "OK")
		var words [][]byte
		for _, w := range strings.Fields(tt.change) {
			words = append(words, []byte(w))
		}
		if r := b.s.Do(t.Context(), words); r.Kind() == reply.KindError {
			t.Fatalf("%s: %v", tt.change, r)
		}
		t.Log(tt.before, ";", tt.change)
		transaction(tt.want)
		transaction(ran) // the watch has ended
	}
	a.do("WATCH k", "OK")
	b.do("SET k 2", "OK")
	a.do("UNWATCH", "OK")
	transaction(ran)
}

// An expired key is missing, whether or not it was removed already: removing it is no change for a session that has
// watched it since it expired.
func TestWatch_expired(t *testing.T) {
	var passed atomic.Int64
	db := open(t, kv.Options{Clock: func() time.Time { return time.UnixMilli(1_700_000_000_000 + passed.Load()) }})
	a, b := client{t, module.NewSession(db)}, client{t, module.NewSession(db)}
	for _, tt := range []struct{ change, reply, want string }{
		{"DEL k", "(integer) 0", "1) OK"},
		{"SET k 1 PXAT 1", "OK", "1) OK"},
		{"FLUSHALL", "OK", "1) OK"},
		{"SET k 1", "OK", "(nil)"},
	} {
		b.do("SET k 1 PX 10", "OK")
		passed.Add(10)
		a.do("WATCH k", "OK")
		b.do(tt.change, tt.reply)
		a.do("MULTI", "OK")
		a.do("SET done 1", "QUEUED")
		a.do("EXEC", tt.want)
	}
	b.do("SET k 1 PX 10", "OK")
	a.do("WATCH k", "OK")
	passed.Add(10)
	b.do("DEL k", "(integer) 0")
	a.do("MULTI", "OK")
	a.do("EXEC", "(nil)") // it was there
}

// A snapshot answers times to live as of its own time.
func TestView_timeToLive(t *testing.T) {
	var passed atomic.Int64
	db := open(t, kv.Options{Clock: func() time.Time { return time.UnixMilli(1_700_000_000_000 + passed.Load()) }})
	s := module.NewSession(db)
	client{t, s}.do("SET k 1 PX 10000", "OK")
	err := txntest.View(t.Context(), db, func(snap *txntest.Snapshot) error {
		passed.Add(20_000)
		for name, want := range map[string]int64{"TTL": 10, "PTTL": 10_000, "EXPIRETIME": 1_700_000_010, "PEXPIRETIME": 1_700_000_010_000} {
			for _, cmd := range module.Of(db).Commands() {
				if cmd.Name != name {
					continue
				}
				if got := s.Run(t.Context(), snap.Transaction, cmd, [][]byte{[]byte("k")}); got.Int() != want {
					t.Errorf("%s in a view: %v, want %d", name, got, want)
				}
			}
		}
		return nil
	})
	must(t, err)
	client{t, s}.do("PTTL k", "(integer) -2")
}
