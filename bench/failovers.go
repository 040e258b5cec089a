package main

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	members "github.com/sievekv/sievekv/tests/process"
)

const failoversAbout = `A group of three processes on this machine, at the level ` + "`always`" + `. How long a client that writes all the time gets no
write acknowledged when the leadership is handed over (` + "`cluster transfer`" + `), and after a kill -9 of the leader. And how a member
catches up that was ended while values of 4 KiB were written (` + "`--missed`" + ` MB): 16 connections write such values on, and their rate
meanwhile is beside that before, with all members there.`

// failovers measures what clients notice when the leader changes, and when a member comes back.
func failovers(b *bench) error {
	g, err := b.startGroup()
	if err != nil {
		return err
	}
	defer func() { _ = g.Close() }() // its directory is removed
	if err := b.transfers(g); err != nil {
		return err
	}
	if err := b.kills(g); err != nil {
		return err
	}
	return b.catchUp(g)
}

// pauses sorts times, and makes the rows of their percentiles.
func (b *bench) pauses(what string, pauses []time.Duration, p99 *must) {
	slices.Sort(pauses)
	for _, p := range []struct {
		name  string
		share float64
		must  *must
	}{{"p50", 0.5, nil}, {"p99", 0.99, p99}} {
		ms := float64(percentile(pauses, p.share).Microseconds()) / 1000
		b.row(row{what: fmt.Sprintf("no write acknowledged, %s, %s of %d", what, p.name, len(pauses)), unit: "ms", ours: series{ms}, must: p.must})
	}
}

// transfers hands the leadership over, again and again.
func (b *bench) transfers(g *members.Group) error {
	w := startWriter(g)
	defer w.stop()
	var pauses []time.Duration
	for n := pick(b, 10, 100, 200); len(pauses) < n; {
		b.progress("transfer %d of %d", len(pauses)+1, n)
		l, err := g.Leader()
		if err != nil {
			return err
		}
		others := g.Others(l)
		w.restart()
		if g.Transfer(others[rand.N(len(others))]) != nil {
			continue // another was elected, or it was not taken over
		}
		pauses = append(pauses, w.longest(100*time.Millisecond))
	}
	b.pauses("transfer", pauses, figureAtMost(200))
	return nil
}

// kills kills the leader, again and again.
func (b *bench) kills(g *members.Group) error {
	w := startWriter(g)
	defer w.stop()
	var pauses []time.Duration
	for n := pick(b, 2, 20, 50); len(pauses) < n; {
		b.progress("kill %d of %d", len(pauses)+1, n)
		l, err := g.Leader()
		if err != nil {
			return err
		}
		w.restart()
		if err := l.Kill(); err != nil {
			return err
		}
		if _, err := g.Leader(); err != nil {
			return err
		}
		pauses = append(pauses, w.longest(100*time.Millisecond))
		if err := errors.Join(l.Start(), g.Settle()); err != nil {
			return err
		}
	}
	b.pauses("kill -9 of the leader", pauses, figureAtMost(1500))
	return nil
}

// writer is a client that writes all the time, to whom leads.
type writer struct {
	g     *members.Group
	ended atomic.Bool
	done  sync.WaitGroup

	mu   sync.Mutex
	last time.Time     // when a write was acknowledged; guarded by mu
	most time.Duration // between two such times, since restart; guarded by mu
}

func startWriter(g *members.Group) *writer {
	w := &writer{g: g, last: time.Now()}
	w.done.Go(w.run)
	return w
}

func (w *writer) stop() { w.ended.Store(true); w.done.Wait() }

// restart begins to look for the longest pause.
func (w *writer) restart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.most, w.last = 0, time.Now()
}

// longest returns the longest pause since restart, when writes have been acknowledged for a while without one.
func (w *writer) longest(while time.Duration) time.Duration {
	for quiet := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		w.mu.Lock()
		last, most := w.last, w.most
		w.mu.Unlock()
		if last.Sub(quiet) > while {
			return most
		}
	}
}

// run writes. It goes where MOVED leads, and otherwise to the next member.
func (w *writer) run() {
	addr, next := w.g.Members[0].Addr, 0
	for n := uint64(0); !w.ended.Load(); {
		err := w.writeTo(addr, &n)
		if words := strings.Fields(fmt.Sprint(err)); slices.Contains(words, "-MOVED") {
			addr = words[len(words)-1]
			continue
		}
		next++
		addr = w.g.Members[next%len(w.g.Members)].Addr
		time.Sleep(time.Millisecond)
	}
}

// writeTo writes over a connection until a write fails.
func (w *writer) writeTo(addr string, n *uint64) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // nothing is lost
	p := pipelines{conn: conn, in: bufio.NewReader(conn)}
	for ; !w.ended.Load(); *n++ {
		if err := p.send(set, 1, *n); err != nil {
			return err
		}
		now := time.Now()
		w.mu.Lock()
		w.most, w.last = max(w.most, now.Sub(w.last)), now
		w.mu.Unlock()
	}
	return nil
}

// value is the size of the values that a member misses.
const value = 4096

// setRandom writes values that cannot be compressed.
func setRandom() command {
	var noise [2 * value]byte
	source := rand.NewChaCha8([32]byte{})
	_, _ = source.Read(noise[:]) // never fails
	return command{"SET of 4 KiB", 1, func(out []byte, n, random uint64) []byte {
		out = appendNumber(appendWords(out, 3, "SET"), "missed:", n)
		at := random % value
		out = append(append(appendCount(out, '$', value), noise[at:at+value]...), "\r\n"...)
		return out
	}}
}

// catchUp has a member miss writes, and measures how it catches up while others are made.
func (b *bench) catchUp(g *members.Group) error {
	var sent atomic.Uint64
	c, during := setRandom(), pick(b, time.Second, 5*time.Second, 10*time.Second)
	rate := func(during time.Duration) (float64, error) {
		return onLeader(g, func(addr string) (float64, error) {
			return measureWith(clients{connections: 16, pipeline: 1}, addr, c, during, &sent)
		})
	}
	b.progress("writes before")
	before, err := rate(during)
	if err != nil {
		return err
	}
	l, err := g.Leader()
	if err != nil {
		return err
	}
	m := g.Others(l)[0]
	if err := m.End(); err != nil {
		return err
	}
	b.progress("%d MB that %s misses", b.missed, m.Name)
	for first := sent.Load(); (sent.Load()-first)*value < uint64(b.missed)*1e6; {
		if _, err := rate(during); err != nil {
			return err
		}
	}
	return b.measureCatchUp(g, m, rate, before)
}

// measureCatchUp starts a member that has missed writes, and measures until it has everything that the leader has applied.
func (b *bench) measureCatchUp(g *members.Group, m *members.Member, rate func(time.Duration) (float64, error), before float64) error {
	b.progress("%s catches up", m.Name)
	var meanwhile series
	var failed error
	var writing sync.WaitGroup
	var ended atomic.Bool
	writing.Go(func() {
		for !ended.Load() && failed == nil {
			var figure float64
			figure, failed = rate(500 * time.Millisecond)
			meanwhile = append(meanwhile, figure)
		}
	})
	begin := time.Now()
	err := m.Start()
	for err == nil {
		var level bool
		if level, err = hasCaughtUp(g, m); level {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	took := time.Since(begin)
	ended.Store(true)
	writing.Wait()
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	log, err := os.ReadFile(m.Log())
	if err != nil {
		return err
	}
	how := "from the log"
	if strings.Contains(string(log), "a snapshot was received") {
		how = "by a snapshot"
	}
	what := fmt.Sprintf("a member that has missed %d MB catches up %s", b.missed, how)
	b.row(row{what: what, unit: "s", ours: series{took.Seconds()}})
	b.row(row{what: what, unit: "MB/s", ours: series{float64(b.missed) / took.Seconds()}})
	b.row(row{what: "SET of 4 KiB meanwhile, 16 connections", unit: "commands/s", ours: series{meanwhile.median()}, peer: "before", theirs: series{before}})
	return nil
}

// hasCaughtUp reports whether a member has applied what the leader had applied a moment before.
func hasCaughtUp(g *members.Group, m *members.Member) (bool, error) {
	l, err := g.Leader()
	if err != nil {
		return false, err
	}
	led, err := l.Status()
	if err != nil {
		return false, err
	}
	own, err := m.Status()
	if err != nil {
		return false, nil // it gives up what it had for a snapshot
	}
	applied, _ := own["applied"].(int64)
	wanted, _ := led["applied"].(int64)
	return applied >= wanted && wanted > 0, nil
}
