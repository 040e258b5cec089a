package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/server"
)

// BenchmarkCommands sends commands in pipelines of 64 over a socket to a store in memory. An operation is a command.
func BenchmarkCommands(b *testing.B) {
	const items = 10_000_000
	words := strings.Repeat(" w", 64)
	for _, bench := range []struct{ name, setUp, command string }{
		{"PING", "PING", "PING"},
		{"SET", "PING", "SET k v"},
		{"GET", "SET k v", "GET k"},
		{"EXISTS/2", "SET k v", "EXISTS k k"},
		{"MGET/2", "SET k v", "MGET k k"},
		{"BF.ADD/new", "BF.RESERVE f 0.01 10000000", "BF.ADD f %d"},
		{"BF.ADD/known", "BF.ADD f a", "BF.ADD f a"},
		{"BF.EXISTS", "BF.ADD f a", "BF.EXISTS f a"},
		{"BF.MEXISTS/1", "BF.ADD f a", "BF.MEXISTS f a"},
		{"BF.MADD/64known", "BF.MADD f" + words, "BF.MADD f" + words},
		{"CF.ADD/new", "CF.RESERVE f 10000000", "CF.ADD f %d"},
		{"CF.EXISTS", "CF.ADD f a", "CF.EXISTS f a"},
		{"CBF.ADD/new", "CBF.RESERVE f 0.01 10000000", "CBF.ADD f %d"},
		{"CBF.EXISTS", "CBF.ADD f a", "CBF.EXISTS f a"},
	} {
		b.Run(bench.name, func(b *testing.B) {
			c := benchClient(b)
			c.run(b, bench.setUp, 1, 0)
			n := 0
			for b.Loop() {
				if n%64 == 0 {
					c.run(b, bench.command, 64, n%items)
				}
				n++
			}
		})
	}
}

// pipelineClient is a client that reads no more of replies than it must.
type pipelineClient struct {
	net.Conn
	replies *bufio.Reader
	sent    []byte
}

// benchClient returns a client of a new server, both until the benchmark ends.
func benchClient(b *testing.B) *pipelineClient {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	db, err := sievekv.Open("", &sievekv.Options{InMemory: true, Seed: 1, Durability: kv.NoSync, Logger: quiet, Modules: module.New(server.Module())})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	s, err := server.New(db.Store(), nil)
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(b.TempDir(), "s"))
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()
	b.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	return &pipelineClient{Conn: c, replies: bufio.NewReaderSize(c, 64<<10)}
}

// run sends a command several times, with numbers from first on in the place of %d, and reads the replies.
func (c *pipelineClient) run(b *testing.B, command string, times, first int) {
	c.sent = c.sent[:0]
	for i := range times {
		line := command
		if strings.Contains(command, "%d") {
			line = fmt.Sprintf(command, first+i)
		}
		words := strings.Fields(line)
		c.sent = fmt.Appendf(c.sent, "*%d\r\n", len(words))
		for _, word := range words {
			c.sent = fmt.Appendf(c.sent, "$%d\r\n%s\r\n", len(word), word)
		}
	}
	if _, err := c.Write(c.sent); err != nil {
		b.Fatal(err)
	}
	for range times {
		c.reply(b)
	}
}

// reply reads a reply, which is no error.
func (c *pipelineClient) reply(b *testing.B) {
	line, err := c.replies.ReadString('\n')
	if err != nil || line[0] == '-' {
		b.Fatalf("reply %q, %v", line, err)
	}
	n := 0
	switch fmt.Sscan(line[1:], &n); line[0] {
	case '*':
		for range n {
			c.reply(b)
		}
	case '$':
		if _, err := c.replies.Discard(n + 2); err != nil {
			b.Fatal(err)
		}
	}
}
