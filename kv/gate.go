package kv

import (
	"context"
	"fmt"

	"github.com/sievekv/sievekv/internal/gate"
)

// passGate waits for the gate, to hold it alone or to share it. It returns the error of ctx, ErrBusy, or ErrClosed if
// the store is closed while a transaction holds the gate.
func (db *DB) passGate(ctx context.Context, alone bool) error {
	g := &db.gate
	if !alone && g.TryRLock() {
		return nil
	}
	x := g.Join(alone)
	if alone {
		g.Press()
	}
	idle := gate.Idle{Holder: db.holderUses}
	ticks, stop := idle.Start(db.opts.MaxIdleTransaction)
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
			if !idle.TooLong() {
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

// holderUses returns the uses of the transaction that holds the gate, nil if none does.
func (db *DB) holderUses() *gate.Uses {
	if tx := db.holder.Load(); tx != nil {
		return &tx.uses
	}
	return nil
}

// unlockGate gives back the gate, which the caller holds alone.
func (db *DB) unlockGate() {
	db.holder.Store(nil)
	db.gate.Unlock()
}

// inside reports whether this goroutine runs the function of the transaction that holds the gate, so that it would wait
// for itself. Where gate.Inside cannot tell, such a goroutine gets ErrBusy in the end.
func (db *DB) inside() bool {
	tx := db.holder.Load()
	return tx != nil && tx.scoped && gate.Inside()
}
