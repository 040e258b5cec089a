package txn_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/txntest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// panics has a command that stages a change and panics.
func panics() module.Module {
	return module.Module{Name: "test", Commands: []module.Command{{
		Name: "PANIC", Arity: 2, Flags: module.Write | module.ModuleFlag, FirstKey: 1, LastKey: 1, KeyStep: 1,
		Group: "test", Summary: "Panics.", Syntax: "key", Handler: func(c *module.Call) reply.Reply {
			return c.Update(c.Args, func(w *kv.Writer) (reply.Reply, error) {
				if _, err := w.Set(c.Args[0], []byte("half"), kv.SetOptions{}); err != nil {
					return reply.Nil, err
				}
				panic("no")
			})
		},
	}}}
}

// panicsIn expects f to panic, or to end its goroutine.
func panicsIn(t *testing.T, name string, f func()) {
	t.Helper()
	returned := make(chan bool)
	go func() {
		done := false
		defer func() {
			_ = recover()
			returned <- done
		}()
		f()
		done = true
	}()
	if <-returned {
		t.Errorf("%s returned", name)
	}
}

// If foreign code panics or ends its goroutine inside a write, the locks of the keys are released, the write has no
// effect, and the store and the session go on.
func TestPanic_inWrite(t *testing.T) {
	db := open(t, kv.Options{Modules: coreext.With(panics())})
	seen := reserve(t, db, "seen", 100)
	c := client{t, module.NewSession(db)}
	c.do("SET k whole", "OK")
	goesOn := func(name string) {
		t.Helper()
		c.do("GET k", `"whole"`)
		c.do("SET k whole", "OK")
		c.do("MULTI", "OK")
		c.do("APPEND k +", "QUEUED")
		c.do("SET k whole", "QUEUED")
		c.do("EXEC", "1) (integer) 6 2) OK")
		if _, err := seen.Add([]byte(name)); err != nil {
			t.Errorf("after %s: Add = %v", name, err)
		}
	}
	panicsIn(t, "a command", func() { c.do("PANIC k", "") })
	goesOn("a command")

	c.do("MULTI", "OK")
	c.do("SET other half", "QUEUED")
	c.do("PANIC k", "QUEUED")
	panicsIn(t, "EXEC", func() { c.do("EXEC", "") })
	c.do("EXISTS other", "(integer) 0")
	goesOn("EXEC")

	update := func(f func(tx *txntest.Tx)) func() {
		return func() {
			_ = txntest.Update(context.Background(), db, kv.NoSync, func(tx *txntest.Tx) error {
				must(t, tx.Set("k", []byte("half")))
				f(tx)
				return nil
			})
		}
	}
	panicsIn(t, "a transaction", update(func(*txntest.Tx) { panic("no") }))
	goesOn("a transaction")
	panicsIn(t, "the end of a goroutine in a transaction", update(func(*txntest.Tx) { runtime.Goexit() }))
	goesOn("the end of a goroutine in a transaction")
	panicsIn(t, "a lookup", func() { _ = db.Read(func(kv.Reader) error { panic("no") }) })
	panicsIn(t, "a lookup in a transaction", update(func(tx *txntest.Tx) { _ = tx.Read(func(kv.Reader) error { panic("no") }) }))
	goesOn("a lookup")

	must(t, txntest.Update(context.Background(), db, kv.NoSync, func(tx *txntest.Tx) error {
		if err := seen.In(tx).Merge(t.Context(), seen.In(tx), nil); err == nil || !strings.Contains(err.Error(), "source 1 is nil") {
			t.Errorf("Merge of nil in a transaction = %v", err)
		}
		return tx.Set("k", []byte("whole"))
	}))
	if err := seen.Merge(t.Context(), seen, nil); err == nil || !strings.Contains(err.Error(), "source 1 is nil") {
		t.Errorf("Merge of nil = %v", err)
	}
	goesOn("a merge of nil")
}

// A panic in a change of a transaction undoes that change. Earlier changes stay if the function goes on.
func TestPanic_recoveredInside(t *testing.T) {
	db := open(t, kv.Options{Modules: coreext.With(panics())})
	s := module.NewSession(db)
	must(t, txntest.Update(context.Background(), db, kv.NoSync, func(tx *txntest.Tx) error {
		must(t, tx.Set("k", []byte("before")))
		func() {
			defer func() { _ = recover() }()
			s.Run(t.Context(), tx.Transaction, module.Of(db).Command([]byte("PANIC")), [][]byte{[]byte("k")})
		}()
		if v, err := tx.Get("k"); string(v) != "before" || err != nil {
			t.Errorf("Get = %q, %v, want before", v, err)
		}
		return tx.Set("l", []byte("after"))
	}))
	for key, want := range map[string]string{"k": "before", "l": "after"} {
		if v, err := db.Get([]byte(key)); string(v) != want || err != nil {
			t.Errorf("Get(%s) = %q, %v, want %s", key, v, err, want)
		}
	}
	if err := db.Close(); err != nil && !errors.Is(err, kv.ErrClosed) {
		t.Error(err)
	}
}
