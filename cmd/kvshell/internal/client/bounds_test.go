package client

import (
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/cmdline"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
)

// serveBytes listens, and has each connection served by a function. It keeps them open until the test ends.
func serveBytes(t *testing.T, serve func(net.Conn)) *Address {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	end := make(chan struct{})
	t.Cleanup(func() {
		_ = l.Close()
		close(end)
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				serve(c)
				<-end
				_ = c.Close()
			}()
		}
	}()
	return &Address{network: "tcp", Endpoint: l.Addr().String(), protocol: 2}
}

func newClient(t *testing.T, a *Address) *Client {
	c := New(a, nil, io.Discard)
	t.Cleanup(func() { c.Close(nil) })
	return c
}

// A server that says nothing, or takes nothing, is given up.
func TestClient_silent(t *testing.T) {
	const silence = 20 * time.Millisecond
	const want = "the server has said nothing for 20ms; whether the command was carried out is not known"
	a := serveBytes(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }).Bounded(silence, 0)
	if _, err := newClient(t, a).Do(t.Context(), cmdline.Words("GET", "k")); err == nil || !strings.HasSuffix(err.Error(), want) || exit.Code(err) != exit.Open {
		t.Errorf("Do: %v", err)
	}
	c := newClient(t, a)
	if err := errors.Join(c.Open(t.Context()), c.Send(t.Context(), cmdline.Words("GET", "k"))); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Receive(t.Context()); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("Receive: %v", err)
	}
	a = serveBytes(t, func(net.Conn) {}).Bounded(silence, 0)
	c = newClient(t, a)
	if err := c.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.conn.Conn.(*net.TCPConn).SetWriteBuffer(1 << 10)
	err := c.conn.write(make([]byte, 64<<20))
	if err == nil || connectionError(err).Error() != "no answer in time" {
		t.Errorf("a server takes nothing: %v", err)
	}
}

// Replies that nobody has asked for take little memory, and none is lost.
func TestClient_heldReplies(t *testing.T) {
	const replies, long = 40, 1 << 20
	a := serveBytes(t, func(c net.Conn) {
		for range replies {
			_, _ = io.WriteString(c, "$1048576\r\n"+strings.Repeat("a", long)+"\r\n")
		}
	})
	c := newClient(t, a)
	if err := c.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	for c.conn.held.Load() < heldReplies {
		runtime.Gosched()
	}
	for n := range replies {
		if held := c.conn.held.Load(); held > heldReplies+2*long {
			t.Errorf("%d bytes are held", held)
		}
		if r, err := c.Receive(t.Context()); err != nil || len(r.Bytes()) != long {
			t.Fatalf("reply %d: %d bytes, %v", n, len(r.Bytes()), err)
		}
	}
}

// A reply that is larger than a reply may be ends the connection before there is room for it.
func TestClient_largeReply(t *testing.T) {
	for head, want := range map[string]string{
		"$536870913\r\n": "Protocol error, a string of 536870913 bytes, at most 536870912;",
		"$1000000\r\n":   "the reply takes more than 1000 bytes of memory: ask for less at a time;",
	} {
		a := serveBytes(t, func(c net.Conn) { _, _ = io.WriteString(c, head) }).Bounded(0, 1000)
		if _, err := newClient(t, a).Do(t.Context(), cmdline.Words("GET", "k")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", head, err)
		}
	}
}
