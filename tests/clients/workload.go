package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievekv/sievekv/tests/process"
)

// outcome is what a client knows of a write.
type outcome int

const (
	acknowledged outcome = iota
	refused              // it was not done, and never will be
	unknown              // it was done, or not, or may be done yet
)

// finding is what a client was told in a phase.
type finding struct {
	client, phase string
	answers       map[string]int // by first word, or kind
	counters      [2]counted     // single increments, and those in pipelines
	doubled       int64          // increments that the library has made twice
	wrong         []error
}

// The phases.
const (
	planned = "transfers and SIGTERM"
	killing = "kill -9"
)

// counted is what is known of a counter.
type counted struct{ acked, unknown int64 }

// String is what is printed of a finding.
func (f finding) String() string {
	var words []string
	for w, n := range f.answers {
		words = append(words, fmt.Sprintf("%s %d", w, n))
	}
	slices.Sort(words)
	text := fmt.Sprintf("%s, %s: %s; counted by the client twice %d, wrong %d", f.client, f.phase, strings.Join(words, ", "), f.doubled, len(f.wrong))
	if len(f.wrong) > 0 {
		text += fmt.Sprintf("; the first: %v", f.wrong[0])
	}
	return text
}

// worker runs commands by a client.
type worker struct {
	library
	client
	finding
	acks atomic.Int64
	n    int // commands so far
}

// outcomeOf tells what a worker knows after an error, and counts that. An error of another kind than is allowed is wrong.
func (w *worker) outcomeOf(err error) outcome {
	if err == nil {
		w.answers["OK"]++
		w.acks.Add(1)
		return acknowledged
	}
	word, _, _ := strings.Cut(err.Error(), " ")
	var broken *net.OpError
	o := unknown
	switch {
	case word == "UNKNOWN":
	case word == "MOVED", word == "CLUSTERDOWN":
		o = refused
	case errors.As(err, &broken) && broken.Op == "dial", strings.HasPrefix(err.Error(), "Could not connect"):
		word, o = "no connection", refused
	case isConnection(err):
		word = "connection broken"
	default:
		w.wrong = append(w.wrong, fmt.Errorf("a command is answered %w", err))
	}
	w.answers[word]++
	time.Sleep(pause)
	if w.repeats {
		return unknown // it may have been done when it was sent before
	}
	return o
}

// pause is what a client waits after an error.
const pause = 5 * time.Millisecond

// isConnection reports whether an error comes from a connection, which broke or was not made.
func isConnection(err error) bool {
	var timeout net.Error
	text := err.Error()
	return errors.As(err, &timeout) || slices.ContainsFunc([]string{
		"EOF", "connection", "Connection", "closed", "broken pipe", "redis: ", "no available", "timeout", "Error: Server",
	}, func(part string) bool { return strings.Contains(text, part) })
}

func (w *worker) fail(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Errorf(format, args...))
}

// loop does what the README shows, over and over, and increments.
func (w *worker) loop(ctx context.Context, ended *atomic.Bool) {
	for ; !ended.Load() && ctx.Err() == nil; w.n++ {
		w.increment(ctx)
		w.increments(ctx)
		item := fmt.Sprint("item", w.n)
		w.addAndFind(ctx, []string{"BF.MADD", w.key("users"), item}, []string{"BF.MEXISTS", w.key("users"), item})
		w.addAndFind(ctx, []string{"CF.ADD", w.key("cuckoo"), item}, []string{"CF.EXISTS", w.key("cuckoo"), item})
		w.setAndGet(ctx, w.key(item), item)
	}
}

func (w *worker) key(name string) string { return w.library.name + ":" + name }

// counter returns the key of a counter of this phase.
func (w *worker) counter(i int) string { return w.key(fmt.Sprint(w.phase, i)) }

// increment increments the first counter.
func (w *worker) increment(ctx context.Context) {
	reply, err := w.do(ctx, "INCR", w.counter(0))
	w.count(0, reply, err)
}

// increments increments the second counter three times in a pipeline.
func (w *worker) increments(ctx context.Context) {
	p, ok := w.client.(pipeliner)
	if !ok {
		return
	}
	replies, errs := p.pipeline(ctx, slices.Repeat([][]string{{"INCR", w.counter(1)}}, 3))
	for i := range replies {
		w.count(1, replies[i], errs[i])
	}
}

func (w *worker) count(i int, reply any, err error) {
	c := &w.counters[i]
	switch w.outcomeOf(err) {
	case acknowledged:
		c.acked++
	case unknown:
		c.unknown++
	}
	if n, ok := reply.(int64); err == nil && (!ok || n < c.acked) {
		w.fail("INCR %s is %v after %d that were acknowledged", w.counter(i), reply, c.acked)
	}
}

// addAndFind adds an item, and looks it up if that was acknowledged.
func (w *worker) addAndFind(ctx context.Context, add, find []string) {
	_, err := w.do(ctx, add...)
	if w.outcomeOf(err) != acknowledged {
		return
	}
	found, err := w.do(ctx, find...)
	if w.outcomeOf(err) == acknowledged && !slices.Contains([]string{"1", "true", "[1]", "[true]"}, fmt.Sprint(found)) {
		w.fail("%v is answered %v, after an add that was acknowledged", find, found)
	}
}

func (w *worker) setAndGet(ctx context.Context, key, value string) {
	_, err := w.do(ctx, "SET", key, value)
	if w.outcomeOf(err) != acknowledged {
		return
	}
	got, err := w.do(ctx, "GET", key)
	if w.outcomeOf(err) == acknowledged && got != value {
		w.fail("GET %s is %v, after SET %s was acknowledged", key, got, value)
	}
}

// through runs the clients through both phases.
func through(ctx context.Context, g *process.Group, o options) (found []finding, err error) {
	var workers []*worker
	var addrs []string
	for _, m := range g.Members {
		addrs = append(addrs, m.Addr)
	}
	defer func() {
		for _, w := range workers {
			err = errors.Join(err, w.close())
		}
	}()
	for _, name := range o.clients {
		i := slices.Index(clientNames(), name)
		if i < 0 {
			return nil, fmt.Errorf("--clients: %q is none of %q", name, clientNames())
		}
		c, err := libraries[i].open(addrs)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		workers = append(workers, &worker{library: libraries[i], client: c})
	}
	for _, p := range []struct {
		name string
		n    int
		do   func(*process.Group, int) error
	}{{planned, o.transfers, handOver}, {killing, o.kills, kill}} {
		if err := phase(ctx, g, workers, p.name, p.n, p.do); err != nil {
			return found, err
		}
		for _, w := range workers {
			err = errors.Join(err, w.check(g))
			found = append(found, w.finding)
		}
	}
	return found, err
}

// phase lets the clients work while something is done to the group n times.
func phase(ctx context.Context, g *process.Group, workers []*worker, name string, n int, do func(*process.Group, int) error) error {
	var ended atomic.Bool
	var working sync.WaitGroup
	for _, w := range workers {
		w.finding = finding{client: w.library.name, phase: name, answers: make(map[string]int)}
		working.Go(func() { w.loop(ctx, &ended) })
	}
	err := goOn(ctx, workers)
	for i := 0; i < n && err == nil; i++ {
		if err = do(g, i); err == nil {
			err = goOn(ctx, workers)
		}
	}
	ended.Store(true)
	working.Wait()
	return errors.Join(err, ctx.Err())
}

// patience is how long a client may take to go on.
const patience = 4 * time.Minute

// goOn waits until each client has had some more acknowledgments.
func goOn(ctx context.Context, workers []*worker) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, w := range workers {
		for before := w.acks.Load(); w.acks.Load() < before+10; {
			if ctx.Err() != nil {
				return fmt.Errorf("%s does not go on: %w", w.library.name, ctx.Err())
			}
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// handOver moves the leadership, and each fourth time ends the leader by SIGTERM and starts it again.
func handOver(g *process.Group, i int) error {
	time.Sleep(rand.N(200 * time.Millisecond))
	l, err := g.Leader()
	if err != nil {
		return err
	}
	if i%4 == 3 {
		return errors.Join(l.End(), l.Start(), g.Settle())
	}
	others := g.Others(l)
	_ = g.Transfer(others[rand.N(len(others))]) // another may have been elected
	return nil
}

// kill kills the leader, and starts it again.
func kill(g *process.Group, _ int) error {
	time.Sleep(rand.N(200 * time.Millisecond))
	l, err := g.Leader()
	if err != nil {
		return err
	}
	if err := l.Kill(); err != nil {
		return err
	}
	if _, err := g.Leader(); err != nil {
		return err
	}
	return errors.Join(l.Start(), g.Settle())
}

// check compares the counters with what the worker knows, and returns an error if something was wrong.
func (w *worker) check(g *process.Group) error {
	for i, c := range w.counters {
		n, err := w.stored(g, i)
		if err != nil {
			return err
		}
		if n < c.acked {
			w.fail("%s is %d after %d that were acknowledged", w.counter(i), n, c.acked)
		}
		if n > c.acked+c.unknown {
			w.doubled += n - c.acked - c.unknown
			if !w.repeats || w.phase != killing {
				w.fail("%s is %d after %d that were acknowledged and %d that are unknown", w.counter(i), n, c.acked, c.unknown)
			}
		}
	}
	if len(w.wrong) > 0 {
		return fmt.Errorf("%s, %s: %w", w.finding.client, w.phase, errors.Join(w.wrong[:min(5, len(w.wrong))]...))
	}
	return nil
}

// stored returns a counter that the group has.
func (w *worker) stored(g *process.Group, i int) (n int64, err error) {
	l, err := g.Leader()
	if err != nil {
		return 0, err
	}
	reply, err := process.Ask(l.Addr, "GET", w.counter(i))
	if reply == nil || err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(fmt.Sprint(reply), &n)
	return n, err
}
