package kv

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"sync/atomic"
	"time"
)

// passGate waits for the gate, to hold it alone or to share it. It returns the error of ctx, ErrBusy, or ErrClosed if
// the store is closed while a transaction holds the gate.
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
		<-x.Done() // meanwhile it got the gate, or was refused
		return x.Err()
	}
}

// idleWatch finds out that the transaction that holds the gate is not used. It looks several times: after the process
// was stopped for a while it has seen one idle moment, not all of that time.
type idleWatch struct {
	db     *DB
	holder *Transaction
	steps  uint64 // of the holder when seen began to count
	seen   int    // how often the holder was idle at that step
}

// idleLooks is how many idle looks are too many.
const idleLooks = 8

// start returns a channel that tells when to look. With a negative limit it never does.
func (i *idleWatch) start(limit time.Duration) (<-chan time.Time, func()) {
	if limit <= 0 {
		return nil, func() {}
	}
	i.tooLong()
	ticker := time.NewTicker(max(1, limit/(idleLooks-1)))
	return ticker.C, ticker.Stop
}

// tooLong looks at the holder, and reports whether it was idle at idleLooks looks.
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
		return false // a method of the transaction is running
	}
	i.seen++
	return i.seen >= idleLooks
}

// unlockGate gives back the gate, which the caller holds alone.
func (db *DB) unlockGate() {
	db.holder.Store(nil)
	db.gate.Unlock()
}

// inside reports whether the goroutine runs the function of the transaction that holds the gate: it would wait for
// itself. inside does not recognise other goroutines that work for the function. Nor does it know, while functions of
// transactions of several stores run, which of them this is. In these cases a goroutine that waits for itself gets
// ErrBusy in the end.
func (db *DB) inside() bool {
	tx := db.holder.Load()
	return tx != nil && tx.scoped && functions.Load() == 1 && insideFunction()
}

// functions is the number of transactions' functions that are running, in all stores of the program.
var functions atomic.Int64

// runFunction runs the function of a transaction. It needs a stack frame of its own, by which insideFunction
// recognises it.
//
//go:noinline
func runFunction(tx *Transaction, f func(*Transaction) error) error {
	functions.Add(1)
	defer functions.Add(-1)
	return f(tx)
}

var runFunctionEntry = reflect.ValueOf(runFunction).Pointer()

// insideFunction reports whether the goroutine is inside runFunction.
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
