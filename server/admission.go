package server

import (
	"container/heap"
	"runtime"
	"sync"
	"time"
)

// spared sets the share of the time for which a connection may use the processor without asking admission for a turn:
// 1/spared, besides a burst of limits.burst.
const spared = 50

// aging lowers the use of a waiting connection, as it counts, by 1/aging of the time that it waits. That is far below
// the share of a spared connection, so that a client that sends a command now and then goes before all connections that
// have waited for long.
const aging = 500

// The server estimates the processor time of commands, because the time that passes may be spent on a sync. These are
// the estimates for a command, for a word, and for the bytes received or sent.
const (
	commandTime  = 2 * time.Microsecond
	wordTime     = 50 * time.Nanosecond
	bytesInMicro = 1000 // bytes that take a microsecond
)

// use is how much processor time a connection has used lately. It decreases with time, like a leaking bucket.
type use struct {
	time time.Duration
	at   time.Time
}

func (u *use) add(now time.Time, d time.Duration) {
	u.time = u.now(now) + d
	u.at = now
}

// now returns the rest of the use at a time.
func (u *use) now(now time.Time) time.Duration { return max(0, u.time-now.Sub(u.at)/spared) }

// admission bounds how many busy connections run commands at the same time. A connection that has used more than
// limits.burst needs a turn: the right to run commands until it waits for its client or for the disk. When a turn ends,
// the waiting connection that has used the server least gets the next one. It counts a little less for each moment that it
// waits, so none waits for ever, however many new ones come. So a thousand clients that never stop leave
// processor and memory to a client that sends a command now and then: that client needs no turn.
//
// A turn that takes long may be waiting for the disk or for a key's lock. After the time overdue its place goes to the
// next waiting connection, so that commands on other keys go on.
//
// A server has two admissions: connections whose turns take long have few places of their own. With as many places as
// short turns have, the three goroutines of a command that reaches the disk would each wait until all long turns had
// run for 10 ms. On two processors a client that sends a command now and then waited for up to a second; with two
// admissions it waits for a tenth of that.
type admission struct {
	places    int
	overdue   time.Duration // 0 for never
	began     time.Time     // when the admission was made
	mu        sync.Mutex    // guards the fields below, turn.passedOn, waiter.index and waiter.turn
	free      int           // places
	waiting   waitingHeap
	turns     map[*turn]struct{} // those that have not ended
	scheduled bool               // passOn is scheduled
}

// turn is the right of one connection to run commands.
type turn struct {
	of       *admission
	since    time.Time
	passedOn bool // another connection has its place
}

// overdue is how long a turn lasts before its place is passed on.
const overdue = 500 * time.Millisecond

// turnTime is how long a turn lasts, unless no other connection waits or one command takes longer.
const turnTime = 10 * time.Millisecond

// The server expects a long turn from a connection whose last turn used the processor for longTurn, or that has sent
// longBytes.
const (
	longTurn  = 300 * time.Microsecond
	longBytes = 64 << 10
)

// places is the number of short turns at a time. It is larger than the number of processors, because some turns read
// from the disk.
func places() int { return min(max(4*runtime.GOMAXPROCS(0), 8), 32) }

// longPlaces is the number of long turns at a time. They leave one processor to the other connections. A connection
// that waits for the disk after each command seldom needs a turn at all: it runs too few commands to exceed spared.
func longPlaces() int { return max(runtime.GOMAXPROCS(0)-1, 1) }

func newAdmission(places int) *admission {
	return &admission{places: places, free: places, overdue: overdue, began: time.Now(), turns: make(map[*turn]struct{})}
}

// await waits for a turn, which the caller ends. It returns nil if closed was closed first.
func (a *admission) await(u use, closed <-chan struct{}) *turn {
	a.mu.Lock()
	if a.free > 0 {
		a.free--
		one := a.begin()
		a.mu.Unlock()
		return one
	}
	now := time.Now()
	w := &waiter{used: u.now(now) + now.Sub(a.began)/aging, ready: make(chan struct{})}
	heap.Push(&a.waiting, w)
	a.passOnLater()
	a.mu.Unlock()
	select {
	case <-w.ready:
		return w.turn
	case <-closed:
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.turn == nil {
		heap.Remove(&a.waiting, w.index)
	}
	return w.turn // not nil if the turn came in the meantime
}

// begin makes a turn. The caller holds mu.
func (a *admission) begin() *turn {
	one := &turn{of: a, since: time.Now()}
	a.turns[one] = struct{}{}
	return one
}

// end ends the turn. Its place goes to the next waiting connection.
func (one *turn) end() {
	a := one.of
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.turns, one)
	if !one.passedOn {
		a.next()
	}
}

// isOver reports whether the turn has lasted long enough by now, and another connection waits for its place.
func (one *turn) isOver(now time.Time) bool {
	if now.Sub(one.since) < turnTime {
		return false
	}
	one.of.mu.Lock()
	defer one.of.mu.Unlock()
	return one.passedOn || len(one.of.waiting) > 0
}

// next gives a place to the next waiting connection, or frees it if none waits. The caller holds mu.
func (a *admission) next() {
	if len(a.waiting) == 0 {
		a.free++
		return
	}
	w := heap.Pop(&a.waiting).(*waiter)
	w.turn = a.begin()
	close(w.ready)
}

// passOnLater schedules passOn, unless it is scheduled already. The caller holds mu.
func (a *admission) passOnLater() {
	if !a.scheduled && a.overdue > 0 {
		a.scheduled = true
		time.AfterFunc(a.overdue/2, a.passOn)
	}
}

// passOn gives the places of overdue turns to waiting connections.
func (a *admission) passOn() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.scheduled = false
	for one := range a.turns {
		if len(a.waiting) == 0 {
			return
		}
		if !one.passedOn && time.Since(one.since) >= a.overdue {
			one.passedOn = true
			a.next()
		}
	}
	if len(a.waiting) > 0 {
		a.passOnLater()
	}
}

// waiter is a connection that waits for a turn.
type waiter struct {
	// used is what the connection has used, plus the part aging of the time from admission.began until it came. So an
	// earlier one counts less, in proportion to its longer wait, and the order of two never changes.
	used  time.Duration
	index int // in the heap
	ready chan struct{}
	turn  *turn // set before ready is closed, and never changed after that
}

// waitingHeap orders waiters by use, the least first.
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
