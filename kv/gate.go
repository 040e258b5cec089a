package kv

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// gate is a read-write lock: writers of single keys share it, and a transaction, which may touch any key, holds it
// alone. Unlike a sync.RWMutex, waiting for it can be given up. Nobody waits for ever: whoever comes later waits
// behind, except that all who want to share it are let in when a transaction ends.
type gate struct {
	// state is the number of writers who share the gate, and gateShut besides while somebody
	// holds it alone, or waits: then it changes with mu held, but for those who leave.
	state atomic.Int64

	mu    sync.Mutex
	alone bool          // somebody holds it alone; guarded by mu
	queue []*gateWaiter // guarded by mu
	shut  error         // what everybody is refused with until the gate is free; guarded by mu

	// holder is the transaction that holds the gate, if one does.
	holder atomic.Pointer[Transaction]
}

const gateShut = 1 << 62

// gateWaiter is somebody who waits at the gate.
type gateWaiter struct {
	alone bool
	done  chan struct{} // closed when it was let in, or refused
	err   error         // set before done is closed
}

// TryRLock shares the gate if nobody holds it alone, or waits.
func (g *gate) TryRLock() bool {
	for {
		s := g.state.Load()
		if s&gateShut != 0 {
			return false
		}
		if g.state.CompareAndSwap(s, s+1) {
			return true
		}
	}
}

// RUnlock is for who shared it.
func (g *gate) RUnlock() {
	if g.state.Add(-1) != gateShut {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.letIn() // the last has left, and somebody waits
}

// Unlock is for who held it alone.
func (g *gate) Unlock() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holder.Store(nil)
	g.alone, g.shut = false, nil
	g.queue = slices.DeleteFunc(g.queue, func(x *gateWaiter) bool {
		if !x.alone {
			g.state.Add(1)
			close(x.done)
		}
		return !x.alone
	})
	g.letIn()
}

// join has somebody wait for the gate, who may have it at once.
func (g *gate) join(alone bool) *gateWaiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	x := &gateWaiter{alone: alone, done: make(chan struct{})}
	if g.shut != nil {
		x.err = g.shut
		close(x.done)
		return x
	}
	g.state.Or(gateShut)
	g.queue = append(g.queue, x)
	g.letIn()
	return x
}

// letIn lets in those at the head of the queue as far as that goes. The caller holds mu.
func (g *gate) letIn() {
	for len(g.queue) > 0 && !g.alone {
		x := g.queue[0]
		if x.alone {
			if g.state.Load() != gateShut {
				return // some still share it
			}
			g.alone = true
		} else {
			g.state.Add(1)
		}
		g.queue = g.queue[1:]
		close(x.done)
	}
	if len(g.queue) == 0 && !g.alone {
		g.state.And(^gateShut)
	}
}

// giveUp takes a waiter out of the queue, and reports whether it was there: if not, it has been let in, or refused.
func (g *gate) giveUp(x *gateWaiter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.queue, x)
	if i < 0 {
		return false
	}
	g.queue = slices.Delete(g.queue, i, i+1)
	g.letIn()
	return true
}

// refuse has all who wait get an error, and all who come while the gate is held alone.
func (g *gate) refuse(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.alone {
		return
	}
	g.shut = err
	for _, x := range g.queue {
		x.err = err
		close(x.done)
	}
	g.queue = nil
}

// passGate takes the gate, alone or shared. The errors are the context's, ErrBusy, and
// ErrClosed if the store is closed while a transaction holds the gate.
func (db *DB) passGate(ctx context.Context, alone bool) error {
	g := &db.gate
	if !alone && g.TryRLock() {
		return nil
	}
	x := g.join(alone)
	idle := idleWatch{gate: g}
	ticks, stop := idle.start(db.opts.MaxIdleTransaction)
	defer stop()
	for {
		db.pauseAt("gate: waiting")
		var err error
		select {
		case <-x.done:
			return x.err
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-ticks:
			if !idle.tooLong() {
				continue
			}
			err = fmt.Errorf("%w, and nothing has been done in it for %v (Options.MaxIdleTransaction): "+
				"either it is slow, or this is a write inside of it by what is not bound to it, which waits for itself",
				ErrBusy, db.opts.MaxIdleTransaction)
		}
		if g.giveUp(x) {
			return err
		}
		<-x.done // let in, or refused, meanwhile
		return x.err
	}
}

// idleWatch finds that the transaction that holds the gate is not used, by looking several
// times: a process that stood still sees no more than one idle moment of all of that time.
type idleWatch struct {
	gate   *gate
	holder *Transaction
	steps  uint64 // of the holder
	seen   int    // how often it was found idle at that step
}

// idleLooks is how often a transaction is found idle until that is too long.
const idleLooks = 8

// start returns what tells when to look; nothing does if the limit is negative.
func (i *idleWatch) start(limit time.Duration) (<-chan time.Time, func()) {
	if limit <= 0 {
		return nil, func() {}
	}
	i.tooLong()
	ticker := time.NewTicker(max(1, limit/(idleLooks-1)))
	return ticker.C, ticker.Stop
}

// tooLong looks at the holder, and reports whether it was idle often enough.
func (i *idleWatch) tooLong() bool {
	tx := i.gate.holder.Load()
	if tx == nil {
		i.seen = 0
		return false
	}
	steps := tx.steps.Load()
	if tx != i.holder || steps != i.steps {
		i.holder, i.steps, i.seen = tx, steps, 0
	}
	if steps%2 != 0 {
		return false // somebody uses it
	}
	i.seen++
	return i.seen >= idleLooks
}

// inside reports whether the goroutine is in the function of the transaction that holds the gate, and would wait for
// itself there. It does not know what other goroutines do for the function, nor, while functions of several stores'
// transactions run, whose this is: those who wait for themselves get ErrBusy in the end.
func (db *DB) inside() bool {
	tx := db.gate.holder.Load()
	return tx != nil && tx.scoped && functions.Load() == 1 && insideFunction()
}

// functions is the number of functions of transactions under way, in all stores of the program: one at most in each.
var functions atomic.Int64

// runFunction runs the function of a transaction. It is found on the stack by
// insideFunction, and therefore a frame of its own.
//
//go:noinline
func runFunction(tx *Transaction, f func(*Transaction) error) error {
	functions.Add(1)
	defer functions.Add(-1)
	return f(tx)
}

var runFunctionEntry = reflect.ValueOf(runFunction).Pointer()

// insideFunction reports whether the goroutine is inside of runFunction.
func insideFunction() bool {
	var pcs [64]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		for _, pc := range pcs[:n] {
			if f := runtime.FuncForPC(pc - 1); f != nil && f.Entry() == runFunctionEntry {
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}
