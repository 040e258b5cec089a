package server_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/coreext"
	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/server"
	"github.com/sievekv/sievekv/tests/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a store with a server. Clients connect within the process unless a test listens elsewhere.
type world struct {
	t      *testing.T
	db     *sievekv.DB
	server *server.Server
	pipes  *wire.Listener
	log    *logged
	serves sync.WaitGroup
}

// serve serves a new store in memory until the test ends.
func serve(t *testing.T, o *server.Options) *world {
	t.Helper()
	return serveStore(t, kv.Options{InMemory: true, Seed: 1}, o)
}

func serveStore(t *testing.T, store kv.Options, o *server.Options) *world {
	t.Helper()
	w := &world{t: t, pipes: wire.NewListener(), log: &logged{}}
	if o == nil { // clients have all the time there is
		o = server.Options{}.WithTimes(long, long, long)
	}
	store.Logger = slog.New(slog.NewTextHandler(w.log, nil))
	store.Modules = coreext.Add(store.Modules, server.Module())
	var err error
	if w.db, err = sievekv.Open("store", &store); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.db.Close() }) // a test may have closed it, or made it fail
	if w.server, err = server.New(w.db.Store(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.shutdown)
	w.listen(w.pipes)
	return w
}

// listen also serves the clients of a listener.
func (w *world) listen(l net.Listener) {
	w.serves.Go(func() {
		if err := w.server.Serve(l); !errors.Is(err, server.ErrServerClosed) {
			w.t.Errorf("Serve = %v", err)
		}
	})
}

// listenTLS serves the clients of a listener with TLS.
func (w *world) listenTLS(l net.Listener, config *tls.Config) {
	w.serves.Go(func() {
		if err := w.server.ServeTLS(l, config); !errors.Is(err, server.ErrServerClosed) {
			w.t.Errorf("ServeTLS = %v", err)
		}
	})
}

// shutdown ends the server, and waits until it has.
func (w *world) shutdown() {
	if err := w.server.Shutdown(context.Background()); err != nil && w.db.Health() == nil {
		w.t.Errorf("Shutdown = %v", err)
	}
	w.serves.Wait()
	if held, strangers := w.server.Held(), w.server.HeldByStrangers(); held != 0 || strangers != 0 {
		w.t.Errorf("%d bytes are held by connections that have ended, %d by strangers", held, strangers)
	}
	if n := w.server.Strangers(); n != 0 {
		w.t.Errorf("%d strangers are left", n)
	}
}

// set changes settings, given as names and values in turn.
func (w *world) set(pairs ...string) {
	w.t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if err := module.Of(w.db.Store()).SetSetting(pairs[i], pairs[i+1]); err != nil {
			w.t.Fatal(err)
		}
	}
}

// client is a client that fails the test when a reply is not the expected one.
type client struct {
	*wire.Conn
	t *testing.T
}

func (w *world) client() *client {
	w.t.Helper()
	return w.clientFrom(nil)
}

// clientFrom returns a client with its own address; nil means the address of a pipe.
func (w *world) clientFrom(from net.Addr) *client {
	w.t.Helper()
	c, err := w.pipes.Dial(from)
	return w.own(c, err)
}

func (w *world) dial(l net.Listener) *client {
	w.t.Helper()
	c, err := wire.Dial(l.Addr().Network(), l.Addr().String())
	return w.own(c, err)
}

func (w *world) own(c *wire.Conn, err error) *client {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	return &client{c, w.t}
}

func (c *client) send(text string) {
	c.t.Helper()
	if err := c.Send(text); err != nil {
		c.t.Fatal(err)
	}
}

// want reads a reply for each expected one, in the notation of package wire.
func (c *client) want(replies ...string) {
	c.t.Helper()
	for _, want := range replies {
		got, err := c.Reply()
		if err != nil {
			c.t.Fatalf("%v in place of %s", err, want)
		}
		if !like(got, want) {
			c.t.Errorf("got %s\nwant %s", got, want)
		}
	}
}

// like compares text with a pattern in which ... stands for anything.
func like(got, want string) bool {
	parts := strings.Split(want, "...")
	rest, ok := strings.CutPrefix(got, parts[0])
	for _, part := range parts[1:] {
		var found bool
		_, rest, found = strings.Cut(rest, part)
		ok = ok && found
	}
	return ok && (rest == "" || len(parts) > 1 && strings.HasSuffix(got, parts[len(parts)-1]))
}

// do sends a line of words as a client does, and returns the reply.
func (c *client) do(line string) string {
	c.t.Helper()
	got, err := c.Do(strings.Fields(line)...)
	if err != nil {
		c.t.Fatalf("%s: %v", line, err)
	}
	return got
}

// answers runs a script of lines such as "GET k => $-1".
func (c *client) answers(script string) {
	c.t.Helper()
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		command, want, ok := strings.Cut(line, " => ")
		if line == "" {
			continue
		}
		if !ok {
			c.t.Fatalf("%s: no =>", line)
		}
		if got := c.do(command); !like(got, want) {
			c.t.Errorf("%s\n got %s\nwant %s", command, got, want)
		}
	}
}

// ended waits until the server has closed the connection, and fails if the server sends anything before.
func (c *client) ended() {
	c.t.Helper()
	rest, err := c.Rest()
	if rest != "" || err != nil && !errors.Is(err, io.ErrClosedPipe) {
		c.t.Errorf("%q, %v in place of the connection's end", rest, err)
	}
}

// info returns the value of a field of INFO.
func (c *client) info(section, field string) string {
	c.t.Helper()
	_, rest, ok := strings.Cut(c.do("INFO "+section), field+":")
	if !ok {
		c.t.Fatalf("INFO %s has no %s", section, field)
	}
	value, _, _ := strings.Cut(rest, `\r\n`)
	return value
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for !holds() { // as long as the test may take
		time.Sleep(time.Millisecond)
	}
}

// logged keeps what the server logs.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func listenTCP(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// commandOf returns a command of words with any bytes.
func commandOf(words ...string) string { return wire.Command(words...) }

// pipeline returns the bytes of commands given as lines.
func pipeline(lines ...string) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(commandOf(strings.Fields(line)...))
	}
	return b.String()
}

func numbered(format string, n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf(format, i)
	}
	return lines
}
