package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/server"
)

// errorsOf returns the lines of INFO errorstats, without the heading.
func errorsOf(c *client) string {
	_, counts, _ := strings.Cut(strings.Trim(c.do("INFO errorstats"), `"`), `# Errorstats\r\n`)
	return strings.ReplaceAll(strings.ReplaceAll(counts, `\r\n`, " "), "errorstat_", "")
}

// scraped returns the lines of the metrics that begin with a prefix, without it.
func (w *world) scraped(prefix string) (lines []string) {
	w.t.Helper()
	recorder := httptest.NewRecorder()
	w.server.MetricsHandler(&server.MetricsOptions{Keys: true}).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "http://localhost/metrics", nil))
	body, err := io.ReadAll(recorder.Result().Body)
	if err != nil {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), prefix); ok {
			lines = append(lines, rest)
		}
	}
	return lines
}

// Errors count by command and by kind wherever they are in a reply. That a filter had no room is a kind of its own,
// whatever the words or the number that say it.
func TestErrors_counted(t *testing.T) {
	for name, test := range map[string]struct{ script, kinds, metrics string }{
		"in an array": {
			"BF.RESERVE f 0.01 1 NONSCALING => +OK\nBF.MADD f a b c => [:1 -ERR non scaling filter is full]",
			"FULL:count=1 ", `{command="bf.madd",kind="FULL"} 1`,
		},
		"alone": {
			"BF.RESERVE f 0.01 1 NONSCALING => +OK\nBF.ADD f a => :1\nBF.ADD f b => -ERR non scaling filter is full",
			"FULL:count=1 ", `{command="bf.add",kind="FULL"} 1`,
		},
		"cuckoo": {
			"CF.RESERVE f 4 BUCKETSIZE 1 EXPANSION 0 => +OK\nCF.ADD f a => :1\nCF.ADD f a => :1\nCF.ADD f a => -Filter is full",
			"FULL:count=1 ", `{command="cf.add",kind="FULL"} 1`,
		},
		"a number": {
			"CF.RESERVE f 4 BUCKETSIZE 1 EXPANSION 0 => +OK\nCF.INSERT f ITEMS a a a a => [:1 :1 :-1 :-1]\nCF.INSERTNX f ITEMS a => [:0]",
			"FULL:count=2 ", `{command="cf.insert",kind="FULL"} 2`,
		},
		"a boolean": {
			"HELLO 3 => ...\nCF.RESERVE f 4 BUCKETSIZE 1 EXPANSION 0 => +OK\nCF.INSERT f ITEMS a a a => [#t #t #f]",
			"FULL:count=1 ", `{command="cf.insert",kind="FULL"} 1`,
		},
		"in EXEC": {
			"BF.RESERVE f 0.01 1 NONSCALING => +OK\nMULTI => +OK\nBF.MADD f a b => +QUEUED\nINCR f => +QUEUED\nEXEC => [[:1 -ERR non scaling filter is full] -WRONGTYPE...]",
			"FULL:count=1 WRONGTYPE:count=1 ", `{command="bf.madd",kind="FULL"} 1;{command="incr",kind="WRONGTYPE"} 1`,
		},
		"of no command": {
			"NO => -ERR unknown command...", "ERR:count=1 ", `{command="",kind="ERR"} 1`,
		},
		"malformed input": {"", "ERR:count=1 ", `{command="",kind="ERR"} 1`},
		"no error":        {"SET a 1 => +OK\nMGET a b => [\"1\" $-1]\nMULTI => +OK\nMGET a b => +QUEUED\nEXEC => [[\"1\" $-1]]", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := serve(t, nil)
			c := w.client()
			c.answers(test.script)
			if test.script == "" {
				c.send("*1\r\n$x\r\n")
				c.want("-ERR Protocol error: invalid bulk length")
			}
			if got := errorsOf(w.client()); got != test.kinds {
				t.Errorf("INFO errorstats has %q, want %q", got, test.kinds)
			}
			if got := strings.Join(w.scraped("sievekv_error_replies_total"), ";"); got != test.metrics {
				t.Errorf("the metrics have %q, want %q", got, test.metrics)
			}
		})
	}
}

// As in Redis, a command of a transaction counts when EXEC runs it, and fails at most once. EXEC has not failed then.
func TestCommandStats_transaction(t *testing.T) {
	c := serve(t, nil).client()
	c.answers(`
BF.RESERVE f 0.01 1 NONSCALING => +OK
MULTI => +OK
BF.MADD f a b => +QUEUED
CF.ADD f x => +QUEUED
DISCARD => +OK
MULTI => +OK
BF.MADD f a b => +QUEUED
BF.MADD f a c => +QUEUED
INCR n => +QUEUED
EXEC => [[...] [...] :1]
`)
	for name, want := range map[string]string{
		"bf.madd": "calls=2,rejected_calls=0,failed_calls=2", "cf.add": "", "incr": "calls=1,rejected_calls=0,failed_calls=0",
		"exec": "calls=1,rejected_calls=0,failed_calls=0", "multi": "calls=2,rejected_calls=0,failed_calls=0",
	} {
		if got := counts(c, name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// Refusals count by their reason, and as rejected calls, not as failed ones.
func TestStats_refusals(t *testing.T) {
	w := serve(t, server.Options{Password: "secret"}.WithTimes(long, long, long))
	stranger, admin := w.client(), w.client()
	admin.answers("AUTH secret => +OK\nACL SETUSER bob on >b ~own:* +@all -incr => +OK")
	stranger.answers(`
GET own:k => -NOAUTH...
GET own:k => -NOAUTH...
NOSUCH => -NOAUTH...
AUTH bob x => -WRONGPASS...
AUTH bob b => +OK
GET own:k => $-1
GET other => -NOPERM...
GET => -ERR wrong number...
MULTI => +OK
GET other => -NOPERM...
INCR own:k => -NOPERM...
MULTI => -ERR MULTI calls can not be nested
BF.LOADCHUNK own:k 1 x => -ERR Command not allowed inside a transaction
EXEC => -EXECABORT...
MULTI => +OK
GET own:k => +QUEUED
`)
	admin.answers("ACL SETUSER bob -get => +OK")
	stranger.answers("EXEC => [-NOPERM...]")
	for field, want := range map[string]string{
		"acl_access_denied_auth": "1", "acl_access_denied_cmd": "2", "acl_access_denied_key": "2", "acl_access_denied_channel": "0",
	} {
		if got := admin.info("stats", field); got != want {
			t.Errorf("%s is %s, want %s", field, got, want)
		}
	}
	for name, want := range map[string]string{
		"get":          "calls=1,rejected_calls=6,failed_calls=0", // two without a password, three without a permission, one without a key
		"incr":         "calls=0,rejected_calls=1,failed_calls=0",
		"auth":         "calls=3,rejected_calls=0,failed_calls=1",
		"multi":        "calls=2,rejected_calls=1,failed_calls=0",
		"bf.loadchunk": "calls=0,rejected_calls=1,failed_calls=0",
		"exec":         "calls=2,rejected_calls=0,failed_calls=1",
	} {
		if got := counts(admin, name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got, want := errorsOf(admin), "ERR:count=3 EXECABORT:count=1 NOAUTH:count=3 NOPERM:count=4 WRONGPASS:count=1 "; got != want {
		t.Errorf("INFO errorstats has %q, want %q", got, want)
	}
}
