package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/server"
	"github.com/sievekv/sievekv/tests/wire"
)

// served is this side as a server, in this process, at a socket.
type served struct {
	db     *sievekv.DB
	server *server.Server
	dir    string
	socket string
}

func serveHere() (*served, error) {
	dir, err := os.MkdirTemp("", "sievekv")
	if err != nil {
		return nil, err
	}
	s := &served{dir: dir, socket: filepath.Join(dir, "socket")}
	s.db, err = sievekv.Open("", &sievekv.Options{
		InMemory: true, Durability: kv.NoSync, Logger: slog.New(slog.DiscardHandler), Modules: coreext.With(server.Module()),
	})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s.server, err = server.New(s.db.Store(), nil)
	if err != nil {
		return nil, errors.Join(err, s.db.Close(), os.RemoveAll(dir))
	}
	l, err := net.Listen("unix", s.socket)
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	go func() { _ = s.server.Serve(l) }() // ends with the server
	return s, nil
}

func (s *served) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // when a test is given up, too
	defer cancel()
	return errors.Join(s.server.Shutdown(ctx), s.db.Close(), os.RemoveAll(s.dir))
}

// exchange sends commands at once, and returns their replies, the connection's end being the last.
type exchange struct {
	shown []string
	elems [][]string // of those that have some
}

func talk(c *wire.Conn, commands [][]string) (x exchange, err error) {
	var b strings.Builder
	for _, words := range commands {
		b.WriteString(wire.Command(words...))
	}
	sent := make(chan error, 1)
	go func() { sent <- c.Send(b.String()) }()
	for range commands {
		shown, err := c.Reply()
		if err != nil {
			return x, err
		}
		x.shown, x.elems = append(x.shown, shown), append(x.elems, c.Elems())
	}
	return x, <-sent
}

// comparison is the two sides in a protocol.
type comparison struct {
	protocol   int
	real, ours *wire.Conn
}

func newComparison(real *realRedis, ours *served, protocol int) (*comparison, error) {
	x := &comparison{protocol: protocol}
	var err error
	if x.real, err = wire.Dial("unix", real.socket); err != nil {
		return nil, err
	}
	if x.ours, err = wire.Dial("unix", ours.socket); err != nil {
		return nil, errors.Join(err, x.real.Close())
	}
	for _, c := range []*wire.Conn{x.real, x.ours} {
		if _, err := c.Do("HELLO", strconv.Itoa(protocol)); err != nil {
			return nil, errors.Join(err, x.close())
		}
	}
	return x, nil
}

func (x *comparison) close() error { return errors.Join(x.real.Close(), x.ours.Close()) }

// compareWire is compare over sockets, in bytes, in both protocols.
func compareWire(sequences, length int, seed uint64, show int) (differing int, err error) {
	real, err := startRedis()
	if err != nil {
		return 0, err
	}
	defer real.stop()
	ours, err := serveHere()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, ours.stop()) }()
	var sides []*comparison
	for _, protocol := range []int{2, 3} {
		x, err := newComparison(real, ours, protocol)
		if err != nil {
			return 0, err
		}
		defer func() { _ = x.close() }() // both ends have ended by then
		sides = append(sides, x)
	}
	random := rand.New(rand.NewPCG(seed, 0))
	for n := range sequences {
		if n%fresh == 0 {
			if _, _, err := sides[0].both([][]string{{"DISCARD"}, {"UNWATCH"}, {"FLUSHALL"}}); err != nil {
				return differing, err
			}
		}
		x := sides[n%len(sides)]
		g := generator{random: random, prefix: "s" + strconv.Itoa(n) + ":"}
		sequence := make([][]string, length)
		for i := range sequence {
			sequence[i] = g.command()
		}
		at, err := x.differsAgain(&g, sequence)
		if err != nil {
			return differing, err
		}
		if at < 0 {
			continue
		}
		differing++
		if differing <= show {
			if err := x.explain(&g, sequence[:at+1]); err != nil {
				return differing, err
			}
		}
	}
	return differing, nil
}

// both runs commands on both sides.
func (x *comparison) both(commands [][]string) (got, want exchange, err error) {
	if want, err = talk(x.real, commands); err != nil {
		return got, want, fmt.Errorf("redis-server: %w", err)
	}
	here := make([][]string, len(commands))
	for i, words := range commands {
		here[i] = words
		if words[0] == "SADD" {
			here[i] = append([]string{"BF.ADD"}, words[1:]...) // the one type that is no string
		}
	}
	if got, err = talk(x.ours, here); err != nil {
		return got, want, fmt.Errorf("here: %w", err)
	}
	return got, want, nil
}

// end is what ends what a sequence before has left open.
var end = [][]string{{"DISCARD"}, {"UNWATCH"}}

// difference returns the place of the first command whose replies differ, -1 for none.
func (x *comparison) difference(sequence [][]string) (int, error) {
	got, want, err := x.both(append(slices.Clone(end), sequence...))
	if err != nil {
		return 0, err
	}
	var queued [][]string
	for i, words := range sequence {
		j := i + len(end)
		switch {
		case !x.same(words, queued, got, want, j):
			return i, nil
		case strings.EqualFold(words[0], "MULTI"):
			if want.shown[j] == "+OK" {
				queued = nil
			}
		case want.shown[j] == "+QUEUED":
			queued = append(queued, words)
		}
	}
	return -1, nil
}

// differsAgain is difference, which has to come up in three runs, as times pass.
func (x *comparison) differsAgain(g *generator, sequence [][]string) (at int, err error) {
	for range 3 {
		if at, err = x.difference(g.renamed(sequence)); at < 0 || err != nil {
			break
		}
	}
	return at, err
}

// same compares the replies to command j, those in EXEC's one by one.
func (x *comparison) same(words []string, queued [][]string, got, want exchange, j int) bool {
	a, b := got.shown[j], want.shown[j]
	if a == b {
		return true
	}
	inside, there := got.elems[j], want.elems[j]
	if strings.EqualFold(words[0], "EXEC") && len(inside) == len(queued) && len(there) == len(queued) {
		for i, words := range queued {
			if !x.sameReply(words, inside[i], there[i]) {
				return false
			}
		}
		return true
	}
	if strings.EqualFold(words[0], "KEYS") && len(inside) == len(there) {
		slices.Sort(inside)
		slices.Sort(there)
		return slices.Equal(inside, there)
	}
	return x.sameReply(words, a, b)
}

// sameReply compares two replies to a command: times with some tolerance, and what a filter is in the place of a set.
func (x *comparison) sameReply(words []string, got, want string) bool {
	name := strings.ToUpper(words[0])
	switch {
	case got == want:
		return true
	case name == "SADD" && x.protocol == 3:
		return got == "#t" && want == ":1" || got == "#f" && want == ":0"
	case name == "TYPE":
		return got == "+MBbloom--" && want == "+set"
	case name == "COPY":
		return got == "-ERR DB index is out of range" // Redis has 16 databases
	case name == "KEYS": // within EXEC
		a, b := strings.Fields(strings.Trim(got, "[]")), strings.Fields(strings.Trim(want, "[]"))
		slices.Sort(a)
		slices.Sort(b)
		return slices.Equal(a, b)
	}
	tolerance, timed := tolerances[name]
	a, err1 := strconv.ParseInt(strings.TrimPrefix(got, ":"), 10, 64)
	b, err2 := strconv.ParseInt(strings.TrimPrefix(want, ":"), 10, 64)
	return timed && err1 == nil && err2 == nil && max(a-b, b-a) <= tolerance && (a < 0) == (b < 0)
}

// explain takes out of a sequence what the difference at its end does not need, and prints the rest.
func (x *comparison) explain(g *generator, sequence [][]string) error {
	for i := len(sequence) - 2; i >= 0; i-- {
		shorter := slices.Delete(slices.Clone(sequence), i, i+1)
		at, err := x.differsAgain(g, shorter)
		if err != nil {
			return err
		}
		if at == len(shorter)-1 {
			sequence = shorter
		}
	}
	sequence = append(slices.Clone(end), g.renamed(sequence)...)
	got, want, err := x.both(sequence)
	if err != nil {
		return err
	}
	fmt.Printf("RESP%d\n", x.protocol)
	for i, words := range sequence {
		fmt.Printf("%q\n  here:  %s\n  Redis: %s\n", words, got.shown[i], want.shown[i])
	}
	fmt.Println()
	return nil
}

// script is what clients send, in paragraphs: each is one connection to an empty store. A line that begins
// with "! " is of a command that answers otherwise here, on purpose.
type script []scriptLine

type scriptLine struct {
	text    string // "" for the end of a paragraph
	differs bool
}

func readScript(file string) (s script, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if line := lines.Text(); !strings.HasPrefix(line, "#") {
			text, differs := strings.CutPrefix(line, "! ")
			s = append(s, scriptLine{text, differs})
		}
	}
	return s, lines.Err()
}

// run sends each line of the script to a server in a protocol, and returns the replies, "end" for the end of the
// connection.
func (s script) run(socket string, protocol int) (replies []string, err error) {
	var c *wire.Conn
	defer func() {
		if c != nil {
			_ = c.Close() // its replies are there
		}
	}()
	for _, line := range s {
		if line.text == "" {
			if c != nil {
				_ = c.Close() // as above
			}
			c = nil
			replies = append(replies, "")
			continue
		}
		if c == nil {
			if c, err = wire.Dial("unix", socket); err != nil {
				return nil, err
			}
			for _, words := range [][]string{{"FLUSHALL"}, {"HELLO", strconv.Itoa(protocol)}} {
				if _, err := c.Do(words...); err != nil {
					return nil, err
				}
			}
		}
		words, err := split(line.text)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line.text, err)
		}
		command := wire.Command(words...)
		if words[0] == "RAW" {
			command = words[1]
		}
		shown := "end"
		if c.Send(command) == nil { // else the server has closed the connection before
			shown, err = c.Reply()
		}
		var closed *net.OpError
		switch {
		case errors.Is(err, io.EOF), errors.As(err, &closed):
			shown = "end"
		case err != nil:
			return nil, fmt.Errorf("%q: %w", line.text, err)
		}
		replies = append(replies, shown)
	}
	return replies, nil
}

// recordWire writes what Redis answers to a script.
func recordWire(from, to string) error {
	s, err := readScript(from)
	if err != nil {
		return err
	}
	real, err := startRedis()
	if err != nil {
		return err
	}
	defer real.stop()
	var replies [2][]string
	for i := range replies {
		if replies[i], err = s.run(real.socket, 2+i); err != nil {
			return err
		}
	}
	var out strings.Builder
	fmt.Fprintln(&out, "# Recorded with Redis 7.0 by go run ./tests/redis --record: replies in RESP2, and in RESP3 if they differ.")
	for i, line := range s {
		switch {
		case line.text == "":
			fmt.Fprintln(&out)
		case replies[0][i] == replies[1][i]:
			fmt.Fprintf(&out, "%s => %s\n", line.text, replies[0][i])
		default:
			fmt.Fprintf(&out, "%s => %s | %s\n", line.text, replies[0][i], replies[1][i])
		}
	}
	return os.WriteFile(to, []byte(out.String()), 0o666)
}
