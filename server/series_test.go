package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/kv"
)

// commits returns how many commits the store has made.
func (c *client) commits() (n int) {
	c.t.Helper()
	if _, err := fmt.Sscan(c.info("", "commits"), &n); err != nil {
		c.t.Fatal(err)
	}
	return n
}

// Commands of one key that follow each other make one commit, up to 64 of them, and each is counted.
func TestSeries_oneCommit(t *testing.T) {
	c := serve(t, nil).client()
	c.answers("CONFIG SET growth-log-bytes 0 => +OK") // what fills a layer from a log are commits of their own
	add := pipeline(numbered("BF.ADD f %d", 100)...)
	before := c.commits()
	c.send(add)
	for range 100 {
		c.want(":1")
	}
	if n := c.commits() - before; n != 2 {
		t.Errorf("100 commands made %d commits, want 2", n)
	}
	before = c.commits()
	c.send(add + pipeline("BF.ADD f new", "BF.ADD f 0") + pipeline(numbered("BF.EXISTS f %d", 100)...))
	for range 100 {
		c.want(":0")
	}
	c.want(":1", ":0")
	for range 100 {
		c.want(":1")
	}
	if n := c.commits() - before; n != 1 {
		t.Errorf("a new item among known ones made %d commits, want 1", n)
	}
	if got := c.info("commandstats", "cmdstat_bf.add"); !strings.HasPrefix(got, "calls=202,") {
		t.Errorf("INFO counts %s, want 202 calls", got)
	}
	if got := c.info("commandstats", "cmdstat_bf.exists"); !strings.HasPrefix(got, "calls=100,") {
		t.Errorf("INFO counts %s, want 100 calls", got)
	}
}

// A pipeline has the replies, the counts and the effects of its commands one after the other.
func TestSeries_oneByOne(t *testing.T) {
	long := strings.Repeat("k", kv.MaxKeyLen+1)
	several := func(format string, n int) string { return strings.Join(numbered(format, n), "\n") }
	tests := []struct{ name, script string }{
		{"mixed keys", "BF.ADD a 1\nBF.ADD a 2\nBF.ADD b 1\nBF.ADD b 2\nBF.ADD b 1\nBF.ADD a 2\nBF.EXISTS a 1\nBF.EXISTS b 3\nBF.EXISTS b 2"},
		{"mixed commands", "BF.ADD f 1\nBF.ADD f 2\nBF.EXISTS f 2\nBF.EXISTS f 3\nBF.ADD f 3\nBF.EXISTS f 3\nDEL f\nBF.EXISTS f 3\nBF.ADD f 3\nGET f"},
		{"the same item", "BF.ADD f a\nBF.ADD f a\nBF.ADD f b\nBF.ADD f a\nBF.ADD f b"},
		{"names in any case", "BF.ADD f 1\nbf.add f 2\nBf.Add f 1\nbf.exists f 2\nBF.EXISTS f 9"},
		{"wrong numbers of words", "BF.ADD f 1\nBF.ADD f 2\nBF.ADD f\nBF.ADD f 3 4\nBF.ADD f 5\nBF.ADD f 6\nBF.ADD\nBF.EXISTS f 1\nBF.EXISTS f\nBF.EXISTS f 6"},
		{"a key of another type", "SET s v\nBF.ADD s 1\nBF.ADD s 2\nBF.EXISTS s 1\nBF.EXISTS s 2\nDEL s\nBF.ADD s 1\nBF.ADD s 2"},
		{"a missing key", "BF.EXISTS f 1\nBF.EXISTS f 2\nBF.ADD f 1\nBF.ADD f 2"},
		{"a key too long", "BF.ADD " + long + " 1\nBF.ADD " + long + " 2\nBF.EXISTS " + long + " 1\nBF.EXISTS " + long + " 2"},
		{"a filter that gets full", "BF.RESERVE f 0.01 10 NONSCALING\n" + several("BF.ADD f %d", 14) + "\n" + several("BF.ADD f %d", 16) + "\n" + several("BF.EXISTS f %d", 16)},
		{"a filter that grows", "BF.RESERVE f 0.01 10 GROWTHLOG 0\n" + several("BF.ADD f %d", 150) + "\n" + several("BF.EXISTS f %d", 200)},
		{"RedisBloom's layout", "CONFIG SET bf-layout redisbloom\n" + several("BF.ADD f %d", 70) + "\n" + several("BF.ADD f %d", 80) + "\n" + several("BF.EXISTS f %d", 100)},
		{"a transaction", "BF.ADD f 1\nBF.ADD f 2\nMULTI\nBF.ADD f 3\nBF.ADD f 4\nBF.EXISTS f 3\nBF.EXISTS f 9\nEXEC\nBF.ADD f 4\nBF.ADD f 5\nMULTI\nBF.ADD f 6\nBF.ADD f 7\nDISCARD\nBF.EXISTS f 6\nBF.EXISTS f 5"},
		{"a transaction that is refused", "MULTI\nBF.ADD f 1\nBF.ADD f 2\nBF.ADD f\nEXEC\nBF.EXISTS f 1"},
		{"a watched key", "WATCH f\nBF.ADD f 1\nBF.ADD f 2\nMULTI\nBF.ADD f 3\nBF.ADD f 4\nEXEC\nBF.EXISTS f 2\nBF.EXISTS f 3"},
		{"keys that are not watched", "WATCH other\nBF.ADD f 1\nBF.ADD f 2\nMULTI\nBF.ADD f 3\nBF.ADD f 4\nEXEC"},
		{"RESP3", "BF.ADD f 1\nBF.ADD f 2\nHELLO 3\nBF.ADD f 2\nBF.ADD f 3\nBF.EXISTS f 3\nBF.EXISTS f 4"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lines := strings.Split(tt.script, "\n")
			one, all := serve(t, nil).client(), serve(t, nil).client()
			var replies []string
			for _, line := range lines {
				replies = append(replies, one.do(line))
			}
			sent := make(chan error)
			go func() { sent <- all.Send(pipeline(lines...)) }()
			all.want(replies...)
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"a", "b", "f", "s"} {
				if got, want := all.do("BF.INFO "+key), one.do("BF.INFO "+key); got != want {
					t.Errorf("%s is\n%s\nwant\n%s", key, got, want)
				}
			}
			for _, name := range []string{"bf.add", "bf.exists"} {
				if got, want := counts(all, name), counts(one, name); got != want {
					t.Errorf("INFO counts of %s: %s, want %s", name, got, want)
				}
			}
			if got, want := errorCounts(all), errorCounts(one); got != want {
				t.Errorf("INFO counts the errors\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// counts returns what INFO counts of a command, without times.
func counts(c *client, name string) string {
	_, rest, _ := strings.Cut(c.do("INFO commandstats"), "cmdstat_"+name+":")
	line, _, _ := strings.Cut(rest, `\r\n`)
	var kept []string
	for _, field := range strings.Split(line, ",") {
		if !strings.HasPrefix(field, "usec") {
			kept = append(kept, field)
		}
	}
	return strings.Join(kept, ",")
}

func errorCounts(c *client) string {
	_, counts, _ := strings.Cut(c.do("INFO errorstats"), "Errorstats")
	return counts
}

// A series is one change for a transaction of another client that watches the key.
func TestSeries_watched(t *testing.T) {
	w := serve(t, nil)
	c, other := w.client(), w.client()
	other.answers("BF.ADD f 0 => :1\nWATCH f => +OK")
	c.send(pipeline("BF.ADD f 0", "BF.ADD f 0"))
	c.want(":0", ":0")
	other.answers("MULTI => +OK\nBF.ADD f x => +QUEUED\nEXEC => [:1]\nWATCH f => +OK")
	c.send(pipeline("BF.ADD f 0", "BF.ADD f 1", "BF.ADD f 2"))
	c.want(":0", ":1", ":1")
	other.answers("MULTI => +OK\nBF.ADD f y => +QUEUED\nEXEC => *-1\nBF.EXISTS f y => :0")
}

// A watch is not told of an add of a known item, though a log gets its hash.
func TestWatch_growthLog(t *testing.T) {
	w := serve(t, nil)
	c, other := w.client(), w.client()
	other.answers("BF.RESERVE f 0.01 100 GROWTHLOG 10000 => +OK\nBF.ADD f 0 => :1\nWATCH f => +OK")
	before := c.commits()
	c.answers("BF.ADD f 0 => :0")
	if n := c.commits() - before; n != 1 {
		t.Errorf("%d commits, want 1", n)
	}
	other.answers("MULTI => +OK\nBF.ADD f x => +QUEUED\nEXEC => [:1]\nWATCH f => +OK")
	c.answers("BF.ADD f 1 => :1")
	other.answers("MULTI => +OK\nBF.ADD f y => +QUEUED\nEXEC => *-1")
}

// Each command needs the user's permission.
func TestSeries_permissions(t *testing.T) {
	c := serve(t, nil).client()
	c.answers("ACL SETUSER adder on nopass ~mine:* +@all -bf.exists => +OK\nBF.ADD theirs a => :1\nAUTH adder x => +OK")
	denied := "-NOPERM ..."
	c.send(pipeline("BF.ADD mine:f 1", "BF.ADD mine:f 2", "BF.ADD theirs 1", "BF.ADD theirs 2", "BF.ADD theirs a", "BF.ADD mine:f 3", "BF.ADD mine:f 1",
		"BF.EXISTS mine:f 1", "BF.EXISTS mine:f 2", "BF.ADD mine:f 4"))
	c.want(":1", ":1", denied, denied, denied, ":1", ":0", denied, denied, ":1")
	c.answers("AUTH default x => ...\nBF.CARD theirs => :1\nBF.CARD mine:f => :4\nBF.EXISTS theirs 1 => :0")
}

// What a user must not do any more is refused from the next command on.
func TestSeries_userChanges(t *testing.T) {
	c := serve(t, nil).client()
	c.answers("ACL SETUSER u on nopass ~* +@all => +OK\nAUTH u x => +OK")
	c.send(pipeline("BF.ADD f 1", "BF.ADD f 2", "ACL SETUSER u -bf.add", "BF.ADD f 3", "BF.ADD f 4", "BF.EXISTS f 2", "BF.EXISTS f 3"))
	c.want(":1", ":1", "+OK", "-NOPERM ...", "-NOPERM ...", ":1", ":0")
}

// A connection that logs in while its user is removed ends with its next command, also with one of a series.
func TestSeries_userRemoved(t *testing.T) {
	w := serve(t, nil)
	c, other := w.client(), w.client()
	c.answers("ACL SETUSER u on nopass ~* +@all => +OK\nAUTH u x => +OK")
	if !w.server.RemoveUser("u") {
		t.Fatal("there is no user u")
	}
	c.send(pipeline("BF.ADD f 1", "BF.ADD f 2", "BF.ADD f 3"))
	if c.want("-NOPERM ..."); t.Failed() {
		return // the connection goes on
	}
	c.ended()
	other.answers("EXISTS f => :0")
}

// A client that is killed while its series runs gets no reply.
func TestSeries_killed(t *testing.T) {
	w := serve(t, nil)
	c, other := w.client(), w.client()
	id := strings.TrimPrefix(c.do("CLIENT ID"), ":")
	other.answers("BF.ADD f known => :1")
	err := w.db.Store().Write(kv.NoSync, [][]byte{[]byte("f")}, func(*kv.Writer) error { // the series waits for the key
		c.send(pipeline("BF.ADD f 1", "BF.ADD f 2", "BF.ADD f 3", "SET later v"))
		eventually(t, "the series begins", func() bool {
			return strings.Contains(other.do("CLIENT LIST ID "+id), "cmd=bf.add")
		})
		other.answers("CLIENT KILL ID " + id + " => :1")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c.ended()
	// The series may have run, and nothing after it.
	eventually(t, "the connection ends", func() bool { return other.info("clients", "connected_clients") == "1" })
	other.answers("GET later => $-1")
	if got := other.do("BF.CARD f"); got != ":1" && got != ":4" {
		t.Errorf("the filter has %s items, want all of the series or none", got)
	}
}

// Each write of a series whose sync fails gets the error.
func TestSeries_failingSync(t *testing.T) {
	fs, broken := failing()
	c := serveStore(t, onDisk(fs), nil).client()
	c.answers("BF.ADD f a => :1")
	broken.Store(true)
	c.send(pipeline("BF.EXISTS f a", "BF.EXISTS f b", "BF.ADD f b", "BF.ADD f c", "BF.ADD f a", "PING"))
	failed := "-MISCONF store has failed, ..."
	c.want(":1", ":0", failed, failed, failed, "+PONG")
	c.send(pipeline("BF.EXISTS f a", "BF.EXISTS f b", "BF.ADD f d", "BF.ADD f e", "PING"))
	c.want(failed, failed, failed, failed, "+PONG")
}

// A store that is open read-only refuses each command that writes.
func TestSeries_readOnly(t *testing.T) {
	fs, _ := failing()
	db, err := sievekv.Open("store", &sievekv.Options{FS: fs, BallastSize: -1, MinFreeSpace: -1})
	if err != nil {
		t.Fatal(err)
	}
	f := db.Bloom("f")
	if err := f.Reserve(sievekv.Capacity(100, 0.01), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := f.AddString("a"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	o := onDisk(fs)
	o.ReadOnly = true
	c := serveStore(t, o, nil).client()
	c.send(pipeline("BF.ADD f a", "BF.ADD f b", "BF.EXISTS f a", "BF.EXISTS f b"))
	c.want("-READONLY ...", "-READONLY ...", ":1", ":0")
}

// The slow log has each command of a series.
func TestSeries_slowLog(t *testing.T) {
	c := serve(t, nil).client()
	c.answers("CONFIG SET slowlog-log-slower-than 0 => +OK\nSLOWLOG RESET => +OK")
	c.send(pipeline("BF.ADD f 1", "BF.ADD f 2", "BF.ADD f 3"))
	c.want(":1", ":1", ":1")
	c.answers(`SLOWLOG LEN => :4
SLOWLOG GET 4 => [...["SLOWLOG" "LEN"]...["BF.ADD" "f" "3"]...["BF.ADD" "f" "2"]...["BF.ADD" "f" "1"]...]`)
}
