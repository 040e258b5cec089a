package server_test

import (
	"strings"
	"testing"

	"github.com/sievekv/sievekv/server"
)

// A client that monitors sees what others do, without passwords and what is for administrators, until RESET.
func TestMonitor(t *testing.T) {
	w := serve(t, nil)
	m, c := w.client(), w.client()
	m.answers(`MULTI => +OK
		MONITOR => -ERR Command not allowed inside a transaction
		EXEC => -EXECABORT ...
		CLIENT TRACKING ON => -ERR CLIENT TRACKING needs RESP3...
		MONITOR => +OK
		MONITOR => +OK`)
	c.send("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$9\r\ntwo\nwords\r\n")
	c.want("+OK")
	c.answers(`
		AUTH default secret => ...
		HELLO 2 AUTH default secret => ...
		NOSUCH secret => -ERR unknown command...
		GET => -ERR wrong number...
		CONFIG SET maxclients 100 => +OK
		MULTI => +OK
		GET k => +QUEUED
		EXEC => [...`)
	c.send(pipeline("BF.ADD seen a", "BF.ADD seen b", "SET big "+strings.Repeat("x", 200)))
	c.want(":1", ":1", "+OK")
	for _, line := range []string{
		`"SET" "k" "two\nwords"`, `"AUTH" "(redacted)"`, `"HELLO" "(redacted)"`, `"MULTI"`, `"GET" "k"`, `"EXEC"`,
		`"BF.ADD" "seen" "a"`, `"BF.ADD" "seen" "b"`, `"SET" "big" "` + strings.Repeat("x", 128) + `... (72 more bytes)"`,
	} {
		m.want(`+...] ` + line)
	}
	m.answers("PING => +PONG\nRESET => +RESET")
	c.answers("GET k => ...")
	m.answers("PING => +PONG")
}

// A user sees no more of a command than its name if a key of it is one that the user may not read, and nothing any more when
// MONITOR is not allowed to the user any more.
func TestMonitor_permissions(t *testing.T) {
	w := serve(t, nil)
	admin, m := w.client(), w.client()
	admin.answers(`ACL SETUSER watcher on nopass +monitor +ping %R~user:* %W~log:* => +OK
		ACL SETUSER reader on nopass +get ~* => +OK`)
	m.answers("AUTH reader x => +OK\nMONITOR => -NOPERM ...\nAUTH watcher x => +OK\nMONITOR => +OK")
	admin.answers("SET user:1 ann => +OK\nSET log:1 secret => +OK\nMGET user:1 other => [...]\nKEYS * => [...\nPING => +PONG")
	for _, line := range []string{`"SET" "user:1" "ann"`, `"SET" "(hidden)"`, `"MGET" "(hidden)"`, `"KEYS" "(hidden)"`, `"PING"`} {
		m.want("+...] " + line)
	}
	admin.answers("ACL SETUSER watcher -monitor => +OK\nPING => +PONG")
	m.want("-NOPERM the user may not use MONITOR any more")
	m.ended()
}

// Commands do not wait for a client that monitors and does not read: it is told so, and closed.
func TestMonitor_slow(t *testing.T) {
	w := serve(t, server.Options{}.WithTimes(long, long, long))
	m, c := w.client(), w.client()
	m.answers("MONITOR => +OK")
	command := "MGET" + strings.Repeat(" "+strings.Repeat("x", 120), 30)
	for range 400 {
		c.do(command)
	}
	got := ""
	for !strings.HasPrefix(got, "-") {
		var err error
		if got, err = m.Reply(); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.HasPrefix(got, "-ERR MONITOR fell behind: more than 1048576 bytes wait to be read") {
		t.Error(got)
	}
	m.ended()
}
