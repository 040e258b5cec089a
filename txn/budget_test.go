package txn_test

import (
	"testing"
	"time"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/txn"
)

// alarm is a clock with one alarm, which the command RING lets ring as if its time had come.
type alarm struct {
	d    time.Duration
	ring func()      // nil if there is none
	set  chan func() // the alarms that were set
}

func (a *alarm) after(d time.Duration, f func()) (stop func() bool) {
	a.d, a.ring = d, f
	a.set <- f
	return func() bool {
		a.ring = nil
		return true
	}
}

// openAlarmed opens a store whose transactions have an alarm as their clock, with two commands: RING, after which SLOW runs
// until its context has ended.
func openAlarmed(t *testing.T) (*kv.DB, *alarm) {
	a := &alarm{set: make(chan func(), 10)}
	command := func(name string, f func(*module.Call)) module.Command {
		return module.Command{
			Name: name, Arity: 1, Flags: module.ReadOnly, Group: "test", Summary: "Tests.",
			Handler: func(c *module.Call) reply.Reply { f(c); return reply.OK },
		}
	}
	test := module.Module{Name: "test", Commands: []module.Command{
		command("RING", func(*module.Call) {
			if a.ring != nil {
				a.ring()
			}
		}),
		command("SLOW", func(c *module.Call) {
			if a.ring != nil {
				go a.ring()
				<-c.Context.Done()
			}
		}),
	}}
	db, err := kv.Open("", &kv.Options{InMemory: true, Durability: kv.NoSync, Modules: coreext.With(test, txn.ModuleWith(a.after))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db, a
}

// connected returns a client like a server's clients.
func connected(t *testing.T, db *kv.DB) client {
	s := module.NewSession(db)
	s.Connection = t
	return client{t, s}
}

// over is the answer to an EXEC whose time is over.
const over = "(error) EXECABORT Transaction undone, because it took longer than the 1000 milliseconds of exec-budget. " +
	"Give fewer commands at a time, or commands that read outside of it."

// An EXEC that writes is given up once its time is over, whichever command runs then, and changes nothing. The next one has
// all of its time.
func TestBudget(t *testing.T) {
	db, a := openAlarmed(t)
	c, other := connected(t, db), client{t, module.NewSession(db)}
	for _, slow := range []string{"RING", "SLOW"} {
		c.do("MULTI", "OK")
		c.do("SET a 1", "QUEUED")
		c.do(slow, "QUEUED")
		c.do("SET b 2", "QUEUED")
		c.do("EXEC", over)
		other.do("MGET a b", "1) (nil) 2) (nil)")
		other.do("SET free yes", "OK")
	}
	if a.d != time.Second || a.ring != nil {
		t.Errorf("the alarm was set for %v, and is still set: %v", a.d, a.ring != nil)
	}
	c.do("MULTI", "OK")
	c.do("SET a 1", "QUEUED")
	c.do("EXEC", "1) OK")
	other.do("GET a", `"1"`)
}

// Neither an EXEC that only reads, nor one within the process, nor one with the budget 0, is ever given up.
func TestBudget_none(t *testing.T) {
	db, _ := openAlarmed(t)
	c := connected(t, db)
	c.do("MULTI", "OK")
	c.do("SLOW", "QUEUED")
	c.do("GET k", "QUEUED")
	c.do("EXEC", "1) OK 2) (nil)")
	writes := func(c client) {
		c.do("MULTI", "OK")
		c.do("SLOW", "QUEUED")
		c.do("SET k v", "QUEUED")
		c.do("EXEC", "1) OK 2) OK")
	}
	writes(client{t, module.NewSession(db)})
	if err := module.Of(db).SetSetting("exec-budget", "0"); err != nil {
		t.Fatal(err)
	}
	writes(c)
}

// The time that EXEC waits for the writes under way counts.
func TestBudget_waiting(t *testing.T) {
	db, a := openAlarmed(t)
	c := connected(t, db)
	c.do("MULTI", "OK")
	c.do("SET a 1", "QUEUED")
	must(t, db.Write(kv.NoSync, [][]byte{[]byte("other")}, func(*kv.Writer) error {
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			c.do("EXEC", over)
		}()
		(<-a.set)()
		<-answered // this write is still under way
		return nil
	}))
	c.do("GET a", "(nil)")
}
