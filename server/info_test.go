package server_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sievekv/sievekv/server"
)

// The line of the only database is what dashboards parse.
func TestInfo_keyspace(t *testing.T) {
	w := serve(t, nil)
	w.client().answers(`
INFO keyspace => ""
SET a 1 => +OK
SET b 1 PX 1000000 => +OK
BF.RESERVE f 0.01 100 => +OK
EXPIRE f 1000 => :1
INFO keyspace => "# Keyspace\r\ndb0:keys=3,expires=2,avg_ttl=0\r\n"
PERSIST f => :1
INFO keyspace => "# Keyspace\r\ndb0:keys=3,expires=1,avg_ttl=0\r\n"
FLUSHALL => +OK
INFO keyspace => ""
`)
}

// Every name is there once: clients keep the fields of INFO in one map.
func TestInfo_names(t *testing.T) {
	c := serve(t, nil).client()
	c.answers("BF.ADD f a => :1\nSET k v => +OK\nNOSUCH => -ERR...")
	seen := make(map[string]bool)
	for _, line := range strings.Split(strings.Trim(c.do("INFO"), `"`), `\r\n`) {
		name, _, isField := strings.Cut(line, ":")
		if isField && seen[name] {
			t.Errorf("INFO has %s twice", name)
		}
		seen[name] = true
	}
	for _, name := range []string{
		"run_id", "keyspace_hits", "keyspace_misses", "instantaneous_ops_per_sec", "total_net_input_bytes", "total_net_output_bytes", "expired_keys",
		"uptime_in_seconds",
	} {
		if !seen[name] {
			t.Errorf("INFO has no %s", name)
		}
	}
	if id := c.info("server", "run_id"); len(id) != 40 || id == serve(t, nil).client().info("server", "run_id") {
		t.Errorf("run_id is %q", id)
	}
}

// As in Redis, keys count that commands have looked up to read them, also in EXEC.
func TestInfo_keyspaceHits(t *testing.T) {
	for script, want := range map[string]string{
		"GET k => \"v\"\nGET no => $-1\nGET no => $-1": "1 2",
		"GET f => -WRONGTYPE...\nSET k w => +OK":       "0 0",
		"MGET k no f => [\"v\" $-1 $-1]":               "2 1",
		"EXISTS k k no => :2":                          "2 1",
		"STRLEN k => :1\nSTRLEN no => :0":              "1 1",
		"GETBIT no 1 => :0":                            "0 1",
		"TTL k => :-1\nTYPE no => +none":               "1 1",
		"BF.EXISTS f a => :1\nBF.EXISTS f b => :0\nBF.EXISTS no a => :0\nBF.EXISTS k a => :0": "3 1",
		"BF.MEXISTS f a b => [:1 :0]\nBF.MEXISTS no a b => [:0 :0]":                           "1 1",
		"BF.CARD f => :1\nBF.CARD no => :0\nCF.COUNT no a => :0\nCBF.COUNT no a => :0":        "1 3",
		"MULTI => +OK\nGET k => +QUEUED\nGET no => +QUEUED\nEXEC => [\"v\" $-1]":              "1 1",
		"WATCH k => +OK\nDEL no => :0\nINCR n => :1\nBF.ADD f a => :0\nGET x y => -ERR...":    "0 0",
	} {
		c := serve(t, nil).client()
		c.answers("SET k v => +OK\nBF.ADD f a => :1\n" + script)
		if got := c.info("stats", "keyspace_hits") + " " + c.info("stats", "keyspace_misses"); got != want {
			t.Errorf("%s\ncounts %s, want %s", script, got, want)
		}
	}
	c := serve(t, nil).client()
	c.answers("BF.ADD f a => :1")
	c.send(pipeline("BF.EXISTS f a", "BF.EXISTS f b", "BF.EXISTS no a", "BF.EXISTS no a"))
	c.want(":1", ":0", ":0", ":0")
	if got := c.info("stats", "keyspace_hits") + " " + c.info("stats", "keyspace_misses"); got != "2 2" {
		t.Errorf("series count %s, want 2 2", got)
	}
}

// RESETSTAT leaves what is said to count since the store was opened.
func TestInfo_resetStat(t *testing.T) {
	c := serve(t, nil).client()
	c.answers("BF.RESERVE f 0.01 10 GROWTHLOG 1000000 => +OK\nBF.MADD f a b c => [:1 :1 :1]\nGET no => $-1")
	before := c.info("durability", "growth_log_bytes")
	c.answers("CONFIG RESETSTAT => +OK")
	if got := c.info("durability", "growth_log_bytes"); before == "0" || got != before {
		t.Errorf("growth_log_bytes is %s, was %s", got, before)
	}
	for _, field := range []string{"keyspace_misses", "total_net_output_bytes", "protocol_errors"} {
		if got := c.info("stats", field); len(got) > 3 || field != "total_net_output_bytes" && got != "0" {
			t.Errorf("%s is %s after RESETSTAT", field, got)
		}
	}
}

// The rate is about the last seconds, also when INFO is asked seldom.
func TestRate(t *testing.T) {
	var r server.Rate
	total := uint64(0)
	for at := time.Duration(0); at < time.Hour; at += 50 * time.Millisecond { // 20 a second, for an hour
		total++
		r.Note(at, func() uint64 { return total })
	}
	if got := r.PerSecond(time.Hour, total); got < 18 || got > 22 {
		t.Errorf("%d a second, want 20", got)
	}
	if got := r.PerSecond(2*time.Hour, total+1); got != 0 {
		t.Errorf("%d a second after an hour of nothing, want 0", got)
	}
	// A burst after a pause is neither hidden by the pause, nor made larger by the short time.
	burst := total
	for at := time.Hour + 10*time.Second; at < time.Hour+11*time.Second; at += 10 * time.Millisecond { // 100 a second
		burst++
		r.Note(at, func() uint64 { return burst })
		if got := r.PerSecond(at, burst); got > 101 || got+1 < burst-total-1 {
			t.Errorf("%d a second after %d commands", got, burst-total)
		}
	}
	var new server.Rate
	if got := new.PerSecond(2*time.Second, 10); got != 5 {
		t.Errorf("%d a second after two seconds with 10 commands, want 5", got)
	}
}

// CLIENT LIST shows a connection as its last command has left it.
func TestClientList_after(t *testing.T) {
	w := serve(t, nil)
	a, b := w.client(), w.client()
	for _, step := range [][2]string{
		{"MULTI", "flags=x ... multi=0 ... cmd=multi"}, {"SET k v", "flags=x ... multi=1 ... cmd=set"}, {"GET k", "flags=x ... multi=2 ... cmd=get"},
		{"EXEC", "flags=N ... multi=-1 ... cmd=exec"}, {"MULTI", "flags=x ... multi=0 ... cmd=multi"}, {"DISCARD", "flags=N ... multi=-1 ... cmd=discard"},
		{"MULTI", "flags=x ... multi=0 ... cmd=multi"}, {"RESET", "flags=N ... multi=-1 ... cmd=reset"},
	} {
		a.do(step[0])
		b.answers(`CLIENT LIST ID 1 => "id=1 ... fd=-1 ... ` + step[1] + ` ...\n"`)
	}
}

// The number of the descriptor is the system's, with TLS, too.
func TestClientList_descriptor(t *testing.T) {
	w := serve(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.listen(l)
	if got := w.dial(l).do("CLIENT INFO"); !like(got, `"id=... fd=... name=...`) || strings.Contains(got, "fd=0") || strings.Contains(got, "fd=-1") {
		t.Errorf("CLIENT INFO is %s", got)
	}
}
