package server_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/server"
)

// greeting is the reply of HELLO in each protocol.
func greeting(protocol int) string {
	open, end := "[", "]"
	if protocol == 3 {
		open, end = "{", "}"
	}
	return fmt.Sprintf(`%s"server" "redis" "version" "%s" "proto" :%d "id" :... "mode" "standalone" "role" "master" "modules" ...%s`,
		open, server.RedisVersion, protocol, end)
}

func TestHello(t *testing.T) {
	w := serve(t, nil)
	c := w.client()
	c.answers(`
HELLO => ` + greeting(2) + `
GET k => $-1
HELLO 3 => ` + greeting(3) + `
GET k => _
BF.ADD f a => #t
HELLO => ` + greeting(3) + `
hello 3 setname ann => ` + greeting(3) + `
CLIENT GETNAME => "ann"
HELLO 2 AUTH default anything SETNAME bob => ` + greeting(2) + `
CLIENT GETNAME => "bob"
GET k => $-1
BF.ADD f b => :1
HELLO 3 SETNAME eve AUTH default anything => ` + greeting(3) + `
CLIENT GETNAME => "eve"
`)
}

// A HELLO that is refused changes nothing: neither the protocol nor the name.
func TestHello_refused(t *testing.T) {
	w := serve(t, nil)
	c := w.client()
	c.answers(`
CLIENT SETNAME ann => +OK
HELLO 4 => -NOPROTO unsupported protocol version
HELLO 1 => -NOPROTO unsupported protocol version
HELLO -3 => -NOPROTO unsupported protocol version
HELLO x => -ERR Protocol version is not an integer or out of range
HELLO 03 => -ERR Protocol version is not an integer or out of range
HELLO 3.0 => -ERR Protocol version is not an integer or out of range
HELLO 9223372036854775808 => -ERR Protocol version is not an integer or out of range
HELLO 3 NAME x => -ERR Syntax error in HELLO option 'NAME'
HELLO 3 SETNAME => -ERR Syntax error in HELLO option 'SETNAME'
HELLO 3 SETNAME bob AUTH => -ERR Syntax error in HELLO option 'AUTH'
HELLO 3 AUTH default => -ERR Syntax error in HELLO option 'AUTH'
HELLO 3 SETNAME bob AUTH bob x => -WRONGPASS invalid username-password pair or user is disabled.
CLIENT GETNAME => "ann"
GET k => $-1
`)
	c.send(commandOf("HELLO", "3", "SETNAME", "a b"))
	c.want("-ERR Client names cannot contain spaces, newlines or special characters.")
	c.send(commandOf("HELLO", "3", "a\r\n+OK"))
	c.want("-ERR Syntax error in HELLO option 'a  +OK'")
	c.answers(`
CLIENT GETNAME => "ann"
GET k => $-1
`)
}

func TestAuth(t *testing.T) {
	w := serve(t, server.Options{Password: "secret"}.WithTimes(long, long, long))
	stranger := w.client()
	stranger.answers(`
GET k => -NOAUTH Authentication required.
GET => -NOAUTH Authentication required.
NOSUCH a => -NOAUTH Authentication required.
PING => -NOAUTH Authentication required.
CLIENT ID => -NOAUTH Authentication required.
CONFIG GET * => -NOAUTH Authentication required.
SHUTDOWN => -NOAUTH Authentication required.
SELECT 0 => -NOAUTH Authentication required.
MULTI => -NOAUTH Authentication required.
EXEC => -NOAUTH Authentication required.
WATCH k => -NOAUTH Authentication required.
COMMAND => -NOAUTH Authentication required.
HELLO => -NOAUTH HELLO must be called with the client already authenticated, ...
HELLO 3 => -NOAUTH HELLO must be called with the client already authenticated, ...
HELLO 3 SETNAME x => -NOAUTH HELLO must be called with the client already authenticated, ...
HELLO 3 AUTH default wrong => -WRONGPASS invalid username-password pair or user is disabled.
HELLO 3 AUTH bob secret => -WRONGPASS invalid username-password pair or user is disabled.
AUTH wrong => -WRONGPASS invalid username-password pair or user is disabled.
AUTH secre => -WRONGPASS invalid username-password pair or user is disabled.
AUTH secrets => -WRONGPASS invalid username-password pair or user is disabled.
AUTH SECRET => -WRONGPASS invalid username-password pair or user is disabled.
AUTH bob secret => -WRONGPASS invalid username-password pair or user is disabled.
AUTH secret default => -WRONGPASS invalid username-password pair or user is disabled.
AUTH Default secret => -WRONGPASS invalid username-password pair or user is disabled.
AUTH default secret more => -ERR syntax error
AUTH => -ERR wrong number of arguments for 'auth' command
RESET => +RESET
GET k => -NOAUTH Authentication required.
AUTH secret => +OK
GET k => $-1
AUTH wrong => -WRONGPASS invalid username-password pair or user is disabled.
GET k => $-1
RESET => +RESET
GET k => -NOAUTH Authentication required.
AUTH default secret => +OK
GET k => $-1
`)
	w.client().answers(`
HELLO 3 AUTH default secret SETNAME ann => ` + greeting(3) + `
CLIENT GETNAME => "ann"
`)
	quits := w.client()
	quits.answers("QUIT => +OK")
	quits.ended()
	if strings.Contains(w.log.String(), "secre") {
		t.Errorf("a password was logged:\n%s", w.log)
	}
	if got := stranger.info("stats", "acl_access_denied_auth"); got != "10" {
		t.Errorf("%s wrong passwords are counted, want 10", got)
	}
}

// Before the password the words of commands are not checked: a command refused in a pipeline does not affect others.
func TestAuth_pipeline(t *testing.T) {
	c := serve(t, server.Options{Password: "secret"}.WithTimes(long, long, long)).client()
	c.send(pipeline("SET k v", "AUTH secret", "GET k", "SET k w", "AUTH no", "GET k"))
	c.want("-NOAUTH Authentication required.", "+OK", "$-1", "+OK",
		"-WRONGPASS invalid username-password pair or user is disabled.", `"w"`)
}

func TestAuth_noPassword(t *testing.T) {
	c := serve(t, nil).client()
	c.answers(`
AUTH x => -ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?
AUTH default x => +OK
AUTH bob x => -WRONGPASS invalid username-password pair or user is disabled.
GET k => $-1
`)
}

func TestSelect(t *testing.T) {
	serve(t, nil).client().answers(`
SELECT 0 => +OK
SELECT 1 => -ERR DB index is out of range
SELECT -1 => -ERR DB index is out of range
SELECT 2147483647 => -ERR DB index is out of range
SELECT -2147483648 => -ERR DB index is out of range
SELECT 2147483648 => -ERR value is out of range, value must between -2147483648 and 2147483647
SELECT -2147483649 => -ERR value is out of range, value must between -2147483648 and 2147483647
SELECT 9223372036854775807 => -ERR value is out of range, value must between -2147483648 and 2147483647
SELECT 9223372036854775808 => -ERR value is not an integer or out of range
SELECT x => -ERR value is not an integer or out of range
SELECT 00 => -ERR value is not an integer or out of range
SELECT => -ERR wrong number of arguments for 'select' command
SELECT 0 0 => -ERR wrong number of arguments for 'select' command
`)
}

func TestClient(t *testing.T) {
	w := serve(t, nil)
	c := w.client()
	c.answers(`
CLIENT => -ERR wrong number of arguments for 'client' command
CLIENT NOSUCH => -ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP.
CLIENT ID => :1
client id => :1
CLIENT ID x => -ERR wrong number of arguments for 'client|id' command
CLIENT GETNAME => $-1
CLIENT SETNAME => -ERR wrong number of arguments for 'client|setname' command
CLIENT SETNAME ann => +OK
CLIENT GETNAME => "ann"
CLIENT SETINFO LIB-NAME lib => +OK
CLIENT SETINFO lib-ver 1.2 => +OK
CLIENT SETINFO LIB-X x => -ERR Unrecognized option 'LIB-X'
CLIENT SETINFO LIB-NAME => -ERR wrong number of arguments for 'client|setinfo' command
CLIENT NO-EVICT on => +OK
CLIENT NO-TOUCH ON => +OK
CLIENT NO-EVICT maybe => -ERR syntax error
CLIENT INFO => "id=1 addr=pipe laddr=pipe fd=-1 name=ann age=0 idle=0 flags=eT db=0 sub=0 psub=0 ssub=0 multi=-1 ... cmd=client|info user=default redir=-1 resp=2 lib-name=lib lib-ver=1.2\n"
CLIENT NO-EVICT off => +OK
CLIENT NO-TOUCH off => +OK
CLIENT INFO => "id=1 ... flags=N ...\n"
HELLO 3 => {...}
CLIENT INFO => ="txt:id=1 ... resp=3 ...\n"
CLIENT HELP => [+CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are: +... +HELP +    Prints this help.]
`)
	for _, name := range []string{"a b", "a\nb", "a\r\nb", "\x00", "\x7f", "é"} {
		c.send(commandOf("CLIENT", "SETNAME", name) + commandOf("CLIENT", "SETINFO", "LIB-NAME", name))
		c.want("-ERR Client names cannot contain spaces, newlines or special characters.",
			"-ERR lib-name cannot contain spaces, newlines or special characters.")
	}
	c.send(commandOf("CLIENT", "SETNAME", ""))
	c.want("+OK")
	c.answers("CLIENT GETNAME => _")
}

// Names are kept and shown to clients that list the clients: they must not have megabytes.
func TestClient_longNames(t *testing.T) {
	w := serve(t, nil)
	c := w.client()
	for _, n := range []int{257, 4096, 1 << 20} {
		long := strings.Repeat("n", n)
		c.send(commandOf("CLIENT", "SETNAME", long))
		c.want(fmt.Sprintf("-ERR Client name of %d bytes, at most 256", n))
		c.send(commandOf("CLIENT", "SETINFO", "LIB-NAME", long))
		c.want(fmt.Sprintf("-ERR lib-name of %d bytes, at most 256", n))
		c.send(commandOf("CLIENT", "SETINFO", "LIB-VER", long))
		c.want(fmt.Sprintf("-ERR lib-ver of %d bytes, at most 256", n))
		c.send(commandOf("HELLO", "3", "SETNAME", long))
		c.want(fmt.Sprintf("-ERR Client name of %d bytes, at most 256", n))
		if list := c.do("CLIENT LIST"); len(list) > 1000 {
			t.Errorf("CLIENT LIST of one client is of %d bytes", len(list))
		}
	}
	long := strings.Repeat("n", 256)
	c.send(commandOf("CLIENT", "SETNAME", long))
	c.want("+OK")
	c.answers(`CLIENT GETNAME => "` + long + `"`)
}

func TestClientList(t *testing.T) {
	w := serve(t, nil)
	a, b, gone := w.client(), w.client(), w.client()
	a.answers("CLIENT SETNAME a => +OK")
	b.answers(`
CLIENT SETNAME b => +OK
MULTI => +OK
SET k v => +QUEUED
`)
	gone.answers("CLIENT ID => :3\nQUIT => +OK")
	gone.ended()
	// Its goroutine may still be ending.
	eventually(t, "a client that has gone is listed no more", func() bool { return !strings.Contains(a.do("CLIENT LIST"), "id=3") })
	a.answers(`
CLIENT LIST => "id=1 addr=... name=a ... cmd=client|list ...\nid=2 addr=... name=b ... flags=x ... cmd=set ...\n"
CLIENT LIST ID 2 => "id=2 ...\n"
CLIENT LIST ID 2 2 9 => "id=2 ...\n"
CLIENT LIST ID 9 => ""
CLIENT LIST ID => -ERR syntax error
CLIENT LIST ID x => -ERR Invalid client ID
CLIENT LIST TYPE normal => "id=1 ...\nid=2 ...\n"
CLIENT LIST TYPE replica => ""
CLIENT LIST TYPE pubsub => ""
CLIENT LIST TYPE nosuch => -ERR Unknown client type 'nosuch'
CLIENT LIST NOSUCH => -ERR syntax error
`)
}

func TestClientKill(t *testing.T) {
	w := serve(t, nil)
	l := listenTCP(t)
	w.listen(l)
	a := w.client()
	a.answers(`
CLIENT KILL 1.2.3.4:5 => -ERR No such client
CLIENT KILL => -ERR wrong number of arguments for 'client|kill' command
CLIENT KILL ID => -ERR No such client
CLIENT KILL ID 0 => -ERR client-id should be greater than 0
CLIENT KILL ID x => -ERR client-id should be greater than 0
CLIENT KILL ID 99 => :0
CLIENT KILL ID 1 TYPE => -ERR syntax error
CLIENT KILL TYPE nosuch => -ERR Unknown client type 'nosuch'
CLIENT KILL TYPE replica => :0
CLIENT KILL USER bob => -ERR No such user 'bob'
CLIENT KILL SKIPME perhaps => -ERR syntax error
CLIENT KILL NOSUCH x => -ERR syntax error
CLIENT KILL ID 1 => :0
`)
	id := func(c *client) string { return strings.TrimPrefix(c.do("CLIENT ID"), ":") }
	victim := w.client()
	a.answers("CLIENT KILL ID " + id(victim) + " => :1")
	victim.ended()

	victim, other := w.dial(l), w.dial(l)
	other.do("PING")
	address := victim.LocalAddr().String()
	victim.answers("PING => +PONG")
	a.answers("CLIENT KILL ADDR " + address + " LADDR 1.2.3.4:5 => :0")
	a.answers("CLIENT KILL ADDR " + address + " LADDR " + l.Addr().String() + " TYPE normal USER default => :1")
	victim.ended()
	a.answers("CLIENT KILL " + other.LocalAddr().String() + " => +OK")
	other.ended()

	// A client that kills itself gets the reply, and the replies to what it had sent before.
	self := w.client()
	self.send(pipeline("SET k v", "CLIENT KILL ID "+id(self)+" SKIPME no", "SET k w"))
	self.want("+OK", ":1")
	self.ended()
	a.answers(`GET k => "v"`)

	// All others end in the middle of their commands.
	waits, multi, reads := w.client(), w.client(), w.client()
	waits.send("*2\r\n$3\r\nGE")
	multi.answers("MULTI => +OK\nSET k x => +QUEUED")
	reads.answers("PING => +PONG")
	eventually(t, "all are served", func() bool { return strings.Count(a.do("CLIENT LIST"), `\n`) == 4 })
	a.answers("CLIENT KILL TYPE normal => :3")
	for _, c := range []*client{waits, multi, reads} {
		c.ended()
	}
	a.answers(`GET k => "v"`)
}

func TestReset(t *testing.T) {
	w := serve(t, nil)
	c, other := w.client(), w.client()
	c.answers(`
HELLO 3 SETNAME ann => {...}
CLIENT NO-EVICT on => +OK
WATCH k => +OK
MULTI => +OK
SET k v => +QUEUED
RESET => +RESET
EXEC => -ERR EXEC without MULTI
CLIENT GETNAME => $-1
CLIENT INFO => "id=1 ... name= ... flags=N ... resp=2 ..."
RESET x => -ERR wrong number of arguments for 'reset' command
`)
	// The keys watched before are watched no more.
	other.answers("SET k w => +OK")
	c.answers(`
MULTI => +OK
GET k => +QUEUED
EXEC => ["w"]
`)
}

func TestQuit(t *testing.T) {
	w := serve(t, nil)
	c := w.client()
	c.send(pipeline("SET k v", "QUIT now please", "SET k w", "GET k"))
	c.want("+OK", "+OK")
	c.ended()
	inMulti := w.client()
	inMulti.answers(`
MULTI => +OK
SET k x => +QUEUED
QUIT => +OK
`)
	inMulti.ended()
	w.client().answers(`GET k => "v"`)
}

func TestSlowlog(t *testing.T) {
	w := serve(t, server.Options{Password: "secret"}.WithTimes(long, long, long))
	w.set("slowlog-log-slower-than", "0", "slowlog-max-len", "5")
	c := w.client()
	c.answers(`
AUTH secret => +OK
CLIENT SETNAME ann => +OK
SET k v => +OK
SLOWLOG LEN => :3
SLOWLOG GET 2 => [[:3 :... :... ["SLOWLOG" "LEN"] "pipe" "ann"] [:2 :... :... ["SET" "k" "v"] "pipe" "ann"]]
HELLO 2 AUTH default secret => [...]
SLOWLOG GET -1 => [[:5 :... :... ["HELLO" "(redacted)"] ...] [:4 ...] [:3 ...] [:2 ...] [:1 :... :... ["CLIENT" "SETNAME" "(redacted)"] "pipe" ...]]
SLOWLOG GET 0 => []
SLOWLOG GET x => -ERR count should be greater than or equal to -1
SLOWLOG GET -2 => -ERR count should be greater than or equal to -1
SLOWLOG => -ERR wrong number of arguments for 'slowlog' command
SLOWLOG NOSUCH => -ERR unknown subcommand 'NOSUCH'. Try SLOWLOG HELP.
SLOWLOG HELP => [+SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are: ...]
SLOWLOG LEN => :5
SLOWLOG RESET => +OK
SLOWLOG LEN => :1
`)
	for _, line := range []string{"AUTH default secret secret", "HELLO AUTH secret", "SLOWLOG secret secret"} {
		c.do("SLOWLOG RESET")
		c.do(line)
		word, _, _ := strings.Cut(line, " ")
		if entry := c.do("SLOWLOG GET 1"); strings.Contains(entry, "secret") || !strings.Contains(entry, `["`+word+`" "(redacted)"]`) {
			t.Errorf("%s is kept as %s", line, entry)
		}
	}
	// An unknown command may be a mistyped AUTH with a password, or a password.
	c.answers(`
SLOWLOG RESET => +OK
AUHT secret => -ERR unknown command...
secret => -ERR unknown command...
SLOWLOG GET => [[:... :... :... ["SLOWLOG" "RESET"] "pipe" "ann"]]
`)
	// SLOWLOG keeps only parts of long commands.
	words := []string{"MGET"}
	for range 100 {
		words = append(words, strings.Repeat("k", 300))
	}
	c.do("SLOWLOG RESET")
	c.send(commandOf(words...))
	c.want("[100*$-1]")
	entry := c.do("SLOWLOG GET 1")
	for _, part := range []string{strings.Repeat("k", 128) + `... (172 more bytes)"`, `"... (70 more arguments)"`} {
		if !strings.Contains(entry, part) {
			t.Errorf("an entry without %q: %s", part, entry)
		}
	}
	w.set("slowlog-log-slower-than", "-1")
	c.answers("SLOWLOG RESET => +OK\nSET k v => +OK\nSLOWLOG LEN => :0")
	w.set("slowlog-log-slower-than", "0", "slowlog-max-len", "0")
	c.answers("SET k v => +OK\nSLOWLOG LEN => :0\nSLOWLOG GET => []")
}

func TestWait(t *testing.T) {
	serve(t, nil).client().answers(`
WAIT 0 0 => :0
WAIT 1 0 => :0
WAIT 100 1000 => :0
WAIT x 0 => -ERR value is not an integer or out of range
WAIT 0 x => -ERR timeout is not an integer or out of range
WAIT 0 -1 => -ERR timeout is negative
WAIT 0 => -ERR wrong number of arguments for 'wait' command
`)
}

func TestShutdownCommand(t *testing.T) {
	w := serve(t, nil)
	c := w.client()
	c.answers(`
SHUTDOWN NOSUCH => -ERR syntax error
SHUTDOWN SAVE NOSAVE => -ERR syntax error
MULTI => +OK
SHUTDOWN => -ERR Command not allowed inside a transaction
DISCARD => +OK
`)
	select {
	case <-w.server.ShutdownAsked():
		t.Fatal("a SHUTDOWN that was refused is asked for")
	default:
	}
	other := w.client()
	c.send(pipeline("SET k v", "SHUTDOWN NOSAVE", "SET k w"))
	c.want("+OK") // SHUTDOWN itself is answered by the end of the connection
	c.ended()
	<-w.server.ShutdownAsked()
	other.answers(`GET k => "v"`) // the program has not yet done it
	w.shutdown()
	other.ended()
}

// The answers of the commands in a session without a connection.
func TestOutsideOfServer(t *testing.T) {
	w := serve(t, nil)
	session := module.NewSession(w.db.Store())
	for _, line := range []string{
		"HELLO 3", "AUTH x", "SELECT 0", "RESET", "QUIT", "CLIENT ID", "SLOWLOG GET", "SHUTDOWN",
	} {
		var words [][]byte
		for _, word := range strings.Fields(line) {
			words = append(words, []byte(word))
		}
		name := strings.NewReplacer("CLIENT ", "CLIENT|", "SLOWLOG ", "SLOWLOG|").Replace(line)
		name, _, _ = strings.Cut(name, " ")
		want := "ERR " + name + " is for clients of a server: this session is in the process that has the store open"
		if got := session.Do(t.Context(), words); string(got.Bytes()) != want || !got.IsError() {
			t.Errorf("%s = %s, want %s", line, got, want)
		}
	}
}

// Every command of the table answers something, whatever its words, and the connection goes on.
func TestEveryCommand(t *testing.T) {
	w := serve(t, nil)
	for _, cmd := range module.Of(w.db.Store()).Commands() {
		if cmd.Name == "QUIT" || cmd.Name == "SHUTDOWN" {
			continue
		}
		c := w.client()
		for words := range 6 {
			c.do(cmd.Name + strings.Repeat(" 1", words))
		}
		c.do("DISCARD")
		if got := c.do("PING"); got != "+PONG" {
			t.Errorf("after %s: %s", cmd.Name, got)
		}
		_ = c.Close()
	}
}

var elsewhere = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 5000}

func TestProtectedMode(t *testing.T) {
	addresses := map[string]struct {
		from  net.Addr
		local bool
	}{
		"pipe":              {nil, true},
		"IPv4":              {&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 5000}, true},
		"IPv4, of the host": {&net.TCPAddr{IP: net.IPv4(127, 9, 9, 9), Port: 5000}, true},
		"IPv6":              {&net.TCPAddr{IP: net.IPv6loopback, Port: 5000}, true},
		"IPv4 in IPv6":      {&net.TCPAddr{IP: net.ParseIP("::ffff:127.0.0.1"), Port: 5000}, true},
		"socket":            {&net.UnixAddr{Name: "", Net: "unix"}, true},
		"elsewhere":         {elsewhere, false},
		"private":           {&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 5000}, false},
		"elsewhere in IPv6": {&net.TCPAddr{IP: net.ParseIP("2001:db8::1"), Port: 5000}, false},
		"link-local":        {&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0", Port: 5000}, false},
		"unspecified":       {&net.TCPAddr{IP: net.IPv4zero, Port: 5000}, false},
		"no address":        {&net.TCPAddr{Port: 5000}, false},
	}
	protected := serve(t, nil)
	open := serve(t, server.Options{ProtectedModeOff: true}.WithTimes(long, long, long))
	password := serve(t, server.Options{Password: "secret"}.WithTimes(long, long, long))
	for name, tt := range addresses {
		t.Run(name, func(t *testing.T) {
			open.clientFrom(tt.from).answers("PING => +PONG")
			password.clientFrom(tt.from).answers("PING => -NOAUTH Authentication required.\nAUTH secret => +OK\nPING => +PONG")
			c := protected.clientFrom(tt.from)
			if tt.local {
				c.answers("PING => +PONG")
				return
			}
			c.want("-DENIED ...")
			c.ended()
		})
	}
	if got := protected.client().info("stats", "rejected_connections"); got != "6" {
		t.Errorf("%s refused connections are counted, want 6", got)
	}
}
