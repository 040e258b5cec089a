package server_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/server"
)

// AUTH and HELLO may wait because of wrong passwords, so MULTI refuses them, and EXEC does nothing.
func TestTransaction_logins(t *testing.T) {
	w := serve(t, nil)
	c := w.client()
	for _, line := range []string{"AUTH x", "AUTH default x", "HELLO", "HELLO 3 AUTH default x", "ACL SAVE", "ACL LOAD"} {
		c.answers("MULTI => +OK\nSET k v => +QUEUED\n" + line + ` => -ERR Command not allowed inside a transaction
			EXEC => -EXECABORT Transaction discarded because of previous errors.
			GET k => $-1`)
	}
}

// No command waits for anything but the processor and the disk while it is part of a transaction: the clock, which here
// only goes on while every goroutine waits, stands still. Each command is given its own example, and words, some of
// them wrong passwords.
func TestTransaction_noneWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := serveStore(t, kv.Options{InMemory: true, Seed: 1}, server.Options{}.WithTimes(long, long, long).WithGuesses(time.Second, time.Minute))
		guesser := w.client()
		guesser.answers("ACL SETUSER other on >secret => +OK")
		for range server.FreeGuesses + 1 { // later passwords are answered late
			guesser.answers("HELLO 3 AUTH other wrong => -WRONGPASS...")
		}
		began := time.Now()
		guesser.answers("HELLO 3 AUTH other wrong => -WRONGPASS...")
		if time.Since(began) == 0 {
			t.Fatal("the clock stands still while a command waits")
		}
		for _, line := range everyCommand(w) {
			c := w.client()
			c.answers("MULTI => +OK\nSET written v => +QUEUED")
			c.do(line)
			began := time.Now()
			c.do("EXEC")
			if took := time.Since(began); took != 0 {
				t.Errorf("%s: inside a transaction it waits, for %v", line, took)
			}
			_ = c.Close()
		}
	})
}

// everyCommand returns lines that run each command of a server's table, and each subcommand, with several arguments.
func everyCommand(w *world) (lines []string) {
	var add func(name string, cmd *module.Command)
	add = func(name string, cmd *module.Command) {
		if name == "QUIT" || name == "RESET" || name == "MULTI" || name == "EXEC" || name == "DISCARD" {
			return // these are no part of a transaction
		}
		for i := range cmd.Subcommands {
			sub := &cmd.Subcommands[i]
			add(name+" "+sub.Name, sub)
		}
		if example := strings.Split(cmd.Example, "\n"); cmd.Example != "" {
			lines = append(lines, example[len(example)-1])
		}
		least := max(cmd.Arity, -cmd.Arity) - len(strings.Fields(name))
		for n := least; n <= least+3 && (n == least || cmd.Arity < 0); n++ {
			lines = append(lines, name+strings.Repeat(" 3", n))
		}
	}
	for _, cmd := range module.Of(w.db.Store()).Commands() {
		add(cmd.Name, cmd)
	}
	return append(lines, "AUTH other wrong", "HELLO 3 AUTH other wrong", fmt.Sprint("WAIT 1 ", 1<<20))
}

// Transactions that write and take long leave four fifths of the time to other writes.
func TestTransaction_rest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nap := module.Command{
			Name: "NAP", Arity: 1, Flags: module.ReadOnly, Group: "test", Summary: "Tests.",
			Handler: func(*module.Call) reply.Reply { time.Sleep(100 * time.Millisecond); return reply.OK },
		}
		test := module.Module{Name: "test", Commands: []module.Command{nap}}
		w := serveStore(t, kv.Options{InMemory: true, Seed: 1, Modules: coreext.With(test)}, nil)
		first, second, third := w.client(), w.client(), w.client()
		for _, c := range []*client{first, second} {
			c.answers("MULTI => +OK\nSET k v => +QUEUED\nNAP => +QUEUED")
		}
		began := time.Now()
		first.answers("EXEC => [+OK +OK]")
		third.answers("SET other v => +OK\nMULTI => +OK\nSET k v => +QUEUED\nEXEC => [+OK]")
		if took := time.Since(began); took != 100*time.Millisecond {
			t.Errorf("a write after the transaction, and a short transaction, ended after %v", took)
		}
		second.answers("EXEC => [+OK +OK]")
		if took := time.Since(began); took != 600*time.Millisecond {
			t.Errorf("the second long transaction ended after %v, want 600ms", took)
		}
	})
}
