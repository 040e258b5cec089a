package server_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/cluster"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/server"
	"github.com/sievekv/sievekv/tests/faultfs"
)

// SIEVE.READ AFTER lets the next read run here once the index is applied, and no other.
func TestGroup_readAfter(t *testing.T) {
	w, g := serveGroupWith(t, impatient().WithReading(time.Hour))
	g.leader("b")
	c := w.client()
	c.answers("SET foo 1 => +OK")
	g.leader("a")
	const moved = "-MOVED 12182 10.0.0.1:6380"
	c.answers(`SIEVE.READ AFTER 99 => +OK
		GET foo => "1"
		GET foo => ` + moved + `
		SIEVE.READ AFTER 0 => +OK
		PING => +PONG
		GET foo => ` + moved + `
		SIEVE.READ AFTER 99 => +OK
		SET foo 2 => ` + moved + `
		GET foo => ` + moved + `
		SIEVE.READ AFTER 99 => +OK
		MULTI => +OK
		GET foo => +QUEUED
		SIEVE.READ AFTER 99 => -ERR Command not allowed inside a transaction
		EXEC => -EXECABORT Transaction discarded because of previous errors.
		GET foo => ` + moved + `
		SIEVE.READ AFTER 99 => +OK
		MULTI => +OK
		GET foo => +QUEUED
		GET foo => +QUEUED
		EXEC => ["1" "1"]
		GET foo => ` + moved + `
		SIEVE.READ AFTER 99 => +OK
		NOSUCH => -ERR unknown...
		GET foo => ` + moved + `
		SIEVE.READ AFTER -1 => -ERR index '-1': must be an integer from 0 to 9223372036854775807
		SIEVE.READ AFTER x => -ERR index 'x': must be an integer from 0 to 9223372036854775807
		SIEVE.READ AFTER => -ERR syntax error
		SIEVE.READ LINEARIZABLE 1 => -ERR syntax error
		SIEVE.READ SOON => -ERR syntax error`)
	c.send(pipeline("SIEVE.READ AFTER 100", "GET foo", "GET foo"))
	g.apply(100)
	c.want("+OK", `"1"`, moved)
	g.leader("b") // it holds on the leader, too
	c.send(pipeline("SIEVE.READ AFTER 101", "GET foo"))
	eventually(t, "it waits", func() bool { return w.server.Watched() == 1 })
	g.apply(101)
	c.want("+OK", `"1"`)
}

// A read that would see too little is refused, and by a word after which no client repeats it without SIEVE.READ.
func TestGroup_behind(t *testing.T) {
	w, g := serveGroupWith(t, impatient().WithReading(time.Nanosecond))
	g.leader("a")
	c := w.client()
	c.answers(`SIEVE.READ AFTER 100 => +OK
		GET foo => -BEHIND this node has applied index 99, and not 100: read later, or from the leader
		SIEVE.READ AFTER 100 => +OK
		MULTI => +OK
		GET foo => +QUEUED
		EXEC => -BEHIND this node...
		EXEC => -ERR EXEC without MULTI
		SIEVE.READ LINEARIZABLE => +OK
		GET foo => -BEHIND no majority has confirmed that a read here would see the newest writes: read later
		SIEVE.READ LINEARIZABLE => +OK
		DBSIZE => -BEHIND no majority...
		READONLY => +OK
		GET foo => $-1`)
	if got := c.info("errorstats", "errorstat_BEHIND"); got != "count=4" {
		t.Errorf("refused reads: %s", got)
	}
}

func TestGroup_linearizable(t *testing.T) {
	w, g := serveGroupWith(t, impatient().WithReading(time.Hour))
	asked := 0
	g.reads = func() (uint64, error) { asked++; return 102, nil }
	g.leader("a")
	c := w.client()
	c.send(pipeline("SIEVE.READ LINEARIZABLE", "GET foo", "GET foo"))
	eventually(t, "it waits", func() bool { return w.server.Watched() == 1 })
	g.apply(102)
	c.want("+OK", "$-1", "-MOVED 12182 10.0.0.1:6380")
	g.leader("b")
	c.answers("SIEVE.READ LINEARIZABLE => +OK\nGET foo => $-1\nGET foo => $-1")
	if asked != 2 {
		t.Errorf("the majority was asked %d times, want 2", asked)
	}
	g.reads = func() (uint64, error) { return 0, errors.New("replica: no leader is known") }
	c.answers("SIEVE.READ LINEARIZABLE => +OK\nGET foo => -BEHIND no majority has confirmed that a read here would see the newest writes: read later")
}

// What takes the place of replies that rest on a batch that could not be settled is nothing that clients repeat: what the batch
// has written may have been done.
func TestGroup_unsettled(t *testing.T) {
	for err, want := range map[error]string{kv.ErrNotLeader: "UNKNOWN ", kv.ErrOutcomeUnknown: "UNKNOWN ", kv.ErrFailed: "MISCONF "} {
		if got := string(server.UnsettledReply(fmt.Errorf("sync: %w", err)).Bytes()); !strings.HasPrefix(got, want) {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}

// While no leader is known, a command that needs one waits for it: here, or elsewhere.
func TestGroup_awaitsLeader(t *testing.T) {
	w, g := serveGroupWith(t, server.Options{}.WithTimes(long, long, long).WithLeader(time.Hour, 0, 0))
	c := w.client()
	for _, test := range []struct{ sent, leader, want string }{
		{"SET foo 1", "b", "+OK"},
		{"GET foo", "b", `"1"`},
		{"GET foo", "a", "-MOVED 12182 10.0.0.1:6380"},
		{"LOSE foo", "c", "-MOVED 12182 10.0.0.3:6380"},
		{"FLUSHALL", "a", "-MOVED 0 10.0.0.1:6380"},
	} {
		g.leader("")
		c.send(pipeline("PING", test.sent))
		eventually(t, "it waits", func() bool { return w.server.Watched() == 1 })
		g.leader(test.leader)
		c.want("+PONG", test.want)
	}
	c.answers("READONLY => +OK")
	g.leader("")
	c.answers("GET foo => \"1\"\nDBSIZE => :1\nMULTI => +OK\nGET foo => +QUEUED")
	c.send(pipeline("SET foo 2"))
	eventually(t, "it waits", func() bool { return w.server.Watched() == 1 })
	g.leader("b")
	c.want("+QUEUED")
	g.leader("")
	c.send(pipeline("EXEC"))
	eventually(t, "it waits", func() bool { return w.server.Watched() == 1 })
	g.leader("c")
	c.want("-MOVED 12182 10.0.0.3:6380")
	g.leader("")
	c.send(pipeline("SET foo 2")) // it is given up when the server ends
	eventually(t, "it waits", func() bool { return w.server.Watched() == 1 })
}

// A store may know before its group's Status that it does not lead: the reply waits for the Status, and does not name this
// member again.
func TestGroup_lostUnseen(t *testing.T) {
	w, g := serveGroupWith(t, server.Options{}.WithTimes(long, long, long).WithLeader(time.Hour, 0, 0))
	c := w.client()
	for leader, want := range map[string]string{"a": "-MOVED 12182 10.0.0.1:6380", "c": "-MOVED 12182 10.0.0.3:6380"} {
		g.leader("b")
		c.send(pipeline("LOSE foo"))
		eventually(t, "it waits", func() bool { return w.server.Watched() == 1 })
		g.leader("")
		g.leader(leader)
		c.want(want)
	}
	g.leader("b")
	c.send(pipeline("LOSE foo"))
	eventually(t, "it waits", func() bool { return w.server.Watched() == 1 })
	again := *g.Status()
	again.Term += 10
	g.status.Store(&again)
	c.want("-MOVED 12182 10.0.0.2:6380") // it was elected again
}

// Once CLUSTERDOWN was the answer, nothing that needs a leader runs until the client pauses: it may repeat the whole pipeline.
func TestGroup_down(t *testing.T) {
	w, g := serveGroupWith(t, server.Options{}.WithTimes(long, long, long).WithLeader(0, time.Hour, time.Hour))
	c, other := w.client(), w.client()
	c.answers("SET foo 1 => " + down)
	g.leader("b")
	other.answers("SET bar 1 => +OK")
	c.send(pipeline("SET foo 1", "GET foo", "BF.ADD f a", "BF.ADD f b", "PING", "DBSIZE", "MULTI", "SET foo 1", "EXEC"))
	c.want(down, down, down, down, "+PONG", ":1", "+OK", down, "-EXECABORT...")
	g.leader("a")
	c.answers("SET foo 1 => " + down + "\nREADONLY => +OK\nGET foo => $-1\nSET foo 1 => " + down)

	for name, o := range map[string]*server.Options{
		"the client pauses": server.Options{}.WithTimes(long, long, long).WithLeader(0, 1, time.Hour),
		"it never does":     server.Options{}.WithTimes(long, long, long).WithLeader(0, time.Hour, time.Millisecond),
	} {
		t.Run(name, func(t *testing.T) {
			w, g := serveGroupWith(t, o)
			c := w.client()
			c.answers("SET foo 1 => " + down)
			g.leader("b")
			eventually(t, "it is let go", func() bool { return c.do("SET foo 1") == "+OK" })
		})
	}
}

// serveDisk serves the store of the member b, with always, from a file system.
func serveDisk(t *testing.T, fs vfs.FS) (*world, *fakeGroup) {
	g := &fakeGroup{applied: make(chan uint64, 1)}
	g.applied <- 99
	g.leader("b")
	store, o := onDisk(fs), impatient()
	store.Modules, o.Group = coreext.With(server.GroupModule(), outcomes()), g
	return serveStore(t, store, o), g
}

// What a leader has read of its memory, and cannot make durable, is not told; what did not run here is told all the same. A
// follower has in memory only what is committed.
func TestGroup_failingSync(t *testing.T) {
	fs, broken := failing()
	w, _ := serveDisk(t, fs)
	c := w.client()
	c.answers("SET k v => +OK\nGET k => \"v\"")
	broken.Store(true)
	const failed = "-MISCONF store has failed, ..."
	c.send(pipeline("GET k", "SET k w", "GET k", "PING", "LOSE foo", "BF.ADD f a", "BF.ADD f b", "BF.EXISTS f a", "BF.EXISTS f b"))
	c.want(failed, failed, failed, "+PONG", "-MOVED 12182 10.0.0.2:6380", failed, failed, failed, failed)

	fs, broken = failing()
	w, g := serveDisk(t, fs)
	c = w.client()
	c.answers("SET k v => +OK\nREADONLY => +OK")
	g.leader("a")
	broken.Store(true)
	c.send(pipeline("GET k", "SET k w", "GET k", "DEL k"))
	c.want(`"v"`, fmt.Sprintf("-MOVED %d 10.0.0.1:6380", cluster.Slot([]byte("k"))), `"v"`, "-MOVED ...")
}

// On a leader, a read of another client's write waits until that is durable.
func TestGroup_readWaits(t *testing.T) {
	var held atomic.Bool
	reached, release := make(chan struct{}), make(chan struct{})
	w, _ := serveDisk(t, &faultfs.FS{FS: vfs.NewMem(), Before: func(s faultfs.Site, name string) error {
		if s.Op == "sync" && strings.HasSuffix(name, ".log") && held.CompareAndSwap(true, false) {
			close(reached)
			<-release
			return errors.New("the disk is broken")
		}
		return nil
	}})
	c, other, third := w.client(), w.client(), w.client()
	c.answers("SET k v => +OK")
	held.Store(true)
	c.send(pipeline("SET k w"))
	<-reached
	eventually(t, "the write is in memory", func() bool { v, err := w.db.Get("k"); return err == nil && string(v) == "w" })
	other.send(pipeline("GET k"))
	eventually(t, "it has read", func() bool { return strings.Contains(third.do("INFO commandstats"), "cmdstat_get:calls=1") })
	close(release)
	other.want("-MISCONF store has failed, ...") // before, it would have been told w
	c.want("-MISCONF store has failed, ...")
}

// A client that is gone does not wait for what its read needs, and neither does a server that ends.
func TestGroup_readGone(t *testing.T) {
	w, g := serveGroupWith(t, impatient().WithReading(time.Hour))
	g.leader("a")
	for range 2 { // the second is there when the server ends
		c := w.client()
		c.send(pipeline("SIEVE.READ AFTER 1000", "GET foo"))
		eventually(t, "it waits", func() bool { return w.server.Watched() == 1 })
		if w.server.Connections() > 1 {
			t.Error("the first is still there")
		}
		if g.Status().Term == 1 {
			g.leader("c")
			_ = c.Close()
			eventually(t, "it is gone", func() bool { return w.server.Connections() == 0 })
		}
	}
}

func TestGroup_wait(t *testing.T) {
	w, g := serveGroup(t)
	g.waits = make(chan int, 1)
	c := w.client()
	wait := func(command, want string, asked int) {
		t.Helper()
		c.answers(command + " => " + want)
		if got := <-g.waits; got != asked {
			t.Errorf("%s: the group was asked for %d members, want %d", command, got, asked)
		}
	}
	g.leader("b")
	wait("WAIT 1 0", ":1", 1)
	wait("WAIT 0 0", ":1", 0)
	wait("WAIT 2 1", ":1", 2)
	wait("WAIT -1 9223372036854775807", ":1", -1)
	g.has = func(int) int { return 2 }
	wait("WAIT 2 0", ":2", 2)
	c.answers("WAIT x 0 => -ERR value is not an integer or out of range\nWAIT 1 -1 => -ERR timeout is negative\nMULTI => +OK\nWAIT 5 0 => +QUEUED")
	wait("EXEC", "[:2]", 5) // it does not wait
	g.leader("a")
	c.answers("WAIT 1 0 => -ERR WAIT cannot be used with replica instances....")
}
