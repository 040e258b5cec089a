package server_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/server"
)

// However a connection ends, its keys stop being watched: otherwise commits would look for it for ever.
func TestWatch_connectionEnds(t *testing.T) {
	w := serve(t, nil)
	other := w.client()
	watched := func() string { return other.info("clients", "total_watched_keys") }
	for name, end := range map[string]func(c *client){
		"closed":       func(c *client) { _ = c.Close() },
		"QUIT":         func(c *client) { c.answers("QUIT => +OK"); c.ended() },
		"in MULTI":     func(c *client) { c.answers("MULTI => +OK\nSET k v => +QUEUED"); _ = c.Close() },
		"EXEC refused": func(c *client) { c.answers("MULTI => +OK\nNOSUCH => ...\nEXEC => ..."); _ = c.Close() },
	} {
		c := w.client()
		c.answers("WATCH k l k => +OK")
		if n := watched(); n != "2" {
			t.Errorf("%s: %s keys are watched, want 2", name, n)
		}
		end(c)
		eventually(t, "the connection is gone", func() bool { return w.server.Connections() == 1 })
		if n := watched(); n != "0" {
			t.Errorf("%s: %s keys are watched by nobody", name, n)
		}
	}
}

// slow is a command that runs until the test ends it, or it is given up.
type slow struct{ begun, end, givenUp chan struct{} }

// serveSlow serves a store that has slow as the command SLOW.
func serveSlow(t *testing.T, flags module.Flags) (*world, *slow) {
	t.Helper()
	s := &slow{make(chan struct{}), make(chan struct{}), make(chan struct{})}
	store := kv.Options{InMemory: true, Seed: 1, Modules: coreext.With(module.Module{Name: "slow", Commands: []module.Command{{
		Name: "SLOW", Arity: -1, Flags: flags, Group: "server", Summary: "Waits.", Complexity: "O(1)", Example: "SLOW",
		Handler: func(c *module.Call) reply.Reply {
			close(s.begun)
			select {
			case <-s.end:
			case <-c.Context.Done():
				close(s.givenUp)
			}
			return reply.OK
		},
	}}})}
	return serveStore(t, store, server.Options{}.WithTimes(long, long, long)), s
}

// A long command is given up when its client is gone, also inside EXEC, and whatever the client has sent after it.
func TestSlow_clientGone(t *testing.T) {
	for name, tt := range map[string]struct {
		flags module.Flags
		sent  string
	}{
		"admin":             {module.Admin, pipeline("SLOW")},
		"all keys":          {module.ReadOnly, pipeline("SLOW")},
		"EXEC":              {module.ReadOnly, pipeline("MULTI", "SLOW", "EXEC")},
		"EXEC that writes":  {module.ReadOnly, pipeline("MULTI", "SET k v", "SLOW", "EXEC")},
		"many words":        {module.Write, pipeline("SLOW" + strings.Repeat(" x", 5000))},
		"more that is sent": {module.ReadOnly, pipeline("SLOW") + "P"},
		"a write":           {module.Write, pipeline("SLOW")},
		"a part of several": {module.Write, pipeline("PING", "SLOW", "GET k")},
	} {
		w, slow := serveSlow(t, tt.flags)
		c := w.client()
		c.send(tt.sent)
		<-slow.begun
		if name == "more that is sent" {
			c.send("ING\r\n")
		}
		_ = c.Close()
		<-slow.givenUp
		eventually(t, "the connection is gone", func() bool { return w.server.Connections() == 0 })
		w.client().answers("GET k => $-1")
	}
}

// CLIENT KILL gives up a command, also one that uses few keys.
func TestSlow_killed(t *testing.T) {
	w, slow := serveSlow(t, module.Write)
	c := w.client()
	id := strings.TrimPrefix(c.do("CLIENT ID"), ":")
	c.send(pipeline("SLOW"))
	<-slow.begun
	w.client().answers("CLIENT KILL ID " + id + " => :1")
	<-slow.givenUp
}

// A client that is gone does not wait for the place of a huge command, and the command does not run.
func TestHuge_waiterGone(t *testing.T) {
	w, slow := serveSlow(t, module.Write)
	huge := "SLOW" + strings.Repeat(" x", server.HugeWords)
	l := listenTCP(t) // a pipe has no room for the reply to SET
	w.listen(l)
	first := w.dial(l)
	first.send(pipeline(huge))
	<-slow.begun
	second := w.dial(l)
	second.send(pipeline("SET before v", "MSET"+strings.Repeat(" after v", server.HugeWords)))
	eventually(t, "the second waits", func() bool { return w.server.Watched() == 2 })
	_ = second.Close()
	eventually(t, "the second is gone", func() bool { return w.server.Connections() == 1 })
	close(slow.end)
	first.want("+OK")
	first.answers("MGET before after => [\"v\" $-1]")
}

// What a client sends while a long command runs is processed after it, from the first byte.
func TestSlow_ahead(t *testing.T) {
	w, slow := serveSlow(t, module.Admin)
	c := w.client()
	c.send(pipeline("SLOW"))
	<-slow.begun
	c.send("P") // until the server has read it
	close(slow.end)
	c.want("+OK")
	c.send("ING\r\n")
	c.want("+PONG")
	select {
	case <-slow.givenUp:
		t.Error("a command was given up")
	default:
	}
}

// Shutdown gives up a long command when its time is over.
func TestSlow_shutdown(t *testing.T) {
	w, slow := serveSlow(t, module.Admin)
	c := w.client()
	c.send(pipeline("SLOW"))
	<-slow.begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.server.Shutdown(ctx); err == nil {
		t.Error("Shutdown does not say that it gave up a command")
	}
	<-slow.givenUp
}

// serveStuck serves a store with the command STUCK, which reports that it has begun and runs until end is closed.
func serveStuck(t *testing.T, options *server.Options) (w *world, begun, end chan struct{}) {
	begun, end = make(chan struct{}), make(chan struct{})
	store := kv.Options{InMemory: true, Seed: 1, Modules: coreext.With(module.Module{Name: "stuck", Commands: []module.Command{{
		Name: "STUCK", Arity: 1, Group: "server", Summary: "Waits.", Complexity: "O(1)", Example: "STUCK",
		Handler: func(*module.Call) reply.Reply {
			close(begun)
			<-end
			return reply.OK
		},
	}}})}
	return serveStore(t, store, options), begun, end
}

// Shutdown does not wait for a command that goes on after it was given up.
func TestShutdown_stuck(t *testing.T) {
	w, begun, end := serveStuck(t, server.Options{}.WithTimes(long, long, long).WithGiveUp(time.Millisecond))
	w.client().send(pipeline("STUCK"))
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.server.Shutdown(ctx); !errors.Is(err, server.ErrStuck) || !strings.Contains(err.Error(), "commands: stuck") {
		t.Errorf("Shutdown = %v", err)
	}
	close(end)
}

// A killed connection is gone for other clients, even if its last command still runs.
func TestClientKill_running(t *testing.T) {
	w, begun, end := serveStuck(t, server.Options{}.WithTimes(long, long, long))
	victim, other := w.client(), w.client()
	id := strings.TrimPrefix(victim.do("CLIENT ID"), ":")
	victim.send(pipeline("STUCK"))
	<-begun
	other.answers("CLIENT KILL ID " + id + " => :1\nCLIENT KILL ID " + id + " => :0\nCLIENT KILL TYPE normal => :0")
	if list := other.do("CLIENT LIST"); strings.Contains(list, "id="+id+" ") {
		t.Errorf("CLIENT LIST = %s", list)
	}
	close(end)
	victim.ended()
}

// A few large commands run at a time, and one huge command.
func TestMemory_largeCommands(t *testing.T) {
	var running, most atomic.Int32
	begun, end := make(chan struct{}), make(chan struct{})
	store := kv.Options{InMemory: true, Seed: 1, Modules: coreext.With(module.Module{Name: "hold", Commands: []module.Command{{
		Name: "HOLD", Arity: -1, Group: "server", Syntax: "[word ...]", Summary: "Waits.", Complexity: "O(1)", Example: "HOLD",
		Handler: func(*module.Call) reply.Reply {
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			begun <- struct{}{}
			<-end
			running.Add(-1)
			return reply.OK
		},
	}}})}
	w := serveStore(t, store, server.Options{}.WithTimes(long, long, long))
	other := w.client()
	for _, tt := range []struct{ words, at, large, huge int }{
		{server.LargeWords, 4, 4, 0},
		{server.HugeWords, 1, 0, 1},
	} {
		most.Store(0)
		clients := make([]*client, tt.at+1)
		for i := range clients {
			clients[i] = w.client()
			go func() { _ = clients[i].Send(pipeline("HOLD" + strings.Repeat(" x", tt.words))) }()
			if i < tt.at {
				<-begun
			}
		}
		eventually(t, "the last has come", func() bool {
			return strings.Count(other.do("CLIENT LIST"), "cmd=hold") == len(clients)
		})
		if large, huge := w.server.LargeCommands(); large != tt.large || huge != tt.huge {
			t.Errorf("of %d words %d and %d run as large and huge, want %d and %d", tt.words, large, huge, tt.large, tt.huge)
		}
		end <- struct{}{}
		<-begun // the last
		for range tt.at {
			end <- struct{}{}
		}
		for _, c := range clients {
			c.want("+OK")
			_ = c.Close()
		}
		if n := most.Load(); int(n) != tt.at {
			t.Errorf("%d commands of %d words ran at once, want %d", n, tt.words, tt.at)
		}
		eventually(t, "all have ended", func() bool {
			large, huge := w.server.LargeCommands()
			return large+huge == 0 && w.server.Connections() == 1
		})
	}
}

// After a huge write, the next huge command waits, but only if other clients gave commands meanwhile, and not for long.
func TestMemory_hugeRest(t *testing.T) {
	for _, tt := range []struct {
		name     string
		flags    module.Flags
		others   bool
		times    int
		longest  time.Duration
		stillHas bool // its place
	}{
		{"beside others", module.Write, true, 1 << 30, long, true},
		{"alone", module.Write, false, 1 << 30, long, false},
		{"a read", module.ReadOnly, true, 1 << 30, long, false},
		{"no rest", module.Write, true, 0, long, false},
		{"at most", module.Write, true, 1 << 30, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			begun, end := make(chan struct{}), make(chan struct{})
			store := kv.Options{InMemory: true, Seed: 1, Modules: coreext.With(module.Module{Name: "hold", Commands: []module.Command{{
				Name: "HOLD", Arity: -1, Flags: tt.flags, Group: "server", Syntax: "[word ...]", Summary: "Waits.", Complexity: "O(1)", Example: "HOLD",
				Handler: func(*module.Call) reply.Reply {
					begun <- struct{}{}
					<-end
					return reply.OK
				},
			}}})}
			w := serveStore(t, store, server.Options{}.WithTimes(long, long, long).WithHugeRest(tt.times, tt.longest))
			c, other := w.client(), w.client()
			go func() { _ = c.Send(pipeline("HOLD" + strings.Repeat(" x", server.HugeWords))) }()
			<-begun
			if tt.others {
				other.answers("PING => +PONG")
			}
			end <- struct{}{}
			c.want("+OK")
			if tt.stillHas {
				if _, huge := w.server.LargeCommands(); huge != 1 {
					t.Errorf("%d places for huge commands are taken, want 1", huge)
				}
				return
			}
			eventually(t, "the place is free", func() bool { _, huge := w.server.LargeCommands(); return huge == 0 })
		})
	}
}
