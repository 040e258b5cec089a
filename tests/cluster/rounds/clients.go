package rounds

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sievekv/sievekv/kv"
)

// outcome is what a client knows of a write.
type outcome int

const (
	acknowledged outcome = iota
	refused              // it was not made, and never will be
	unknown              // it was made, or not, or may be made yet
)

// outcomeOf returns the outcome that the answer to a write tells. Word is the answer's first word. An answer that a group must not give
// to a write is an error.
func outcomeOf(answer error) (o outcome, word string, err error) {
	var told redis.Error
	var broken *net.OpError
	switch {
	case answer == nil:
		return acknowledged, "OK", nil
	case errors.As(answer, &told):
		word, _, _ = strings.Cut(told.Error(), " ")
		switch word {
		case "MOVED", "CLUSTERDOWN", "EXECABORT":
			return refused, word, nil
		case "UNKNOWN":
			return unknown, word, nil
		case "MISCONF":
			if strings.Contains(told.Error(), kv.ErrNoSpace.Error()) {
				o = refused
			} else {
				o = unknown
			}
			return o, word, fmt.Errorf("a write is answered %w", answer)
		}
		return unknown, word, fmt.Errorf("a write is answered %w", answer)
	case errors.As(answer, &broken) && broken.Op == "dial":
		return refused, "no connection", nil
	}
	return unknown, "connection broken", nil
}

// item is a write of something that nobody else writes.
type item struct {
	name string
	outcome
}

// writer writes one kind of items, one after the other.
type writer struct {
	name   string
	direct bool // it writes to one member, and is refused while another leads
	write  func(ctx context.Context, item string) error
	read   func(ctx context.Context, from reader, items []string) ([]state, error)

	acks    atomic.Int64
	items   []item // the writer's, and of the check while it rests
	checked int    // items that were checked before
}

// counter increments a string. Its replies rise, and no more of them are missing than outcomes are unknown.
type counter struct {
	key           string
	acked, misses int64 // misses are unknown outcomes
	last          int64 // the last reply
}

// add notes an increment.
func (c *counter) add(o outcome, n int64) error {
	switch o {
	case unknown:
		c.misses++
	case acknowledged:
		c.acked++
		if n <= c.last || n < c.acked || n > c.acked+c.misses {
			return fmt.Errorf("INCR %s is %d after %d, with %d acknowledged and %d unknown", c.key, n, c.last, c.acked, c.misses)
		}
		c.last = n
	}
	return nil
}

// work is what clients do.
type work struct {
	g        *group
	clients  []*redis.ClusterClient
	writers  []*writer
	counters []*counter
	newest   atomic.Pointer[item] // acknowledged
	badDisk  atomic.Bool          // a member may refuse writes because of its disk

	running sync.WaitGroup
	ended   atomic.Bool

	mu      sync.Mutex
	words   map[string]int // answers to writes; guarded by mu
	reads   int            // linearizable ones that were answered; guarded by mu
	wrong   []error        // guarded by mu
	since   time.Time      // of goroutines that wait for an acknowledgment; guarded by mu
	waiting chan time.Time // nil if nobody waits; guarded by mu
}

// silent is a logger for go-redis: what fails, the run tells.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// newWork returns the clients of a group, which rest.
func newWork(g *group) *work {
	redis.SetLogger(silent{})
	w := &work{g: g, words: make(map[string]int)}
	var addresses []string
	for _, m := range g.all() {
		addresses = append(addresses, m.client)
	}
	for range 3 {
		// Nothing is repeated by the library: what is written twice is to be seen.
		w.clients = append(w.clients, redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: addresses, MaxRedirects: -1, DialerRetries: 1, ReadTimeout: patience, DialTimeout: time.Second, ContextTimeoutEnabled: true,
		}))
	}
	for i := range g.all() {
		w.writers = append(w.writers, &writer{name: fmt.Sprintf("s%d", i), direct: true, read: readStrings, write: func(ctx context.Context, item string) error {
			return g.any(i).direct.Set(ctx, item, item, 0).Err()
		}})
	}
	w.writers = append(w.writers,
		&writer{name: "c", read: readStrings, write: func(ctx context.Context, item string) error {
			return w.clients[0].Set(ctx, item, item, 0).Err()
		}},
		&writer{name: "f", read: readFilter, write: func(ctx context.Context, item string) error {
			return w.clients[1].BFAdd(ctx, filterKey, item).Err()
		}},
		&writer{name: "t", read: readPairs, write: func(ctx context.Context, item string) error {
			_, err := w.clients[2].TxPipelined(ctx, func(p redis.Pipeliner) error {
				a, b := pair(item)
				p.Set(ctx, a, item, 0)
				p.Set(ctx, b, item, 0)
				return nil
			})
			return err
		}},
	)
	for i := range w.clients {
		w.counters = append(w.counters, &counter{key: fmt.Sprintf("count%d", i)})
	}
	return w
}

const filterKey = "filter"

// pair returns the two keys of a transaction, which have one slot.
func pair(item string) (a, b string) { return "{" + item + "}a", "{" + item + "}b" }

func (w *work) close() {
	for _, c := range w.clients {
		_ = c.Close()
	}
}

// start has the clients work until rest.
func (w *work) start(ctx context.Context) {
	w.ended.Store(false)
	for _, x := range w.writers {
		w.running.Go(func() { w.loop(ctx, func() outcome { return w.writeOne(ctx, x) }) })
	}
	for i, c := range w.counters {
		w.running.Go(func() { w.loop(ctx, func() outcome { return w.count(ctx, w.clients[i], c) }) })
	}
	w.running.Go(func() { w.loop(ctx, func() outcome { return w.look(ctx) }) })
}

// rest ends the work, and waits for what is under way.
func (w *work) rest() {
	w.ended.Store(true)
	w.running.Wait()
}

// loop does something over and over, with a pause if it is refused.
func (w *work) loop(ctx context.Context, do func() outcome) {
	for !w.ended.Load() && ctx.Err() == nil {
		if do() == acknowledged {
			rest(ctx, time.Millisecond)
		} else {
			rest(ctx, pause)
		}
	}
}

// writeOne writes an item, and notes the outcome.
func (w *work) writeOne(ctx context.Context, x *writer) outcome {
	i := item{name: fmt.Sprintf("%s:%d", x.name, len(x.items))}
	begun := time.Now()
	i.outcome = w.note(begun, x.write(ctx, i.name))
	x.items = append(x.items, i)
	if i.outcome == acknowledged {
		x.acks.Add(1)
		if x.name == "c" {
			w.newest.Store(&i)
		}
	}
	return i.outcome
}

// count increments a counter.
func (w *work) count(ctx context.Context, c *redis.ClusterClient, n *counter) outcome {
	begun := time.Now()
	got, err := c.Incr(ctx, n.key).Result()
	o := w.note(begun, err)
	w.fail(n.add(o, got))
	return o
}

// note counts an answer to a write, and tells goroutines that wait for an acknowledgment.
func (w *work) note(begun time.Time, answer error) outcome {
	o, word, err := outcomeOf(answer)
	if word != "MISCONF" || !w.badDisk.Load() {
		w.fail(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.words[word]++
	if o == acknowledged && w.waiting != nil && begun.After(w.since) {
		w.waiting <- time.Now()
		w.waiting = nil
	}
	return o
}

// next returns a channel that gets the time of the first acknowledgment of a write that begins from now on.
func (w *work) next() <-chan time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since, w.waiting = time.Now(), make(chan time.Time, 1)
	return w.waiting
}

// look reads the newest string that was acknowledged, on any member.
func (w *work) look(ctx context.Context) outcome {
	newest := w.newest.Load()
	if newest == nil {
		return unknown
	}
	m := w.g.any(rand.IntN(len(w.g.all())))
	got, err := readStrings(ctx, reader{m.direct}, []string{newest.name})
	switch {
	case err != nil:
		return unknown // it is down, or behind
	case got[0] != whole:
		w.fail(fmt.Errorf("%s does not have %s, which was acknowledged before", m.name, newest.name))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads++
	return acknowledged
}

// fail notes that something is wrong.
func (w *work) fail(err error) {
	if err == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, err)
}

// goOn waits until each writer has had some more acknowledgments; of those that write to one member, one that writes to the leader.
func (w *work) goOn(ctx context.Context) error {
	before := make([]int64, len(w.writers))
	for i, x := range w.writers {
		before[i] = x.acks.Load()
	}
	const more = 3
	return w.g.await(ctx, "clients go on", func() (bool, error) {
		direct := false
		for i, x := range w.writers {
			goesOn := x.acks.Load() >= before[i]+more
			if direct = direct || x.direct && goesOn; !x.direct && !goesOn {
				return false, nil
			}
		}
		return direct, nil
	})
}
