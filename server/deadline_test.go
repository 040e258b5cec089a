package server

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
)

// Bytes that keep coming do not stop the clock: one more byte adds no more time than it takes at the lowest rate.
func TestReadDeadline(t *testing.T) {
	db, err := kv.Open("", &kv.Options{InMemory: true, Modules: coreext.With(Module())})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	s, err := New(db, &Options{Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	defer func() { _ = theirs.Close() }() // of net.Pipe, never fails
	c := newConn(s, ours)
	defer c.kill()
	receive := func(text string) {
		t.Helper()
		go func() { _, _ = theirs.Write([]byte(text)) }() // Fill below has it, or fails
		if n, err := c.in.Fill(ours); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
	}
	began := time.Now()
	login := c.strangerSince.Add(s.limits.login)
	for i := range 3 {
		c.spoke = true
		if got := c.readDeadline(began.Add(time.Duration(i) * time.Second)); !got.Equal(login) {
			t.Errorf("a stranger that has sent %d bytes has until %v, want %v", i, got, login)
		}
		receive("*")
	}

	c.in, c.authenticated, c.partialSince = newConn(s, ours).in, true, time.Time{}
	c.in.SetLimits(c.commandLimits())
	receive("*1\r\n$1000\r\n")
	first := c.readDeadline(began)
	if want := began.Add(s.limits.half); first.Before(want) || first.After(want.Add(time.Second)) {
		t.Errorf("a command has until %v, want %v", first, want)
	}
	receive(strings.Repeat("a", 10))
	second := c.readDeadline(began.Add(s.limits.half / 2))
	if more := second.Sub(first); more > time.Millisecond {
		t.Errorf("10 bytes put the end off by %v", more)
	}
}
