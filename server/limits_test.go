package server_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/server"
)

// soon is a time for clients that the test waits for; long is one that must not pass.
const (
	soon = 50 * time.Millisecond
	long = time.Hour
)

// keepsSending sends pieces until the server closes the connection.
func (c *client) keepsSending(pieces ...string) {
	go func() {
		for {
			if _, err := c.Reply(); err != nil {
				return
			}
		}
	}()
	for {
		for _, piece := range pieces {
			if c.Send(piece) != nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
}

func TestHalfCommand(t *testing.T) {
	w := serve(t, server.Options{}.WithTimes(soon, long, long))
	whole := w.client()
	whole.answers("PING => +PONG")
	for _, half := range []string{
		"*", "*2", "*2\r\n", "*2\r\n$3", "*2\r\n$3\r\nGE", "*2\r\n$3\r\nGET\r\n", "*2\r\n$3\r\nGET\r\n$1\r\nk", "P", "PING", "PING\r",
		"*500000\r\n", "*2\r\n$3\r\nGET\r\n$33554432\r\n",
	} {
		c := w.client()
		c.send(half)
		c.ended()
	}
	// Replies to earlier commands are sent.
	c := w.client()
	c.send(pipeline("SET k v", "GET k") + "*1\r\n")
	c.want("+OK", `"v"`)
	c.ended()
	// Single bytes extend no deadline.
	w.client().keepsSending("*1\r\n$1000\r\n", strings.Repeat("a", 1)) // the first piece is part of the word from its second time on
	whole.answers("PING => +PONG")
}

func TestIdle(t *testing.T) {
	w := serve(t, nil)
	w.set("timeout", "1")
	half := w.client()
	for half.Send("*1\r\n") != nil { // it may be too late
		half = w.client()
	}
	blank := w.client()
	var idle *client
	var began time.Time
	for got := ""; got != "+PONG"; { // it may be too late
		idle = w.client()
		began = time.Now()
		got, _ = idle.Do("PING")
	}
	blank.ended()
	idle.ended()
	if after := time.Since(began); after < time.Second {
		t.Errorf("a client that has a second is sent away after %v", after)
	}
	half.answers("PING => -ERR Protocol error: expected '$', got '*'") // it has the time of a half command
	w.set("timeout", "0")
	forever := w.client()
	forever.answers("PING => +PONG")
}

// A client that gives no password is closed, whatever else it does.
func TestLogin(t *testing.T) {
	o := &server.Options{Password: "secret"}
	w := serve(t, o.WithTimes(long, soon, long))
	in := w.client()
	for got := ""; got != "+OK"; { // it may be too late
		in = w.client()
		got, _ = in.Do("AUTH", "secret")
	}
	w.client().ended()
	for name, pieces := range map[string][]string{
		"commands":                    {"PING\r\n"},
		"wrong passwords":             {"AUTH x\r\n"},
		"HELLO":                       {"HELLO 3 AUTH default x\r\n"},
		"blank lines":                 {"\r\n"},
		"RESET":                       {"RESET\r\n"},
		"a half command":              {"*1\r\n$9\r\n", "x"},
		"always half a command":       {"PING\r\nPI", "NG\r\nPI"},
		"halves that RESET":           {"RESET\r\nRE", "SET\r\nRE"},
		"more than a stranger's word": {"*1\r\n$2049\r\n"},
	} {
		t.Run(name, func(t *testing.T) { w.client().keepsSending(pieces...) })
	}
	time.Sleep(2 * soon)
	in.answers("PING => +PONG")
	// A client that logs out has the whole time again.
	in.answers("RESET => +RESET")
	in.ended()
}

// The server does not wait for a client that does not read its replies.
func TestWriteTimeout(t *testing.T) {
	w := serve(t, server.Options{}.WithTimes(long, long, soon))
	none := func() bool { return w.server.Connections() == 0 }
	for _, line := range []string{"PING", "INFO", "NOSUCH"} {
		c := w.client()
		c.send(pipeline(line))
		eventually(t, "the client is gone", none)
	}
	// Nor for refused clients: Shutdown waits for them.
	w.set("maxclients", "1")
	for range 3 {
		w.client()
	}
}

func TestMaxClients(t *testing.T) {
	w := serve(t, nil)
	w.set("maxclients", "2")
	a, b := w.client(), w.client()
	a.answers("PING => +PONG")
	b.answers("PING => +PONG")
	c := w.client()
	c.want("-ERR max number of clients reached")
	c.ended()
	if got := a.info("stats", "rejected_connections"); got != "1" {
		t.Errorf("%s refused connections are counted, want 1", got)
	}
	_ = b.Close()
	eventually(t, "there is room again", func() bool { return a.info("clients", "connected_clients") == "1" })
	w.client().answers("PING => +PONG")
	w.set("maxclients", "3")
	w.client().answers("PING => +PONG")
}

// A client cannot lower maxclients so far that nobody could connect to raise it again. The program can. Strangers do
// not count, because new connections replace them.
func TestMaxClients_lowered(t *testing.T) {
	const failed = "-ERR CONFIG SET failed (possibly related to argument 'maxclients') - argument must be between "
	w := serve(t, server.Options{Password: "secret"}.WithTimes(long, long, long).WithStrangers(100, 0))
	w.server.HaveRoom(1000, 1, 1)
	w.set("maxclients", "1000")
	for range 20 {
		w.stranger()
	}
	c := w.user()
	w.user()
	c.answers(`
		CONFIG SET maxclients 1 => ` + failed + `10 and 1000 inclusive, not 1: lower ones could lock everybody out
		CONFIG SET timeout 7 maxclients 9 => ` + failed + `10 and 1000 inclusive, not 9: ...
		CONFIG GET timeout => ["timeout" "0"]
		CONFIG SET maxclients 1001 => ` + failed + `1 and 1000 inclusive, not 1001: the limit of open files leaves no more
		MULTI => +OK
		CONFIG SET maxclients 9 => +QUEUED
		EXEC => [` + failed + `10 and 1000 inclusive, not 9: ...]
		CONFIG SET maxclients 10 => +OK`)
	w.set("maxclients", "3") // and what is so low already may be so again
	c.answers(`
		CONFIG SET maxclients 2 => ` + failed + `3 and 1000 inclusive, not 2: ...
		CONFIG SET maxclients 3 => +OK
		CONFIG SET maxclients 4 => +OK`)
	w.server.HaveRoom(3, 1, 1) // or can be no higher
	c.answers(`
		CONFIG SET maxclients 2 => ` + failed + `3 and 3 inclusive, not 2: ...
		CONFIG SET maxclients 3 => +OK`)
}

func TestProtocolErrors(t *testing.T) {
	w := serve(t, nil)
	w.set("proto-max-bulk-len", "1024", "client-query-buffer-limit", "1048576")
	stranger := serve(t, server.Options{Password: "secret"}.WithTimes(long, long, long))
	const long = 64<<10 + 1
	for _, tt := range []struct {
		w         *world
		sent      string
		malformed string
	}{
		{w, "*x\r\n", "invalid multibulk length"},
		{w, "*1x\r\n", "invalid multibulk length"},
		{w, "*+1\r\n", "invalid multibulk length"},
		{w, "*01\r\n", "invalid multibulk length"},
		{w, "* 1\r\n", "invalid multibulk length"},
		{w, "*1048577\r\n", "invalid multibulk length"},
		{w, "*9223372036854775808\r\n", "invalid multibulk length"},
		{w, "*99999999999999999999999999\r\n", "invalid multibulk length"},
		{w, "*\r\n", "invalid multibulk length"},
		{w, "*1\r\n\r\n", "expected '$', got ' '"},
		{w, "*1\r\nPING\r\n", "expected '$', got 'P'"},
		{w, "*1\r\n*1\r\n$4\r\nPING\r\n", "expected '$', got '*'"},
		{w, "*1\r\n:4\r\n", "expected '$', got ':'"},
		{w, "*1\r\n$x\r\n", "invalid bulk length"},
		{w, "*1\r\n$-1\r\n", "invalid bulk length"},
		{w, "*1\r\n$-0\r\n", "invalid bulk length"},
		{w, "*1\r\n$\r\n", "invalid bulk length"},
		{w, "*1\r\n$1025\r\n", "invalid bulk length"},
		{w, "*1\r\n$536870912\r\n", "invalid bulk length"},
		{w, "*1\r\n$18446744073709551615\r\n", "invalid bulk length"},
		{w, "*1\r\n$9223372036854775807\r\n", "invalid bulk length"},
		{w, "*2000\r\n" + strings.Repeat("$1024\r\n"+strings.Repeat("x", 1024)+"\r\n", 1024) + "$1024\r\n", "command of 1049600 bytes, at most 1048576"},
		{w, "*" + strings.Repeat("1", long), "too big mbulk count string"},
		{w, "*1\r\n$" + strings.Repeat("1", long), "too big bulk count string"},
		{w, "GET " + strings.Repeat("k", long), "too big inline request"},
		{w, "GET \"k\r\n", "unbalanced quotes in request"},
		{w, "GET 'k'k\r\n", "unbalanced quotes in request"},
		{w, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x00", long), "too big inline request"}, // TLS
		{stranger, "*11\r\n", "unauthenticated multibulk length"},
		{stranger, "*2\r\n$4\r\nAUTH\r\n$2049\r\n", "unauthenticated bulk length"},
	} {
		c := tt.w.client()
		go func() { _ = c.Send(tt.sent) }() // the server may stop reading before the end
		c.want("-ERR Protocol error: " + tt.malformed)
		c.ended()
		// Commands before the error are answered, and commands after it do not run.
		if tt.w != w || len(tt.sent) > 100 {
			continue
		}
		c = tt.w.client()
		c.send(pipeline("SET k v", "GET k") + tt.sent + pipeline("SET k broken"))
		c.want("+OK", `"v"`, "-ERR Protocol error: "+tt.malformed)
		c.ended()
		w.client().answers(`GET k => "v"`)
	}
	// Browsers are closed without a reply: a web page may make them send commands.
	for _, http := range []string{
		"POST / HTTP/1.1\r\nHost: x\r\n\r\nSET k broken\r\n", "post /\r\nSET k broken\r\n", "GET k\r\nHost: example.org\r\nSET k broken\r\n",
		commandOf("Host:", "x") + pipeline("SET k broken"),
	} {
		c := w.client()
		c.send(http)
		c.ended()
	}
	w.client().answers(`GET k => "v"`)
}

// A client that sends more than the server reads before an error still sees the error, and no reset.
func TestProtocolErrors_unread(t *testing.T) {
	w := serve(t, server.Options{}.WithTimes(long, long, long).WithLinger(long))
	pair, _ := certificate(t)
	for _, secret := range []bool{false, true} {
		l := listenTCP(t)
		if secret {
			l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}})
		}
		w.listen(l)
		c := dialEither(t, l, secret)
		if _, err := io.WriteString(c, "*x\r\n"+strings.Repeat("x", 512<<10)); err != nil {
			t.Errorf("tls %v: %v", secret, err)
		}
		const told = "-ERR Protocol error: invalid multibulk length\r\n"
		if got, err := io.ReadAll(c); string(got) != told || err != nil {
			t.Errorf("tls %v: got %q, %v", secret, got, err)
		}
		for range 64 { // the server has ended its side, and goes on reading
			if _, err := io.WriteString(c, strings.Repeat("x", 1024)); err != nil {
				t.Fatalf("tls %v: %v", secret, err)
			}
		}
		_ = c.Close() // nothing is waited for
	}
}

// If there is no memory to watch keys, they are not watched, and the client gets an error.
func TestMemory_watch(t *testing.T) {
	w := serve(t, nil)
	w.set("maxmemory-clients", "2000000")
	c := w.client()
	go func() { _ = c.Send(pipeline("WATCH" + strings.Repeat(" key", 10_000))) }()
	const refused = "-ERR watching so many keys takes more memory than maxmemory-clients leaves"
	c.want(refused)
	for round := range 3 {
		c.send(pipeline("WATCH" + thousandKeys(round)))
		c.want("+OK")
	}
	for round := range 10 {
		c.send(pipeline("WATCH" + thousandKeys(3+round)))
		if got, err := c.Reply(); got != "+OK" {
			if got != refused || err != nil {
				t.Errorf("%s, %v", got, err)
			}
			c.answers("UNWATCH => +OK\nWATCH k => +OK")
			return
		}
	}
	t.Error("4 MB of keys are watched")
}

// thousandKeys returns other words in each round.
func thousandKeys(round int) string {
	var b strings.Builder
	for i := range 1000 {
		b.WriteString(" key" + strconv.Itoa(1000*round+i))
	}
	return b.String()
}

// If WATCH fails, only the keys that it watches are counted.
func TestMemory_watchFails(t *testing.T) {
	w := serve(t, nil)
	c := w.client()
	long := strings.Repeat("l", kv.MaxKeyLen+1)
	c.send(pipeline("WATCH" + thousandKeys(0) + " " + long + " m"))
	c.want("-ERR too large: key of 65537 bytes, at most 65536")
	if n := w.db.Store().WatchedKeys(); n != 1000 {
		t.Errorf("%d keys are watched, want 1000", n)
	}
	before := w.server.Held()
	c.answers("UNWATCH => +OK")
	if freed := before - w.server.Held(); freed < 300_000 {
		t.Errorf("1000 watched keys were counted as %d bytes", freed)
	}
}

// A client that is refused gets the reason though it has sent what nobody wants to read: the server reads that before it
// closes the connection, since the system would reset it otherwise.
func TestMaxClients_unread(t *testing.T) {
	w := serve(t, server.Options{}.WithTimes(long, long, long).WithLinger(long))
	w.set("maxclients", "1")
	w.client().answers("PING => +PONG")
	l := listenTCP(t)
	c := dialEither(t, l, false)
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	const sent = 100 << 10
	wrote := make(chan error)
	go func() {
		_, err := io.WriteString(c, strings.Repeat("x", sent))
		wrote <- errors.Join(err, c.(*net.TCPConn).CloseWrite())
	}()
	counted := &readConn{TCPConn: accepted.(*net.TCPConn)}
	w.server.ServeConn(counted)
	if err := <-wrote; err != nil || counted.read != sent {
		t.Errorf("%d of %d bytes were read before the connection was closed: %v", counted.read, sent, err)
	}
	wantsAll(t, c, "-ERR max number of clients reached\r\n")
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// readConn counts the bytes that are read.
type readConn struct {
	*net.TCPConn
	read int
}

func (c *readConn) Read(b []byte) (n int, err error) {
	n, err = c.TCPConn.Read(b)
	c.read += n
	return n, err
}

func dialEither(t *testing.T, l net.Listener, secret bool) (c net.Conn) {
	t.Helper()
	var err error
	if secret {
		c, err = tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	} else {
		c, err = net.Dial("tcp", l.Addr().String())
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// wantsAll reads to the end of a connection, and closes it.
func wantsAll(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got, err := io.ReadAll(c)
	if string(got) != want || err != nil {
		t.Errorf("got %q, %v\nwant %q", got, err, want)
	}
	_ = c.Close()
}

// A stranger's limits end with the password, even in the middle of a pipeline.
func TestLimits_login(t *testing.T) {
	w := serve(t, server.Options{Password: "secret"}.WithTimes(long, long, long))
	value := strings.Repeat("v", 20_000)
	words := append([]string{"DEL"}, numbered("k%d", 20)...)
	c := w.client()
	c.send(pipeline("AUTH secret"))
	c.want("+OK")
	go func() { _ = c.Send(commandOf("SET", "k", value) + commandOf(words...)) }()
	c.want("+OK", ":0")
	c = w.client()
	go func() {
		_ = c.Send(pipeline("AUTH secret") + commandOf("SET", "k", value) + commandOf(words...) + pipeline("RESET") + commandOf(words...))
	}()
	c.want("+OK", "+OK", ":0", "+RESET", "-ERR Protocol error: unauthenticated multibulk length")
}

// overload is the error for a client that takes too much memory.
const overload = "-ERR clients together hold more memory than maxmemory-clients allows"

func TestMemory_command(t *testing.T) {
	w := serve(t, nil)
	w.set("maxmemory-clients", "1048576")
	small, c := w.client(), w.client()
	small.answers("SET k v => +OK")
	go func() { _ = c.Send(commandOf("SET", "k", strings.Repeat("v", 4<<20))) }()
	c.want(overload)
	c.ended()
	small.answers(`GET k => "v"`)
	if got := small.info("stats", "limited_connections"); got != "1" {
		t.Errorf("%s connections that took too much are counted, want 1", got)
	}
	// There is room again.
	c = w.client()
	go func() { _ = c.Send(commandOf("SET", "k", strings.Repeat("v", 300_000))) }()
	c.want("+OK")
}

// Many connections that each hold little hold much together, and one that asks for more is closed.
func TestMemory_together(t *testing.T) {
	w := serve(t, nil)
	w.set("maxmemory-clients", "2200000") // a buffer for each of the four, of twice what is in it, and little more
	for range 4 {
		half := w.client()
		half.send("*2\r\n$3\r\nGET\r\n$1000000\r\n" + strings.Repeat("k", 250_000))
	}
	small, c := w.client(), w.client()
	small.answers("SET k v => +OK")
	go func() { _ = c.Send(commandOf("SET", "k", strings.Repeat("v", 300_000))) }()
	c.want(overload)
	c.ended()
	small.answers(`GET k => "v"`)
}

// Queued commands and watched keys count as held.
func TestMemory_transactions(t *testing.T) {
	w := serve(t, nil)
	w.set("maxmemory-clients", "1048576")
	const most = 100_000
	for name, lines := range map[string][]string{
		"commands":          {"SET k%d v"},
		"commands, aborted": {"SET k%d v", "NOSUCH"},
		"keys watched":      {"WATCH k%d"},
		"WATCH and EXEC":    {"WATCH k%d", "EXEC"},
		"WATCH and DISCARD": {"WATCH k%d", "DISCARD"},
		"UNWATCH refused":   {"WATCH k%d", "UNWATCH k"},
	} {
		t.Run(name, func(t *testing.T) {
			c := w.client()
			if !strings.HasPrefix(lines[0], "WATCH") {
				c.answers("MULTI => +OK")
			}
			if sent := c.many(most, lines...); sent == most {
				t.Errorf("%d times %q were kept", sent, lines)
			}
			_ = c.Close()
		})
	}
	w.client().answers("EXISTS k1 => :0")
}

// They count until the transaction ends in any way.
func TestMemory_transactionsEnd(t *testing.T) {
	w := serve(t, nil)
	w.set("maxmemory-clients", "1048576")
	queue := []string{"MULTI", "SET k%d " + strings.Repeat("v", 1000)}
	for name, lines := range map[string][]string{
		"EXEC":            append(queue, "EXEC"),
		"EXEC with words": append(queue, "EXEC now"),
		"EXECABORT":       append(queue, "NOSUCH", "EXEC"),
		"DISCARD":         append(queue, "DISCARD"),
		"RESET":           append(queue, "RESET"),
		"UNWATCH":         {"WATCH k%d l%d m%d n%d", "UNWATCH"},
		"WATCH, EXEC":     {"WATCH k%d l%d m%d n%d", "MULTI", "EXEC"},
		"WATCH, DISCARD":  {"WATCH k%d l%d m%d n%d", "MULTI", "DISCARD"},
		"WATCH, RESET":    {"WATCH k%d l%d m%d n%d", "RESET"},
	} {
		t.Run(name, func(t *testing.T) {
			c := w.client()
			if sent := c.many(2000, lines...); sent < 2000 {
				t.Errorf("the connection was closed after %d transactions", sent)
			}
			_ = c.Close()
		})
	}
}

// many sends a line with a number in it n times, or until the connection is closed, and returns how often.
func (c *client) many(times int, lines ...string) (sent int) {
	c.t.Helper()
	for ; sent < times; sent += 50 {
		var b strings.Builder
		n := 0
		for i := range 50 {
			for _, line := range lines {
				if strings.Contains(line, "%d") {
					line = strings.ReplaceAll(line, "%d", strconv.Itoa(sent+i))
				}
				b.WriteString(pipeline(line))
				n++
			}
		}
		go func() { _ = c.Send(b.String()) }()
		for range n {
			if _, err := c.Reply(); err != nil {
				return sent
			}
		}
	}
	return sent
}

// Replies count as held: a command whose reply has no room is refused and does nothing.
func TestMemory_replies(t *testing.T) {
	w := serve(t, nil)
	c := w.client()
	go func() { _ = c.Send(commandOf("SET", "big", strings.Repeat("v", 2<<20))) }()
	c.want("+OK")
	w.set("maxmemory-clients", "1048576")
	c.answers(`
STRLEN big => :2097152
GET big => -ERR the reply takes more memory than maxmemory-clients leaves: ask for less at a time
GETRANGE big 0 3 => "vvvv"
`)
	c.answers(`
TYPE big => +string
GETDEL big => -ERR the reply takes more memory than maxmemory-clients leaves: ask for less at a time
EXISTS big => :1
BF.INFO big => -WRONGTYPE Operation against a key holding the wrong kind of value
DEL big => :1
`)
}

// An idle connection holds little, and works as before afterwards.
func TestMemory_idle(t *testing.T) {
	w := serve(t, server.Options{}.WithTimes(long, long, long).WithRest(soon))
	large := strings.Repeat("v", 20_000)
	var clients []*client
	for range 20 {
		c := w.client()
		c.answers("PING => +PONG\nECHO " + large + " => " + strconv.Quote(large))
		clients = append(clients, c)
	}
	eventually(t, "idle connections hold little", func() bool { return w.server.Held() < 1<<10*int64(len(clients)) })
	for _, c := range clients {
		c.answers("SET k " + strings.Repeat("v", 600) + " => +OK\nSTRLEN k => :600")
	}
}

// A client that does not read its replies holds no turn meanwhile.
func TestAdmission_notRead(t *testing.T) {
	w := serve(t, server.Options{}.WithBurst(-1).WithTimes(long, long, long))
	for range server.Places() + 1 {
		w.client().send(pipeline("PING"))
	}
	none := func() bool { return w.server.TurnsHeld() == 0 }
	eventually(t, "no connection has a turn", none)
	c := w.client()
	c.answers("SET k v => +OK\nGET k => \"v\"")
	// Nor does a client whose command is incomplete.
	for range server.Places() + 1 {
		half := w.client()
		half.answers("PING => +PONG")
		half.send("*2\r\n$4\r\nEC")
	}
	eventually(t, "no connection has a turn", none)
	c.answers("GET k => \"v\"")
}

// Long and short turns wait only for turns of their own kind.
func TestAdmission_long(t *testing.T) {
	w := serve(t, server.Options{}.WithBurst(-1).WithTimes(long, long, long))
	busy, large := w.client(), w.client()
	busy.answers("SET k v => +OK")
	busy.send(strings.Repeat(commandOf("GET", "k"), int(server.LongTurn/server.CommandTime)))
	for range server.LongTurn / server.CommandTime {
		busy.want("\"v\"")
	}

	giveBack := w.server.HoldLongTurns()
	w.client().answers("GET k => \"v\"")
	busy.send(pipeline("GET k"))
	eventually(t, "the next turn of one that did much waits", func() bool { return w.server.LongTurnsWanted() == 1 })
	sent := make(chan error, 1)
	go func() { sent <- large.Send(commandOf("STRLEN", strings.Repeat("k", 2*server.LongBytes))) }()
	eventually(t, "a client that sends much waits", func() bool { return w.server.LongTurnsWanted() == 2 })
	w.client().answers("GET k => \"v\"")
	giveBack()
	busy.want("\"v\"")
	if err := <-sent; err != nil {
		t.Error(err)
	}
	large.want("-ERR too large: key of ...")
}

// A command that is expected to take long waits for a long turn, also the first one of a connection. Others do not wait, nor
// does it while it is only queued.
func TestAdmission_longCommand(t *testing.T) {
	w := serve(t, nil)
	giveBack := w.server.HoldLongTurns()
	counting, queuing, other := w.client(), w.client(), w.client()
	counting.send(pipeline("BITCOUNT k")) // how long it takes is not known
	eventually(t, "a new client's long command waits", func() bool { return w.server.LongTurnsWanted() == 1 })
	queuing.answers("MULTI => +OK\nBITCOUNT k => +QUEUED")
	queuing.send(pipeline("EXEC"))
	eventually(t, "a transaction with a long command waits", func() bool { return w.server.LongTurnsWanted() == 2 })
	other.answers("MULTI => +OK\nSET k v => +QUEUED\nEXEC => [+OK]\nGET k => \"v\"")
	giveBack()
	counting.want(":5")
	queuing.want("[:5]")
}

// A command of many words is refused before it runs if there is no memory for it.
func TestMemory_words(t *testing.T) {
	w := serve(t, nil)
	w.set("maxmemory-clients", strconv.Itoa(1<<20))
	c := w.client()
	c.send(commandOf(append([]string{"SADD"}, slices.Repeat([]string{"x"}, 4000)...)...))
	c.want("-ERR unknown command ...")
	words := slices.Repeat([]string{"x"}, 8000)
	c.send(commandOf(append([]string{"BF.MADD", "f"}, words...)...))
	c.want("-ERR the reply takes more memory than maxmemory-clients leaves: ask for less at a time")
	c.answers("EXISTS f => :0")
	w.set("maxmemory-clients", strconv.Itoa(8<<20))
	c.send(commandOf(append([]string{"DEL"}, words...)...))
	c.want(":0")
	eventually(t, "the connection holds little", func() bool { return w.server.Held() < 64<<10 })

	// If there is no memory for the words, they are not read.
	w.set("maxmemory-clients", strconv.Itoa(1<<20))
	c.send("*8193\r\n")
	c.want("-ERR Protocol error: invalid multibulk length")
	c.ended()
}

// A reply that would exceed the memory is refused while it grows, in a transaction with all of it; smaller replies
// work afterwards.
func TestMemory_growingReplies(t *testing.T) {
	w := serve(t, nil)
	w.set("maxmemory-clients", strconv.Itoa(1<<20))
	c := w.client()
	for i := range 3 {
		c.send(commandOf("SET", "k"+strconv.Itoa(i), strings.Repeat("v", 100<<10)))
		c.want("+OK")
	}
	const refused = "-ERR the reply takes more memory than maxmemory-clients leaves: ask for less at a time"
	many := append([]string{"MGET"}, slices.Repeat([]string{"k0", "k1", "k2"}, 10)...)
	c.send(commandOf(many...))
	c.want(refused)
	c.answers("MULTI => +OK\nINCR n => +QUEUED")
	for range 30 {
		c.answers("GET k1 => +QUEUED")
	}
	c.answers("EXEC => " + refused + "\nEXISTS n => :0")
	c.send(commandOf("MGET", "k0", "k1"))
	value := `"` + strings.Repeat("v", 100<<10) + `"`
	c.want("[" + value + " " + value + "]")

	for i := range 2000 {
		c.send(commandOf("SET", strings.Repeat("k", 1000)+strconv.Itoa(i), "v"))
		c.want("+OK")
	}
	c.answers("KEYS * => " + refused + "\nSCAN 0 COUNT 100000 => " + refused + "\nPING => +PONG")
	eventually(t, "the connection holds little", func() bool { return w.server.Held() < 256<<10 })
}

// The log shows what strangers do, but they cannot make it long.
func TestWarnings(t *testing.T) {
	w := serve(t, server.Options{Password: "secret"}.WithTimes(long, long, long))
	c := w.client()
	began := time.Now()
	for range 500 {
		c.answers("AUTH wrong => -WRONGPASS ...")
	}
	few := func(line string) {
		t.Helper()
		n := strings.Count(w.log.String(), line)
		if seconds := int(time.Since(began) / time.Second); n < 1 || n > seconds+1 {
			t.Errorf("%d lines in %d seconds", n, seconds)
		}
	}
	few("wrong password")
	for range 100 {
		http := w.client()
		http.send("POST / HTTP/1.1\r\n")
		http.ended()
	}
	few("HTTP on a port")
	w.shutdown()
	if log := w.log.String(); told(log, "wrong password") != 500 || told(log, "HTTP on a port") != 100 {
		t.Errorf("the log does not count what it leaves out:\n%s", log)
	}
}
