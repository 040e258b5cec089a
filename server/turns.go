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
type turns struct {
	mu      sync.Mutex
	free    int
	waiting waitingHeap
}

// places is how many take their turns at a time: more than there are processors, as some of them read from
// the disk.
func places() int { return min(max(4*runtime.GOMAXPROCS(0), 8), 32) }

func newTurns() *turns { return &turns{free: places()} }

// take waits for a turn. It is not ok if closed was closed before.
func (t *turns) take(u use, closed <-chan struct{}) (ok bool) {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return true
	}
	w := &waiter{used: u.time, ready: make(chan struct{})}
	heap.Push(&t.waiting, w)
	t.mu.Unlock()
	select {
	case <-w.ready:
		return true
	case <-closed:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.index < 0 {
		return true // it was ready meanwhile
	}
	heap.Remove(&t.waiting, w.index)
	return false
}

// give gives a turn back.
func (t *turns) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		t.free++
		return
	}
	close(heap.Pop(&t.waiting).(*waiter).ready)
}

// waiter is a connection that waits for its turn.
type waiter struct {
	used  time.Duration
	index int // in the heap; -1 once it has its turn
	ready chan struct{}
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
	w.index = -1
	return w
}
