package server_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/server"
)

// The time that a command takes counts, unless that depends on the bytes of its words alone: after NAP, which takes longer
// than the burst, a connection needs a turn. For other commands an estimate counts, as they may have waited.
func TestUse_timeTaken(t *testing.T) {
	for name, tt := range map[string]struct {
		flags module.Flags
		want  int // turns
	}{
		"a read": {module.ReadOnly, 1}, "a write": {module.Write, 1}, "neither": {0, 1},
		"a fast read": {module.ReadOnly | module.Fast, 0}, "a brief write": {module.Write | module.Brief, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var w *world
			turns := -1
			command := func(name string, flags module.Flags, f func()) module.Command {
				return module.Command{
					Name: name, Arity: 2, Flags: flags, FirstKey: 1, LastKey: 1, KeyStep: 1, Group: "test", Summary: "Tests.",
					Handler: func(*module.Call) reply.Reply { f(); return reply.OK },
				}
			}
			test := module.Module{Name: "test", Commands: []module.Command{
				command("NAP", tt.flags, func() { time.Sleep(60 * time.Millisecond) }),
				command("TURNS", module.ReadOnly|module.Fast, func() { turns = w.server.TurnsHeld() }),
			}}
			o := server.Options{}.WithTimes(long, long, long)
			w = serveStore(t, kv.Options{InMemory: true, Seed: 1, Modules: coreext.With(test)}, o.WithBurst(50*time.Millisecond))
			w.client().answers("NAP k => +OK\nTURNS k => +OK")
			if turns != tt.want {
				t.Errorf("%s: after it a connection has %d turns, want %d", name, turns, tt.want)
			}
		})
	}
}

// The next turn of a connection is expected to be long if it did much in the last one. A command that waited did not do
// much, nor is one counted that was expected to take long: it needs a long turn whatever comes after it.
func TestUse_nextTurn(t *testing.T) {
	for name, tt := range map[string]struct {
		flags  module.Flags
		before string
		long   bool
	}{
		"a fast command that waited":          {flags: module.Fast},
		"a command that was expected to last": {},
		"another":                             {before: "NAP short => +OK", long: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			nap := module.Command{
				Name: "NAP", Arity: 2, Flags: module.ReadOnly | tt.flags, FirstKey: 1, LastKey: 1, KeyStep: 1, Group: "test", Summary: "Tests.",
				Handler: func(c *module.Call) reply.Reply {
					if string(c.Args[0]) == "long" {
						time.Sleep(60 * time.Millisecond)
					}
					return reply.OK
				},
			}
			o := server.Options{}.WithTimes(long, long, long)
			w := serveStore(t, kv.Options{InMemory: true, Seed: 1, Modules: coreext.With(module.Module{Name: "test", Commands: []module.Command{nap}})}, o.WithBurst(-1))
			c := w.client()
			c.answers(tt.before)
			c.answers("NAP long => +OK")
			giveBack := w.server.HoldLongTurns()
			c.send(pipeline("PING"))
			synctest.Wait()
			if waits := w.server.LongTurnsWanted() == 1; waits != tt.long {
				t.Errorf("after %s the next turn is a long one: %v, want %v", name, waits, tt.long)
			}
			giveBack()
			c.want("+PONG")
		})
	}
}
