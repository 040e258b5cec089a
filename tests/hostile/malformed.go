package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/server"
	"github.com/sievekv/sievekv/tests/wire"
)

// wellFormed are commands from which malformed ones are made. None of them writes: memory of a store's content would be
// no leak.
var wellFormed = []string{
	wire.Command("PING"), wire.Command("GET", "k"), wire.Command("BF.EXISTS", "f", "item"), wire.Command("MGET", "a", "b", "c"),
	wire.Command("HELLO", "3", "AUTH", "default", "x", "SETNAME", "n"), wire.Command("AUTH", "x"), wire.Command("MULTI") + wire.Command("GET", "k") + wire.Command("EXEC"),
	wire.Command("WATCH", "k"), wire.Command("CLIENT", "SETNAME", "n"), wire.Command("CF.MEXISTS", "f", "", "\x00\r\n"),
	"PING\r\n", "GET \"k\\x00\" 'l'\r\n", "*0\r\n", "\r\n",
}

// parts are what is put into malformed commands.
var parts = []string{
	"*", "$", "\r\n", "\r", "\n", "-1", "0", "00", "+1", "-", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "536870912",
	"2147483648", "1048577", "*1\r\n", "$0\r\n\r\n", "*-1\r\n", "%1\r\n", ">1\r\n", "|1\r\n", "_\r\n", "#t\r\n", "(1\r\n", "=4\r\ntxt:\r\n", "\x00", "\xff", "\"", "'", "\\x",
	" ", "\x16\x03\x01", "POST / HTTP/1.1\r\n", strings.Repeat("*1\r\n", 100), strings.Repeat("a", 1000),
}

// malformedCommand makes one: of a well-formed command, in which something is lost, doubled or put in.
func malformedCommand(random *rand.Rand) string {
	b := []byte(wellFormed[random.IntN(len(wellFormed))])
	for range 1 + random.IntN(4) {
		at := random.IntN(len(b) + 1)
		to := min(at+random.IntN(8), len(b))
		switch random.IntN(5) {
		case 0:
			b = append(b[:at:at], b[to:]...)
		case 1:
			b = append(b[:to:to], b[at:]...)
		case 2:
			part := parts[random.IntN(len(parts))]
			b = append(b[:at:at], append([]byte(part), b[at:]...)...)
		case 3:
			if at < len(b) {
				b[at] = byte(random.Uint32())
			}
		default:
			b = b[:at]
		}
	}
	return string(b)
}

// input is a connection from which there is something to read, and then nothing.
type input struct {
	bytes.Reader
	replies int // bytes
}

func (c *input) Write(p []byte) (int, error) {
	c.replies += len(p)
	return len(p), nil
}

func (*input) Close() error                     { return nil }
func (*input) LocalAddr() net.Addr              { return here{} }
func (*input) RemoteAddr() net.Addr             { return here{} }
func (*input) SetDeadline(time.Time) error      { return nil }
func (*input) SetReadDeadline(time.Time) error  { return nil }
func (*input) SetWriteDeadline(time.Time) error { return nil }

type here struct{}

func (here) Network() string { return "input" }
func (here) String() string  { return "input" }

// runMalformed gives a server in this process malformed commands, each on a connection of its own.
func runMalformed(n int, seed uint64, out io.Writer) (err error) {
	db, err := sievekv.Open("", &sievekv.Options{
		InMemory: true, CacheSize: mib, MemTableSize: mib, Logger: slog.New(slog.DiscardHandler), Modules: coreext.With(server.Module()),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	s, err := server.New(db.Store(), nil)
	if err != nil {
		return err
	}
	// What the first ones make, they make once.
	give(s, max(n/100, 100), seed)
	goroutines, heap := runtime.NumGoroutine(), inUse()
	began := time.Now()
	replies := give(s, n, seed+1)
	took := time.Since(began)
	grown := inUse() - heap
	fmt.Fprintf(out, "malformed commands: %d, in %v, answered with %d bytes\n", n, took.Round(time.Millisecond), replies)
	fmt.Fprintf(out, "goroutines: %d before, %d after\nheap: %d KiB before, %+d KiB since\n", goroutines, runtime.NumGoroutine(), heap>>10, grown>>10)
	// Those of the store come and go: what stays is a leak.
	for waited := time.Duration(0); runtime.NumGoroutine() > goroutines; waited += time.Millisecond {
		if waited > 10*time.Minute {
			return fmt.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), goroutines)
		}
		time.Sleep(time.Millisecond)
	}
	const most = 4 * mib
	if grown > most {
		return fmt.Errorf("the heap has grown by %d bytes, more than %d", grown, most)
	}
	// It is as it was for others.
	ours, theirs := net.Pipe()
	go s.ServeConn(theirs)
	c := wire.New(ours)
	defer func() { _ = c.Close() }() // its reply is there
	if got, err := c.Do("PING"); got != "+PONG" || err != nil {
		return fmt.Errorf("afterwards PING is answered with %s, %v, want +PONG", got, err)
	}
	return nil
}

// give gives a server n malformed commands, and returns the bytes of the replies.
func give(s *server.Server, n int, seed uint64) int64 {
	var replies, given atomic.Int64
	var group sync.WaitGroup
	for worker := range runtime.GOMAXPROCS(0) {
		random := rand.New(rand.NewPCG(seed, uint64(worker)))
		group.Go(func() {
			for given.Add(1) <= int64(n) {
				var c input
				c.Reset([]byte(malformedCommand(random)))
				s.ServeConn(&c)
				replies.Add(int64(c.replies))
			}
		})
	}
	group.Wait()
	return replies.Load()
}

// inUse returns the bytes of the heap that are in use.
func inUse() int64 {
	runtime.GC()
	runtime.GC() // what pools hold stays for one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
