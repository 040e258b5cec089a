package server_test

import (
	"crypto/tls"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/internal/resp"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/server"
	"github.com/sievekv/sievekv/tests/wire"
)

// stranger returns a client after the server has counted it.
func (w *world) stranger() *client {
	w.t.Helper()
	c := w.client()
	c.answers("PING => -NOAUTH Authentication required.")
	return c
}

func (w *world) user() *client {
	w.t.Helper()
	c := w.client()
	c.answers("AUTH secret => +OK")
	return c
}

// Strangers hold little memory, and take none from users.
func TestStrangers_memory(t *testing.T) {
	w := serve(t, server.Options{Password: "secret"}.WithTimes(long, long, long))
	w.set("maxmemory-clients", "1048576")
	const n = 120
	var all []*client
	for range n {
		c := w.stranger()
		c.send("*2\r\n$2048\r\n" + strings.Repeat("a", 2048) + "\r\n$2048\r\n" + strings.Repeat("b", 1900))
		c.send("c") // when it is there, what was before was counted
		all = append(all, c)
	}
	user := w.user()
	if held := w.server.HeldByStrangers(); held < n*4000 || held > n*6<<10 {
		t.Errorf("%d strangers hold %d bytes", n, held)
	}
	if held := w.server.Held(); held > 32<<10 {
		t.Errorf("users hold %d bytes", held)
	}
	go func() { _ = user.Send(commandOf("SET", "k", strings.Repeat("v", 100_000))) }()
	user.want("+OK")
	// A stranger does not keep a user's large buffer; the buffer of a stranger that logs in grows.
	user.answers("RESET => +RESET")
	if held := w.server.Held(); held != 0 {
		t.Errorf("%d bytes are held by users, of whom there is none", held)
	}
	go func() { _ = all[0].Send(strings.Repeat("b", 200)) }()
	all[0].want("-ERR Protocol error: command of more than 4096 bytes with its lengths")
	all[0].ended()
}

// Replies to strangers are sent in small batches.
func TestStrangers_replies(t *testing.T) {
	w := serve(t, server.Options{Password: "secret"}.WithTimes(long, long, long))
	c := w.client()
	go func() { _ = c.Send(strings.Repeat("A\r\n", 1000)) }()
	c.want("-NOAUTH Authentication required.")
	if held := w.server.HeldByStrangers(); held > 8<<10 {
		t.Errorf("a stranger holds %d bytes", held)
	}
	for range 999 {
		c.want("-NOAUTH Authentication required.")
	}
}

// When there are as many strangers as allowed, a new one replaces the oldest; users stay.
func TestStrangers_number(t *testing.T) {
	w := serve(t, server.Options{Password: "secret"}.WithTimes(long, long, long).WithStrangers(2, 0))
	user := w.user()
	first, second := w.stranger(), w.stranger()
	user.answers("PING => +PONG")
	third := w.stranger()
	first.ended()
	second.answers("AUTH secret => +OK") // and makes room
	fourth := w.stranger()
	third.answers("AUTH secret => +OK\nRESET => +RESET")
	fifth := w.stranger()
	fourth.ended() // older than the third now
	third.answers("AUTH secret => +OK")
	fifth.answers("AUTH secret => +OK")
	if got := user.info("stats", "closed_strangers"); got != "2" {
		t.Errorf("%s strangers were closed, want 2", got)
	}
	if got := user.info("clients", "strangers"); got != "0" {
		t.Errorf("%s strangers are left", got)
	}
}

// Strangers take no connection from users.
func TestStrangers_maxClients(t *testing.T) {
	w := serve(t, server.Options{Password: "secret"}.WithTimes(long, long, long).WithStrangers(100, 0))
	w.set("maxclients", "3")
	strangers := []*client{w.stranger(), w.stranger(), w.stranger()}
	var users []*client
	for range 3 {
		users = append(users, w.user())
	}
	for _, c := range strangers {
		c.ended()
	}
	c := w.client()
	c.want("-ERR max number of clients reached")
	c.ended()
	for _, c := range users {
		c.answers("PING => +PONG")
	}
}

// The oldest stranger has some time before it is closed, and a new one waits until then, or until another leaves.
func TestStrangers_grace(t *testing.T) {
	w := serve(t, server.Options{Password: "secret"}.WithTimes(long, long, long).WithStrangers(1, long))
	if d := w.server.UntilRoom(nil); d > 0 {
		t.Errorf("a stranger that is the first waits for %v", d)
	}
	first := w.stranger()
	if d := w.server.UntilRoom(nil); d <= 0 {
		t.Error("a second stranger does not wait")
	}
	second := w.client()
	first.answers("AUTH secret => +OK")
	second.answers("AUTH secret => +OK")
	third, fourth := w.stranger(), w.client()
	_ = third.Close()
	fourth.answers("AUTH secret => +OK")
	w.stranger()
	w.client() // for whom the end does not wait
}

// A new stranger replaces the oldest one of the address that has most, at once if it has fewer itself.
func TestStrangers_addresses(t *testing.T) {
	w := serve(t, server.Options{Password: "secret"}.WithTimes(long, long, long).WithStrangers(4, long))
	at := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }
	join := func(ip string) *client {
		c := w.clientFrom(at(ip))
		c.answers("PING => -NOAUTH Authentication required.")
		return c
	}
	few := join("10.0.0.1")
	many := []*client{join("2001:db8::1"), join("2001:db8::2"), join("2001:db8::3")} // of one network
	if d := w.server.UntilRoom(at("2001:db8::4")); d <= 0 {
		t.Error("a stranger of the address that has most does not wait")
	}
	for i, ip := range []string{"10.0.0.2", "10.0.0.3"} {
		if d := w.server.UntilRoom(at(ip)); d > 0 {
			t.Errorf("a stranger of an address without any waits for %v", d)
		}
		join(ip)
		many[i].ended()
	}
	if d := w.server.UntilRoom(at("10.0.0.4")); d <= 0 {
		t.Error("a stranger replaces one of an address that has no more than its own will have")
	}
	few.answers("AUTH secret => +OK")
	many[2].answers("AUTH secret => +OK")
}

// A client that waits for a delayed answer keeps its place, whoever comes from its address.
func TestStrangers_waitForAnswer(t *testing.T) {
	w := serve(t, server.Options{Password: "secret"}.WithTimes(long, long, long).WithStrangers(4, 0).WithGuesses(long, long))
	for range server.FreeGuesses {
		c := w.client()
		c.answers("AUTH wrong => -WRONGPASS...")
		_ = c.Close()
	}
	w.client().send(pipeline("AUTH wrong"))
	eventually(t, "it waits", func() bool { return w.server.AwaitingAnswers() == 1 })
	var others []*client
	for range 20 {
		others = append(others, w.stranger())
	}
	for _, c := range others[:17] {
		c.ended()
	}
	for _, c := range others[17:] {
		c.answers("PING => -NOAUTH Authentication required.")
	}
	// No more than half keep their places.
	for _, c := range others[17:] {
		c.send(pipeline("AUTH wrong"))
	}
	eventually(t, "they wait", func() bool { return w.server.Guesses() == server.FreeGuesses+4 && w.server.AwaitingAnswers() == 2 })
	w.stranger()
	w.stranger()
	if got := w.server.AwaitingAnswers(); got != 2 {
		t.Errorf("%d keep their places, want 2", got)
	}
}

// Addresses have handshakes in turn: one that begins many does not make others wait for all of them.
func TestHandshakes_turns(t *testing.T) {
	got := server.HandshakeOrder("10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.3", "10.0.0.2")
	slices.Sort(got[:3])
	slices.Sort(got[3:5])
	want := []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.1", "10.0.0.1"}
	if !slices.Equal(got, want) {
		t.Errorf("places go to %v, want %v", got, want)
	}
}

// A client that sends nothing has less time than a client that sends something.
func TestStrangers_firstCommand(t *testing.T) {
	w := serve(t, server.Options{Password: "secret"}.WithTimes(long, long, long).WithFirst(soon))
	w.client().ended()
	half := w.client()
	half.send("*1\r\n")
	half.ended()
	var spoke *client
	for got := ""; got == ""; { // it may be too late
		spoke = w.client()
		got, _ = spoke.Do("PING")
	}
	time.Sleep(2 * soon)
	spoke.answers("AUTH secret => +OK")
}

// The server accepts what libraries send at once when they connect, even with a long password.
func TestStrangers_pipeline(t *testing.T) {
	password := strings.Repeat("p", 2048)
	w := serve(t, server.Options{Password: password}.WithTimes(long, long, long))
	c := w.client()
	go func() {
		_ = c.Send(commandOf("HELLO", "3", "AUTH", "default", password, "SETNAME", "app") +
			pipeline("CLIENT SETINFO LIB-NAME go-redis(,go1.26)", "CLIENT SETINFO LIB-VER 9.8.0", "SELECT 0") +
			commandOf("SET", "k", strings.Repeat("v", 100_000)) + pipeline("STRLEN k"))
	}()
	c.want("{...}", "+OK", "+OK", "+OK", "+OK", ":100000")
	c = w.client()
	go func() {
		_ = c.Send(pipeline("CLIENT SETINFO LIB-NAME redis-py", "SELECT 0") + commandOf("AUTH", password))
	}()
	c.want("-NOAUTH Authentication required.", "-NOAUTH Authentication required.", "+OK")
}

// A password too long for any client to give is refused.
func TestNew_longPassword(t *testing.T) {
	db, err := sievekv.Open("", &sievekv.Options{InMemory: true, Modules: module.New(server.Module())})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	o := &server.Options{Password: strings.Repeat("p", int(resp.UnauthenticatedLimits.Bulk)+1)}
	if _, err := server.New(db.Store(), o); err == nil || !strings.Contains(err.Error(), "2049 bytes: at most 2048") {
		t.Errorf("New = %v", err)
	}
}

// A few wrong passwords cause no delay, and a right one resets the count.
func TestGuesses(t *testing.T) {
	w := serve(t, server.Options{Password: "secret"}.WithTimes(long, long, long).WithGuesses(long, long))
	for range 3 {
		c := w.client()
		c.answers(strings.Repeat("AUTH wrong => -WRONGPASS...\n", server.FreeGuesses-1) + "AUTH secret => +OK")
		c.answers("AUTH wrong => -WRONGPASS...\nHELLO 3 AUTH default secret => {...}")
	}
}

// After some wrong passwords the answers to that address are delayed, also those to right passwords. Delays do not
// affect other clients, and end with their connections.
func TestGuesses_delayed(t *testing.T) {
	w := serve(t, server.Options{Password: "secret"}.WithTimes(long, long, long).WithBurst(0).WithStrangers(5, 0).WithGuesses(long, long))
	from := func(ip string) *client { return w.clientFrom(&net.TCPAddr{IP: net.ParseIP(ip), Port: 1}) }
	guesser := from("2001:db8::1")
	guesser.answers(strings.Repeat("HELLO 3 AUTH default wrong => -WRONGPASS...\n", server.FreeGuesses))
	one, other, right := from("2001:db8::1"), from("2001:db8::2"), from("2001:db8::3") // of one network
	one.send(pipeline("AUTH wrong"))
	other.send(pipeline("HELLO 3 AUTH default wrong"))
	eventually(t, "they wait", func() bool { return w.server.Guesses() == server.FreeGuesses+2 && w.server.AwaitingAnswers() == 2 })
	right.send(pipeline("AUTH secret"))
	eventually(t, "the right one waits", func() bool { return w.server.Guesses() == 0 && w.server.TurnsHeld() == 0 })
	user := from("2001:db8:0:1::1")
	user.answers("AUTH secret => +OK\nPING => +PONG")
	for range 5 { // other clients run while these wait
		w.stranger()
	}
	guesser.ended()
	right.ended() // half of the strangers may keep their places
	if got := user.info("clients", "strangers"); got != "5" {
		t.Errorf("%s strangers, want the two that wait and three", got)
	}
	if !strings.Contains(w.log.String(), "wrong password") || strings.Contains(w.log.String(), "secret") {
		t.Errorf("logged is\n%s", w.log)
	}
}

// Shutdown does not wait for a delayed answer.
func TestGuesses_shutdown(t *testing.T) {
	w := serve(t, server.Options{Password: "secret"}.WithTimes(long, long, long).WithGuesses(long, long))
	c := w.client()
	c.answers(strings.Repeat("AUTH wrong => -WRONGPASS...\n", server.FreeGuesses))
	c.send(pipeline("AUTH wrong"))
	eventually(t, "it waits", func() bool { return w.server.Guesses() == server.FreeGuesses+1 })
	go func() { _, _ = c.Rest() }()
	w.shutdown()
}

// A client with a slow handshake delays no other handshake. It is a stranger even if there is no password.
func TestTLS_slowHandshakes(t *testing.T) {
	w := serve(t, server.Options{}.WithTimes(long, long, long).WithStrangers(1000, 0))
	pair, pool := certificate(t)
	l := listenTCP(t)
	w.listenTLS(l, &tls.Config{Certificates: []tls.Certificate{pair}})
	n := server.HandshakePlaces() + server.Places() + 1
	var slow []*client
	for range n {
		c := w.dial(l)
		c.send("\x16\x03\x01\x02\x00\x01\x00\x01\xfc")
		slow = append(slow, c)
	}
	eventually(t, "they are strangers", func() bool { return w.server.Strangers() == n })
	dial := func() *client {
		conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: pool})
		return w.own(wire.New(conn), err)
	}
	c := dial()
	c.answers("PING => +PONG")
	if got := w.server.Strangers(); got != n {
		t.Errorf("%d are strangers, want %d", got, n)
	}
	// No handshake is large.
	large := w.dial(l)
	_ = large.Send("\x16\x03\x01\x40\x00\x01\x00\xff\xff" + strings.Repeat("a", 16<<10-4) + "\x16\x03\x01\x40\x00" + strings.Repeat("a", 10_000))
	if rest, err := large.Rest(); strings.Contains(rest, "PONG") {
		t.Errorf("%q, %v", rest, err)
	}
	if got := c.info("stats", "failed_handshakes"); got != "1" {
		t.Errorf("%s handshakes failed, want 1", got)
	}
	for _, c := range slow {
		_ = c.Close()
	}
	eventually(t, "they have gone", func() bool { return w.server.Strangers() == 0 })
}
