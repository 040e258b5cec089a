// Package gate has the lock that every writer of a store passes. Writers of single keys share it. A transaction,
// which may touch any key, has it alone. The package also finds out that a transaction is idle, see Idle, and that a
// goroutine would wait for itself, see Inside.
package gate

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Gate is a read-write lock. Unlike with a sync.RWMutex, a goroutine can give up waiting. No goroutine waits for ever:
// they pass in the order in which they came, with two exceptions. When a goroutine that had the gate alone unlocks it,
// all goroutines that wait to share it pass. They also pass in the recesses of a goroutine that waits to have it alone,
// see press. The zero value is open.
type Gate struct {
	// state counts the goroutines that share the gate. It also has the bit shut, which is set while a goroutine has
	// the gate alone, or waits, except in a recess: then it has the bit recess. While shut is set, only RUnlock changes
	// state without holding mu.
	state atomic.Int64

	mu    sync.Mutex
	alone bool      // a goroutine has the gate alone; guarded by mu
	queue []*Waiter // guarded by mu
	press press     // of the first in queue that is to have the gate alone; guarded by mu
	err   error     // set by Refuse until the gate is unlocked; guarded by mu

	ticking bool // ticked is about to be called; guarded by mu
}

const (
	shut   = 1 << 62
	recess = 1 << 61
)

// mark sets one of the bits of the state, or none, and takes away the other. The caller holds mu.
func (g *Gate) mark(bit int64) {
	for {
		s := g.state.Load()
		if g.state.CompareAndSwap(s, s&^(shut|recess)|bit) {
			return
		}
	}
}

// Waiter is a place in the queue at the gate.
type Waiter struct {
	alone bool
	done  chan struct{}
	err   error // set before done is closed
}

// Done returns a channel that is closed when the waiter has the gate or was refused, see Err.
func (x *Waiter) Done() <-chan struct{} { return x.done }

// Err returns the error given to Refuse, or nil if the waiter has the gate. It may be called once Done is closed.
func (x *Waiter) Err() error { return x.err }

// TryRLock shares the gate and reports true, unless a goroutine has it alone or waits.
func (g *Gate) TryRLock() bool {
	for {
		s := g.state.Load()
		if s&shut != 0 {
			return false
		}
		if g.state.CompareAndSwap(s, s+1) {
			return true
		}
	}
}

// RUnlock gives back a share.
func (g *Gate) RUnlock() {
	if s := g.state.Add(-1); s != shut && s != recess {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.letIn() // this was the last share, and a goroutine waits
}

// Unlock gives back a gate that the caller has alone.
func (g *Gate) Unlock() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.alone, g.err = false, nil
	g.queue = g.letShare()
	g.letIn()
}

// Join queues for the gate, to have it alone or to share it. The waiter may have it when Join returns.
func (g *Gate) Join(alone bool) *Waiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	x := &Waiter{alone: alone, done: make(chan struct{})}
	if g.err != nil {
		x.err = g.err
		close(x.done)
		return x
	}
	if !g.press.recess() {
		g.mark(shut)
	}
	g.queue = append(g.queue, x)
	g.letIn()
	return x
}

// letIn gives the gate to waiters at the head of the queue, as long as they can have it. The caller holds mu.
func (g *Gate) letIn() {
	if g.press.recess() {
		g.queue = g.letShare()
		g.mark(recess)
		g.state.CompareAndSwap(recess, shut) // if nobody shares it, the first that is to have it alone gets in
	}
	for len(g.queue) > 0 && !g.alone {
		x := g.queue[0]
		if x.alone {
			if g.state.Load() != shut {
				return // it is still shared
			}
			g.alone, g.press = true, press{}
		} else {
			g.state.Add(1)
		}
		g.queue = g.queue[1:]
		close(x.done)
	}
	if !g.alone { // then nobody waits
		g.mark(0)
	}
}

// GiveUp takes a waiter out of the queue. It reports false if the waiter is not in the queue any more: it has the
// gate, or was refused.
func (g *Gate) GiveUp(x *Waiter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.queue, x)
	if i < 0 {
		return false
	}
	if g.firstAlone() == x {
		g.press = press{} // the next one begins with a press of its own
		g.mark(shut)
	}
	g.queue = slices.Delete(g.queue, i, i+1)
	g.letIn()
	return true
}

// Refuse gives an error to every waiter, and to each that joins before the gate is unlocked. It does nothing unless a
// goroutine has the gate alone.
func (g *Gate) Refuse(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.alone {
		return
	}
	g.err = err
	for _, x := range g.queue {
		x.err = err
		close(x.done)
	}
	g.queue = nil
}

// WhileAlone calls f if a goroutine has the gate alone, and reports whether one has. The gate cannot be unlocked
// before f returns.
func (g *Gate) WhileAlone(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.alone {
		f()
	}
	return g.alone
}

// Free reports whether no goroutine has the gate or waits.
func (g *Gate) Free() bool { return g.state.Load() == 0 }

// Waiting returns how many goroutines wait.
func (g *Gate) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.queue)
}

// Locked reports whether a goroutine is inside a method of the gate, so that no other can enter one. It is for tests.
func (g *Gate) Locked() bool {
	if !g.mu.TryLock() {
		return true
	}
	g.mu.Unlock()
	return false
}
