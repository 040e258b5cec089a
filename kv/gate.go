package kv

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"sync/atomic"
	"time"
)

// passGate takes the gate, alone or shared. The errors are the context's, ErrBusy, and
// ErrClosed if the store is closed while a transaction holds the gate.
func (db *DB) passGate(ctx context.Context, alone bool) error {
	g := &db.gate
	if !alone && g.TryRLock() {
		return nil
	}
	x := g.Join(alone)
	idle := idleWatch{db: db}
	ticks, stop := idle.start(db.opts.MaxIdleTransaction)
	defer stop()
	for {
		db.pauseAt("gate: waiting")
		var err error
		select {
		case <-x.Done():
			return x.Err()
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
		if g.GiveUp(x) {
			return err
		}
		<-x.Done() // it has the gate, or was refused, meanwhile
		return x.Err()
	}
}

// idleWatch finds that the transaction that holds the gate is not used, by looking several
// times: a process that stood still sees no more than one idle moment of all of that time.
type idleWatch struct {
	db     *DB
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
	tx := i.db.holder.Load()
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

// unlockGate gives back the gate, which the caller holds alone.
func (db *DB) unlockGate() {
	db.holder.Store(nil)
	db.gate.Unlock()
}

// inside reports whether the goroutine is in the function of the transaction that holds the gate, and would wait for
// itself there. It does not know what other goroutines do for the function, nor, while functions of several stores'
// transactions run, whose this is: those who wait for themselves get ErrBusy in the end.
func (db *DB) inside() bool {
	tx := db.holder.Load()
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
