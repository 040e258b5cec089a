package crash

import (
	"errors"
	"fmt"

	"github.com/sievekv/sievekv/internal/txntest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// Transactions that come to nothing: they end in an error, in a panic, by DISCARD, or as EXEC refuses them. They
// change nothing. Under Always their answers are durable all the same: what they read must outlive every crash.

var (
	errRolledBack = errors.New("the transaction's own error")
	errPanic      = errors.New("the transaction's own panic")
)

// refuse runs operations in a transaction that comes to nothing.
func (w *worker) refuse(list []operation) {
	ways := []struct {
		name string
		run  func(level kv.Durability, list []operation) (read bool, err error)
	}{
		{"error", w.refuseByError},
		{"panic", w.refuseByPanic},
		{"panic of a change", w.refuseChangeByPanic},
		{"DISCARD", w.discard}, // from here on by commands
		{"EXEC after a change of what is watched", w.refuseByWatch},
	}
	n := len(ways)
	if !w.words {
		n -= 2
	}
	way, level := ways[w.rng.IntN(n)], w.level()
	read, err := way.run(level, list)
	if err != nil {
		w.fail(fmt.Errorf("worker %d: %s that ends by %s at level %s: %w", w.id, list, way.name, level, err))
		return
	}
	if read && level == kv.Always {
		w.acknowledge(w.own, w.own.len())
	}
}

// stageAll runs operations in a transaction, after a look at all keys of the worker.
func (w *worker) stageAll(tx *txntest.Tx, list []operation) error {
	if _, err := tx.Exists(w.own.keys...); err != nil {
		return err
	}
	for _, o := range list {
		if err := o.api(api{db: w.db, tx: tx}); err != nil {
			return fmt.Errorf("%s: %w", o, err)
		}
	}
	return nil
}

func (w *worker) refuseByError(level kv.Durability, list []operation) (read bool, err error) {
	err = txntest.Update(background, w.db, level, func(tx *txntest.Tx) error {
		if err := w.stageAll(tx, list); err != nil {
			return err
		}
		return errRolledBack
	})
	if errors.Is(err, errRolledBack) {
		return true, nil
	}
	return false, errors.Join(err, expect(err != nil, "a transaction that returned an error has committed"))
}

// refuseByPanic promises nothing of what was read: there is no answer.
func (w *worker) refuseByPanic(level kv.Durability, list []operation) (read bool, err error) {
	defer w.recoverOwn(&err)
	return false, txntest.Update(background, w.db, level, func(tx *txntest.Tx) error {
		if err := w.stageAll(tx, list); err != nil {
			return err
		}
		panic(errPanic)
	})
}

// refuseChangeByPanic panics in the middle of one change, in a transaction that goes on and then returns an error, or
// outside of any.
func (w *worker) refuseChangeByPanic(level kv.Durability, list []operation) (read bool, err error) {
	key := []byte(w.own.keys[w.rng.IntN(len(w.own.keys))])
	change := func(kw *kv.Writer) error {
		if _, err := kw.Delete(key); err != nil {
			return err
		}
		panic(errPanic)
	}
	if w.rng.IntN(2) == 0 {
		defer w.recoverOwn(&err)
		return false, w.db.Write(level, [][]byte{key}, change)
	}
	err = txntest.Update(background, w.db, level, func(tx *txntest.Tx) error {
		err := func() (err error) {
			defer w.recoverOwn(&err)
			return tx.Write(change)
		}()
		if err == nil {
			err = w.stageAll(tx, list) // as if nothing had been staged before
		}
		if err == nil {
			err = errRolledBack
		}
		return err
	})
	if errors.Is(err, errRolledBack) {
		return true, nil
	}
	return false, err
}

// recoverOwn ends the panic that was the worker's own. The error says of one that did not come that it is missing.
func (w *worker) recoverOwn(err *error) {
	switch p := recover(); {
	case p == errPanic:
		*err = nil
	case p != nil:
		panic(p)
	case *err == nil:
		*err = errors.New("a panic was lost")
	}
}

func (w *worker) discard(level kv.Durability, list []operation) (read bool, err error) {
	s := w.session(level)
	err = queue(s, list)
	return false, errors.Join(err, do(s, []string{"DISCARD"}, "OK"))
}

// refuseByWatch changes a key that is watched.
func (w *worker) refuseByWatch(level kv.Durability, list []operation) (read bool, err error) {
	key := w.own.keys[w.rng.IntN(len(w.own.keys))]
	s := w.session(level)
	if err := do(s, []string{"WATCH", key}, "OK"); err != nil {
		return false, err
	}
	o := w.set(&scene{held: w.held(w.own), now: w.now.Load()}, key)
	before := w.own.len()
	w.commit("change of what is watched, "+o.String(), []change{{w.own, o.to, o.added}}, func(level kv.Durability) error {
		return w.do(level, w.how(), []operation{o})
	})
	if w.own.len() == before || w.over.Load() {
		return false, nil // it failed, and said so
	}
	return true, errors.Join(queue(s, list), do(s, []string{"EXEC"}, "(nil)"))
}

// queue has the operations of a transaction queued.
func queue(s *module.Session, list []operation) error {
	if err := do(s, []string{"MULTI"}, "OK"); err != nil {
		return err
	}
	for _, o := range list {
		if err := do(s, o.words, "QUEUED"); err != nil {
			return err
		}
	}
	return nil
}
