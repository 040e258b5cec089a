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
