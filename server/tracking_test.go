package server_test

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// tracking returns a client that tracks, and another one. The first has a socket: a pipe has no room for a push while the client
// sends.
func (w *world) tracking(mode string) (tracks, other *client) {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	w.listen(l)
	tracks, other = w.dial(l), w.client()
	tracks.do("HELLO 3")
	tracks.answers("CLIENT TRACKING ON " + mode + " => +OK")
	return tracks, other
}

// past sends a command and returns its reply, and how many pushes came before it.
func (c *client) past(command string) (r string, pushes int) {
	c.t.Helper()
	c.send(pipeline(command))
	for ; ; pushes++ {
		got, err := c.Reply()
		if err != nil {
			c.t.Fatal(err)
		}
		if !strings.HasPrefix(got, ">") {
			return got, pushes
		}
	}
}

// told fails the test unless the pushes that have been made are these, in any order.
func (c *client) told(when string, want ...string) {
	c.t.Helper()
	wanted := make(map[string]bool)
	for _, key := range want {
		wanted[`>["invalidate" `+key+`]`] = true
	}
	c.send("*1\r\n$4\r\nPING\r\n")
	for {
		got, err := c.Reply()
		if err != nil {
			c.t.Fatal(err)
		}
		if got == "+PONG" {
			break
		}
		if !wanted[got] {
			c.t.Errorf("%s: told %s", when, got)
		}
		delete(wanted, got)
	}
	for push := range wanted {
		c.t.Errorf("%s: not told %s", when, push)
	}
}

// serveClock is serve with a clock that the test moves.
func serveClock(t *testing.T) (w *world, now *atomic.Int64) {
	now = new(atomic.Int64)
	now.Store(1_000_000)
	return serveStore(t, kv.Options{InMemory: true, Clock: func() time.Time { return time.UnixMilli(now.Load()) }}, nil), now
}

// A client is told once of each change of a key that it has read, whatever it read and whatever changed it.
func TestTracking_changes(t *testing.T) {
	w := serve(t, nil)
	tracks, other := w.tracking("")
	for _, c := range []struct{ made, read, changed, again string }{
		{"SET k 1", "GET k", "SET k 2", "SET k 3"},
		{"", "GET k", "SET k 2", "DEL k"},
		{"SET k 1", "MGET k k", "INCR k", "INCR k"},
		{"SET k 1", "EXISTS k", "DEL k", "SET k 2"},
		{"SET k 1", "TTL k", "EXPIRE k 100", "PERSIST k"},
		{"SET k 1", "STRLEN k", "RENAME k j", "RENAME j k"},
		{"SET j 1", "GET k", "COPY j k", "DEL k"},
		{"SETBIT k 7 1", "GETBIT k 7", "SETBIT k 7 0", "SETBIT k 8 1"},
		{"SETBIT k 1000000 1", "BITCOUNT k", "SETBIT k 77 1", "DEL k"},
		{"BF.ADD k a", "BF.EXISTS k b", "BF.ADD k b", "BF.ADD k c"},
		{"", "BF.MEXISTS k b", "BF.MADD k a b", "BF.ADD k c"},
		{"BF.ADD k a", "BF.INFO k", "BF.INSERT k ITEMS b", "BF.ADD k c"},
		{"CF.ADD k a", "CF.COUNT k a", "CF.DEL k a", "CF.ADD k a"},
		{"CBF.ADD k a", "CBF.EXISTS k a", "CBF.ADD k a", "CBF.ADD k a"},
		{"SET k 1", "TYPE k", "UNLINK k", "SET k 1"},
	} {
		other.do("DEL k j")
		if c.made != "" {
			other.do(c.made)
		}
		tracks.do(c.read)
		tracks.told("after " + c.read)
		other.do(c.changed)
		tracks.told("after "+c.read+" and "+c.changed, `["k"]`)
		other.do(c.again)
		tracks.told("a second time, after " + c.again)
	}
	tracks.do("DEL k j")
	tracks.do("SET k 1")
	tracks.told("of what it has not read")
	tracks.do("GET k")
	tracks.do("BF.ADD f a")
	tracks.do("BF.EXISTS f a")
	tracks.do("SET k 2")
	tracks.told("of its own write", `["k"]`)
	tracks.do("GET k")
	other.answers("BF.ADD f a => :0")
	tracks.told("of an add that changes nothing")
	other.do("FLUSHALL")
	tracks.told("of FLUSHALL", "_")
	tracks.do("GET k")
	other.send(pipeline("MULTI", "SET k 1", "SET j 1", "EXEC"))
	other.want("+OK", "+QUEUED", "+QUEUED", "[+OK +OK]")
	tracks.told("of a transaction", `["k"]`)
	tracks.do("GET k")
	tracks.send(pipeline("MULTI", "GET j", "EXEC"))
	tracks.want("+OK", "+QUEUED", `["1"]`)
	other.do("MSET k 2 j 2")
	tracks.told("of two keys", `["k"]`, `["j"]`)
	tracks.answers("GET k => \"2\"\nCLIENT TRACKING OFF => +OK")
	other.do("SET k 3")
	tracks.told("when it does not track any more")
	if got := other.info("clients", "tracking_clients"); got != "0" {
		t.Errorf("%s clients track", got)
	}
}

// A key that expires is told of when it is removed.
func TestTracking_expiry(t *testing.T) {
	w, now := serveClock(t)
	tracks, other := w.tracking("")
	other.do("SET k 1 PX 1000")
	tracks.do("GET k")
	now.Add(1000)
	if _, err := w.db.Store().Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	tracks.told("of a key that has expired", `["k"]`)
}

// A change that is made while a command reads the key is told after the reply: what the command has read may be older.
func TestTracking_meanwhile(t *testing.T) {
	hasRead, changed := make(chan struct{}), make(chan struct{})
	slow := module.Command{
		Name: "TEST.SLOWGET", Arity: 2, Flags: module.ReadOnly | module.Fast, FirstKey: 1, LastKey: 1, KeyStep: 1,
		Group: "string", Syntax: "key", Summary: "Reads a key, and answers when it was changed.", Complexity: "O(1)", Example: "TEST.SLOWGET k",
		Handler: func(c *module.Call) reply.Reply {
			value, err := c.DB.Get(c.Args[0])
			if err != nil {
				return module.ErrorReply(err)
			}
			close(hasRead)
			<-changed
			return reply.Bulk(value)
		},
	}
	w := serveStore(t, kv.Options{InMemory: true, Modules: coreext.With(module.Module{Name: "test", Commands: []module.Command{slow}})}, nil)
	tracks, other := w.tracking("")
	other.do("SET k old")
	tracks.send(pipeline("TEST.SLOWGET k"))
	<-hasRead
	other.do("SET k new")
	close(changed)
	tracks.want(`"old"`)
	tracks.told("after the reply", `["k"]`)
}

// hooked is a listener whose connections call a function once when the server has read something.
type hooked struct {
	net.Listener
	hasRead atomic.Pointer[func()]
}

func (l *hooked) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return hookedConn{c, l}, err
}

type hookedConn struct {
	net.Conn
	l *hooked
}

func (c hookedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		if f := c.l.hasRead.Swap(nil); f != nil {
			(*f)()
		}
	}
	return n, err
}

// A change that was made before a command is read is told before the reply to that command.
func TestTracking_beforeReply(t *testing.T) {
	w := serve(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hook := &hooked{Listener: l}
	w.listen(hook)
	tracks, other := w.dial(l), w.client()
	tracks.do("HELLO 3")
	tracks.answers("CLIENT TRACKING ON => +OK")
	tracks.do("GET k")
	change := func() { other.do("SET k 1") }
	hook.hasRead.Store(&change)
	tracks.told("of a change while it sends", `["k"]`)
}

// Series of commands are tracked as single ones.
func TestTracking_series(t *testing.T) {
	w := serve(t, nil)
	tracks, other := w.tracking("")
	other.do("BF.ADD f a")
	tracks.send(pipeline("BF.EXISTS f a", "BF.EXISTS f b", "BF.EXISTS f c"))
	tracks.want("#t", "#f", "#f")
	other.do("BF.ADD f b")
	tracks.told("of a filter", `["f"]`)
}

// What the rueidis client sends with its defaults for a value that it keeps.
func TestTracking_optIn(t *testing.T) {
	w := serve(t, nil)
	tracks, other := w.tracking("OPTIN")
	other.do("SET k 1")
	tracks.do("GET k")
	other.do("SET k 2")
	tracks.told("of a key that it does not keep")
	cached := pipeline("CLIENT CACHING YES", "MULTI", "PTTL k", "GET k", "EXEC")
	tracks.send(cached)
	tracks.want("+OK", "+OK", "+QUEUED", "+QUEUED", `[:-1 "2"]`)
	tracks.do("GET j")
	other.do("MSET k 3 j 3")
	tracks.told("of a key that it keeps", `["k"]`)
	tracks.do("CLIENT CACHING YES")
	tracks.answers(`CLIENT TRACKINGINFO => {"flags" ~["on" "optin" "caching-yes"] "redirect" :0 "prefixes" []}`)
	tracks.do("RESET")
	tracks.answers(`CLIENT TRACKINGINFO => ["flags" ["off"] "redirect" :-1 "prefixes" []]`)
}

func TestTracking_optOut(t *testing.T) {
	w := serve(t, nil)
	tracks, other := w.tracking("OPTOUT")
	tracks.do("CLIENT CACHING NO")
	tracks.do("GET j")
	tracks.do("GET k")
	other.do("MSET j 1 k 1")
	tracks.told("of what it keeps", `["k"]`)
}

func TestTracking_errors(t *testing.T) {
	c := serve(t, nil).client()
	c.answers("CLIENT TRACKING ON => -ERR CLIENT TRACKING needs RESP3...DisableCache)")
	c.do("HELLO 3")
	c.answers(`
		CLIENT TRACKING ON OPTIN OPTOUT => -ERR You can't specify both OPTIN mode and OPTOUT mode
		CLIENT TRACKING ON REDIRECT 5 => -ERR CLIENT TRACKING REDIRECT is not supported: want ON, alone or with OPTIN or OPTOUT, or OFF
		CLIENT TRACKING ON BCAST => -ERR CLIENT TRACKING BCAST is not supported...
		CLIENT TRACKING ON NOLOOP => -ERR CLIENT TRACKING NOLOOP is not supported...
		CLIENT TRACKING MAYBE => -ERR syntax error
		CLIENT TRACKING ON NOSUCH => -ERR syntax error
		CLIENT CACHING YES => -ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled
		CLIENT TRACKING ON OPTIN => +OK
		CLIENT TRACKING ON OPTOUT => -ERR You can't switch...
		CLIENT CACHING NO => -ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.
		CLIENT CACHING MAYBE => -ERR syntax error
		CLIENT INFO => ="txt:...flags=t...
		CLIENT TRACKING OFF => +OK
		CLIENT TRACKING ON OPTOUT => +OK
		CLIENT CACHING YES => -ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.
	`)
}

// When more keys are read than the setting allows, clients are told of some that have not changed. The table keeps to the
// setting, and is empty when no client tracks.
func TestTracking_full(t *testing.T) {
	const most, keys = 640, 2000
	w := serve(t, nil)
	w.set("tracking-table-max-keys", strconv.Itoa(most))
	tracks, other := w.tracking("")
	told := 0
	for i := range keys {
		_, pushes := tracks.past(fmt.Sprint("GET key:", i))
		told += pushes
	}
	n, err := strconv.Atoi(other.info("stats", "tracking_total_keys"))
	if err != nil || n > most || n < most/2 || told < keys-most-1 {
		t.Errorf("of %d keys %d are tracked, and %d were told of, %v; want %d at most, and all others told", keys, n, told, err, most)
	}
	tracks.past("HELLO 2")
	if n := other.info("stats", "tracking_total_keys"); n != "0" {
		t.Errorf("%s keys are tracked by no client", n)
	}
}

// While other clients write, a client keeps what it reads until it is told. When they have ended, it has what is stored.
func TestTracking_together(t *testing.T) {
	const keys, writes = 4, 300
	w := serve(t, nil)
	tracks, other := w.tracking("")
	var writers sync.WaitGroup
	done := make(chan struct{})
	for n := range 2 {
		c := w.client()
		writers.Go(func() {
			for i := range writes {
				if _, err := c.Do("SET", fmt.Sprint("k", i%keys), fmt.Sprintf("%d-%d", n, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	go func() { writers.Wait(); close(done) }()
	kept := make(map[string]string)
	read := func(command string) string {
		tracks.send(pipeline(command))
		for {
			got, err := tracks.Reply()
			if err != nil {
				t.Fatal(err)
			}
			rest, push := strings.CutPrefix(got, `>["invalidate" ["`)
			if !push {
				return got
			}
			delete(kept, strings.TrimSuffix(rest, `"]]`))
		}
	}
	for last := false; !last; {
		select {
		case <-done:
			last = true
		default:
		}
		for i := range keys {
			if key := fmt.Sprint("k", i); kept[key] == "" {
				kept[key] = read("GET " + key)
			}
		}
		read("PING")
		read("PING")
	}
	for key, value := range kept {
		if now := other.do("GET " + key); now != value {
			t.Errorf("%s is kept as %s, and is %s", key, value, now)
		}
	}
}
