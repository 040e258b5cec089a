package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/server"
	"github.com/sievekv/sievekv/tests/wire"
)

// The metrics refuse a page whose host name resolves to this machine, and requests without the password; keys need
// more.
func TestMetrics_access(t *testing.T) {
	w := serve(t, nil)
	w.client().answers("BF.ADD secret-key x => :1")
	secret := &server.MetricsOptions{Password: "pw"}
	for _, tt := range []struct {
		o          *server.MetricsOptions
		path, host string
		login      func(*http.Request)
		want       int
		keys       bool
	}{
		{nil, "/metrics", "127.0.0.1:9121", nil, 200, false},
		{nil, "/metrics", "[::1]:9121", nil, 200, false},
		{nil, "/metrics", "[::1]", nil, 200, false},
		{nil, "/metrics", "LocalHost.:9121", nil, 200, false},
		{nil, "/metrics", "", nil, 200, false},
		{nil, "/metrics", "evil.example:9121", nil, 403, false},
		{nil, "/metrics", "localhost.evil.example", nil, 403, false},
		{nil, "/readyz", "evil.example", nil, 403, false},
		{&server.MetricsOptions{Hosts: []string{"db.example"}}, "/metrics", "DB.example:9121", nil, 200, false},
		{&server.MetricsOptions{Keys: true}, "/metrics", "localhost", nil, 200, true},
		{secret, "/metrics", "localhost", nil, 401, false},
		{secret, "/metrics", "evil.example", func(r *http.Request) { r.SetBasicAuth("any", "pw") }, 403, false},
		{secret, "/metrics", "localhost", func(r *http.Request) { r.SetBasicAuth("any", "wrong") }, 401, false},
		{secret, "/metrics", "localhost", func(r *http.Request) { r.SetBasicAuth("any", "pw") }, 200, true},
		{secret, "/metrics", "localhost", func(r *http.Request) { r.Header.Set("Authorization", "Bearer pw") }, 200, true},
		{secret, "/metrics", "localhost", func(r *http.Request) { r.Header.Set("Authorization", "Bearer p") }, 401, false},
		{secret, "/metrics", "localhost", func(r *http.Request) { r.Header.Set("Authorization", "pw") }, 401, false},
		{secret, "/healthz", "localhost", nil, 200, false},
	} {
		r := httptest.NewRequest("GET", tt.path, nil)
		if r.Host = tt.host; tt.login != nil {
			tt.login(r)
		}
		got := httptest.NewRecorder()
		w.server.MetricsHandler(tt.o).ServeHTTP(got, r)
		if keys := strings.Contains(got.Body.String(), "secret-key"); got.Code != tt.want || keys != tt.keys {
			t.Errorf("%+v: %s of %q with %q: %d, keys %v, want %d, %v", tt.o, tt.path, tt.host, r.Header, got.Code, keys, tt.want, tt.keys)
		}
	}
	if got := w.client().info("stats", "acl_access_denied_auth"); got != "3" {
		t.Errorf("%s wrong passwords are counted, want 3", got)
	}
}

// Requests for metrics are spaced out, whatever they ask for.
func TestMetrics_pace(t *testing.T) {
	w := serve(t, server.Options{}.WithTimes(long, long, long).WithMetricsEvery(long))
	h := w.server.MetricsHandler(nil)
	for i, tt := range []struct {
		path string
		want int
	}{{"/metrics", 200}, {"/metrics", 503}, {"/healthz", 503}, {"/nosuch", 503}} {
		got := httptest.NewRecorder()
		r := httptest.NewRequest("GET", tt.path, nil)
		if i > 0 {
			ended, end := context.WithCancel(t.Context())
			end()
			r = r.WithContext(ended) // waits no longer than that
		}
		r.Host = "localhost"
		h.ServeHTTP(got, r)
		if got.Code != tt.want {
			t.Errorf("request %d, of %s: %d, want %d", i, tt.path, got.Code, tt.want)
		}
	}
}

// scraper asks for metrics from its own address.
type scraper struct {
	t    *testing.T
	conn *wire.Conn
	in   *bufio.Reader
}

// scrapers serves the metrics, and returns a function that makes scrapers.
func scrapers(w *world, o *server.MetricsOptions) (connect func(ip string) *scraper) {
	w.t.Helper()
	pipes := wire.NewListener()
	h := &http.Server{Handler: w.server.MetricsHandler(o), ConnContext: w.server.MetricsConnContext}
	ended := make(chan error)
	go func() { ended <- h.Serve(w.server.MetricsListener(pipes)) }()
	w.t.Cleanup(func() {
		_ = h.Close() // the error does not matter
		<-ended
	})
	return func(ip string) *scraper {
		w.t.Helper()
		c, err := pipes.Dial(&net.TCPAddr{IP: net.ParseIP(ip), Port: 1})
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { _ = c.Close() })
		return &scraper{w.t, c, bufio.NewReader(c.Conn)}
	}
}

func (s *scraper) send(password string) {
	s.t.Helper()
	if err := s.conn.Send(fmt.Sprintf("GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", password)); err != nil {
		s.t.Fatal(err)
	}
}

// answer returns the status of the answer, and whether the connection ends with it.
func (s *scraper) answer() (code int, ends bool) {
	s.t.Helper()
	r, err := http.ReadResponse(s.in, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		s.t.Fatal(err)
	}
	if r.Close {
		if _, err := s.in.ReadByte(); err == nil {
			s.t.Error("something follows the last answer")
		}
	}
	return r.StatusCode, r.Close
}

func (s *scraper) wants(password string, code int) {
	s.t.Helper()
	s.send(password)
	if got, _ := s.answer(); got != code {
		s.t.Errorf("the password %s is answered with %d, want %d", password, got, code)
	}
}

// Answers to passwords for the metrics are delayed as for AUTH, by address. Few requests wait at a time, so that other
// clients have connections. The answer to a wrong password ends its connection.
func TestMetrics_guesses(t *testing.T) {
	w := serve(t, server.Options{Password: "secret"}.WithTimes(long, long, long).WithGuesses(long, long))
	const places = 4
	w.server.HaveRoom(10, 1, places)
	connect := scrapers(w, &server.MetricsOptions{Password: "pw"})
	good := connect("192.0.2.2")
	good.wants("pw", 200)
	for range server.FreeGuesses {
		c := connect("192.0.2.1")
		c.send("wrong")
		if code, ends := c.answer(); code != 401 || !ends {
			t.Fatalf("a wrong password is answered with %d, the connection ends: %v", code, ends)
		}
	}
	waits := func(n int) func() bool { return func() bool { return w.server.MetricsDelayed() == n } }
	// An attacker has all the places that it can get.
	var waiting []*scraper
	for i := range places / 2 {
		c := connect("192.0.2.1")
		c.send("wrong")
		eventually(t, "it waits", waits(i+1))
		waiting = append(waiting, c)
	}
	for _, password := range []string{"wrong", "pw"} { // right and wrong ones wait alike
		c := connect("192.0.2.1")
		c.send(password)
		if code, ends := c.answer(); code != 429 || !ends {
			t.Fatalf("with all places taken the password %s is answered with %d, the connection ends: %v", password, code, ends)
		}
	}
	good.wants("pw", 200)
	connect("192.0.2.3").wants("wrong", 401)
	if got := w.server.MetricsDelayed(); got != places/2 {
		t.Errorf("%d wait, want %d", got, places/2)
	}
	// A client that is gone holds no place; right passwords wait too; passwords of AUTH do not.
	for i, c := range waiting {
		_ = c.conn.Close()
		eventually(t, "it has gone", waits(places/2-1-i))
	}
	connect("192.0.2.1").send("pw")
	eventually(t, "a right one waits", waits(1))
	w.clientFrom(&net.TCPAddr{IP: net.ParseIP("192.0.2.1"), Port: 1}).answers("AUTH secret => +OK")
}

// Delayed answers are the same as undelayed ones, and a right password ends the delays.
func TestMetrics_guessesEnd(t *testing.T) {
	w := serve(t, server.Options{}.WithTimes(long, long, long).WithGuesses(soon, soon))
	connect := scrapers(w, &server.MetricsOptions{Password: "pw"})
	for range server.FreeGuesses + 1 {
		connect("192.0.2.1").wants("wrong", 401)
	}
	if got := w.server.MetricsGuesses(); got != server.FreeGuesses+1 {
		t.Errorf("%d wrong passwords are remembered, want %d", got, server.FreeGuesses+1)
	}
	c := connect("192.0.2.1")
	c.wants("pw", 200)
	if got := w.server.MetricsGuesses(); got != 0 {
		t.Errorf("after a right one %d wrong passwords are remembered", got)
	}
	c.wants("pw", 200)
	if !strings.Contains(w.log.String(), "sievekv: wrong password for metrics") {
		t.Errorf("logged is\n%s", w.log)
	}
}

// Shutdown does not wait for a delayed answer.
func TestMetrics_guessesShutdown(t *testing.T) {
	w := serve(t, server.Options{}.WithTimes(long, long, long).WithGuesses(long, long))
	connect := scrapers(w, &server.MetricsOptions{Password: "pw"})
	for range server.FreeGuesses {
		connect("192.0.2.1").wants("wrong", 401)
	}
	c := connect("192.0.2.1")
	c.send("pw")
	eventually(t, "it waits", func() bool { return w.server.MetricsDelayed() == 1 })
	w.shutdown()
	if code, _ := c.answer(); code != 503 {
		t.Errorf("at the end the answer is %d, want 503", code)
	}
}

// When all places for metrics are taken, the connection that has been idle for longest makes room for a new one: it
// may be silent, have sent half a request, or have its answer. A connection whose request is being answered stays.
func TestMetrics_idle(t *testing.T) {
	w := serve(t, server.Options{}.WithTimes(long, long, long).WithGuesses(long, long).WithStrangers(1, 0))
	w.server.HaveRoom(10, 1, 3)
	connect := scrapers(w, &server.MetricsOptions{Password: "pw"})
	wantClosed := func(what string, s *scraper) {
		t.Helper()
		if b, err := s.in.ReadByte(); err == nil {
			t.Errorf("%s is sent %q, want an end", what, b)
		}
	}
	for range server.FreeGuesses {
		connect("192.0.2.1").wants("wrong", 401)
	}
	busy := connect("192.0.2.1")
	busy.send("wrong") // the answer takes long
	eventually(t, "it waits", func() bool { return w.server.MetricsDelayed() == 1 })
	silent, other := connect("192.0.2.2"), connect("192.0.2.2")
	half := connect("192.0.2.3")
	if err := half.conn.Send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n"); err != nil { // which is read once it is let in
		t.Fatal(err)
	}
	other.wants("pw", 200) // and comes behind half then
	wantClosed("a connection that is silent", silent)
	good := connect("192.0.2.4")
	good.wants("pw", 200)
	wantClosed("a connection with half a request", half)
	other.wants("pw", 200)
	connect("192.0.2.5").wants("pw", 200)
	wantClosed("a connection that was answered", good)
	if got := w.server.MetricsDelayed(); got != 1 {
		t.Errorf("%d requests wait for their answer, want the first", got)
	}
	connect("192.0.2.6").wants("pw", 200)
	_ = busy.conn.Close()
}

// A connection that has received metrics is not closed to make room, unless more than half have.
func TestMetrics_idleKnown(t *testing.T) {
	w := serve(t, server.Options{}.WithTimes(long, long, long).WithGuesses(long, long).WithStrangers(1, 0))
	w.server.HaveRoom(10, 1, 4)
	connect := scrapers(w, &server.MetricsOptions{Password: "pw"})
	for range server.FreeGuesses {
		connect("192.0.2.1").wants("wrong", 401)
	}
	other, good := connect("192.0.2.2"), connect("192.0.2.2")
	other.wants("pw", 200)
	good.wants("pw", 200)
	for range 10 { // they have been idle for longer, each time
		half := connect("192.0.2.3")
		if err := half.conn.Send("GET /metrics HTTP/1.1\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	other.wants("pw", 200)
	good.wants("pw", 200)
	// So it is while the others have requests: a new connection waits for one of them.
	var busy []*scraper
	for i := range 2 {
		busy = append(busy, connect("192.0.2.1"))
		busy[i].send("wrong") // the answer takes long
		eventually(t, "it waits", func() bool { return w.server.MetricsDelayed() == i+1 })
	}
	second := connect("192.0.2.4")
	for range 3 {
		other.wants("pw", 200)
		good.wants("pw", 200)
	}
	_ = busy[0].conn.Close()
	second.wants("pw", 200)
	// Now they are more than half, and the one that has been idle for longest makes room.
	connect("192.0.2.5").wants("pw", 200)
	good.wants("pw", 200)
	if b, err := other.in.ReadByte(); err == nil {
		t.Errorf("the oldest of three is sent %q, want an end", b)
	}
}

// A connection for metrics has some time for its request before it makes room. Until then others wait, or until one
// ends.
func TestMetrics_idleGrace(t *testing.T) {
	w := serve(t, server.Options{}.WithTimes(long, long, long).WithStrangers(1, long))
	w.server.HaveRoom(10, 1, 2)
	connect := scrapers(w, nil)
	first, second, third := connect("192.0.2.1"), connect("192.0.2.2"), connect("192.0.2.3")
	for range 3 {
		first.wants("", 200)
		second.wants("", 200)
	}
	_ = first.conn.Close()
	third.wants("", 200)
	second.wants("", 200)
}
