package server

import (
	"container/heap"
	"runtime"
	"sync"
	"time"
)

// spared says for how much of the time a connection may use the processor without waiting for its turn: one part
// in so many, beside a burst of limits.burst.
const spared = 50

// What commands take of the processor is estimated, as time that passes may be that of a sync: these are
// for a command, a word, and a byte that is received or sent.
const (
	commandTime  = 2 * time.Microsecond
	wordTime     = 50 * time.Nanosecond
	bytesInMicro = 1000 // bytes that take a microsecond
)

// use is how much a connection has used the processor lately. It runs out like a bucket that leaks.
type use struct {
	time time.Duration
	at   time.Time
}

func (u *use) add(now time.Time, d time.Duration) {
	u.time = max(0, u.time-now.Sub(u.at)/spared) + d
	u.at = now
}

// turns lets so many connections at a time run commands as there are places, of those that use the server
// much. It is for all others: a thousand clients that never stop leave the processor, and memory for what
// commands take as they run, to one that gives a command now and then. Of those that wait, the one goes
// first that has used the server least.
//
// A turn that takes long may be waiting, for the disk or for who has the key. Its place is lent to the next that
// waits, so that those who ask for other keys go on.
//
// There are two of these: connections whose turns take long have few places of their own. If they had as many as there
// are for short turns, the goroutines of a command, of which there are three where it is written to the disk, would each
// wait until all of those had run for 10 ms. On two processors a client that gives a command now and then waited for up
// to a second; now it waits for a tenth of that.
type turns struct {
	places  int
	mu      sync.Mutex // guards what follows, turn.lent, and waiter.index and waiter.turn
	free    int        // places
	waiting waitingHeap
	taken   map[*turn]struct{} // that were not given back, those lent too
	lending bool               // lend is to run
}

// turn is one that was taken.
type turn struct {
	of    *turns
	since time.Time
	lent  bool // its place is another's
}

// long is how long a turn takes before its place is lent.
const long = 500 * time.Millisecond

// A turn is likely to take long if the connection's last one took longTurn, or it begins with longBytes received.
// Durable writes take a tenth of that: with few places for them, half as many are done.
const (
	longTurn  = 300 * time.Microsecond
	longBytes = 64 << 10
)

// places is how many take short turns at a time: more than there are processors, as some of them read from
// the disk.
func places() int { return min(max(4*runtime.GOMAXPROCS(0), 8), 32) }

// longPlaces is how many take long turns at a time beside them: they leave a processor to the others. A connection that
// waits for the disk takes no turns, as it gives too few commands in that time, see spared.
func longPlaces() int { return max(runtime.GOMAXPROCS(0)-1, 1) }

func newTurns(places int) *turns {
	return &turns{places: places, free: places, taken: make(map[*turn]struct{})}
}

// take waits for a turn, which the caller gives back. It returns nil if closed was closed before.
func (t *turns) take(u use, closed <-chan struct{}) *turn {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		one := t.begin()
		t.mu.Unlock()
		return one
	}
	w := &waiter{used: u.time, ready: make(chan struct{})}
	heap.Push(&t.waiting, w)
	t.lendLater()
	t.mu.Unlock()
	select {
	case <-w.ready:
		return w.turn
	case <-closed:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.turn == nil {
		heap.Remove(&t.waiting, w.index)
	}
	return w.turn // it may have been ready meanwhile
}

// begin makes a turn. The caller holds mu.
func (t *turns) begin() *turn {
	one := &turn{of: t, since: time.Now()}
	t.taken[one] = struct{}{}
	return one
}

// give gives the turn back.
func (one *turn) give() {
	t := one.of
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.taken, one)
	if !one.lent {
		t.next()
	}
}

// next lets the next of those that wait have a place, if there are any. The caller holds mu.
func (t *turns) next() {
	if len(t.waiting) == 0 {
		t.free++
		return
	}
	w := heap.Pop(&t.waiting).(*waiter)
	w.turn = t.begin()
	close(w.ready)
}

// lendLater has lend run in a while, if it is not to do so yet. The caller holds mu.
func (t *turns) lendLater() {
	if !t.lending {
		t.lending = true
		time.AfterFunc(long/2, t.lend)
	}
}

// lend lends the places of turns that take long, as long as somebody waits.
func (t *turns) lend() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lending = false
	for one := range t.taken {
		if len(t.waiting) == 0 {
			return
		}
		if !one.lent && time.Since(one.since) >= long {
			one.lent = true
			t.next()
		}
	}
	if len(t.waiting) > 0 {
		t.lendLater()
	}
}

// waiter is a connection that waits for its turn.
type waiter struct {
	used  time.Duration
	index int // in the heap
	ready chan struct{}
	turn  *turn // set before ready is closed, and then never changed
}

// waitingHeap has those first that have used least.
type waitingHeap []*waiter

func (h waitingHeap) Len() int           { return len(h) }
func (h waitingHeap) Less(i, j int) bool { return h[i].used < h[j].used }
func (h waitingHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push is for package heap.
func (h *waitingHeap) Push(x any) {
	w := x.(*waiter)
	w.index = len(*h)
	*h = append(*h, w)
}

// Pop is for package heap.
func (h *waitingHeap) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return w
}
