package kv

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// The errors of transactions.
var (
	// ErrEnded is returned by the use of a transaction after its end.
	ErrEnded = errors.New("kv: transaction has ended")

	// ErrReadOnly is returned by a write in a view.
	ErrReadOnly = errors.New("kv: a view is read-only")
)

// Transaction is any number of reads and writes of any keys that are as one: either a writer that excludes all others
// until its end, and reads what it has written, or a view, which sees the store as of one commit and excludes nobody.
// Its users take turns. It is what package txn is made of.
type Transaction struct {
	db     *DB
	ctx    context.Context // that it was begun with, marked as its own
	level  Durability      // of a writer
	scoped bool            // it is of a function, for which the gate is held

	// steps counts the beginnings and the ends of uses: it is odd while somebody uses it.
	steps atomic.Uint64

	mu       sync.Mutex
	w        *Writer   // nil for a view; guarded by mu
	snapshot *snapshot // nil for a writer; guarded by mu
	ended    error     // guarded by mu
	settled  bool      // nothing more has to come to stable storage for it; guarded by mu
	over     bool      // its function is; guarded by mu
	left     bool      // its writer has gone, but not the gate; guarded by mu
	stop     func() bool
}

// Scope is what handles on filters can be bound to: a Transaction, or what holds one.
type Scope interface{ Scope() *Transaction }

// Scope returns the transaction.
func (tx *Transaction) Scope() *Transaction { return tx }

// DB returns the store that the transaction is of. A write to it, and not by the
// transaction, returns ErrNested or ErrBusy.
func (tx *Transaction) DB() *DB { return tx.db }

// inTransaction is what the context of a transaction has its Transaction under.
type inTransaction struct{}

// Context returns the context the transaction was begun with, as the transaction's own: a
// call that is given it, and would wait for the transaction, returns ErrNested.
func (tx *Transaction) Context() context.Context { return tx.ctx }

// Outside returns ErrNested for the context of a transaction that keeps other writes of the
// store waiting: one that is not part of it would wait for its end.
func (db *DB) Outside(ctx context.Context) error {
	tx, marked := ctx.Value(inTransaction{}).(*Transaction)
	if !marked || db.holder.Load() != tx {
		return nil
	}
	return fmt.Errorf("%w: write by the transaction whose context this is, or by a handle that is bound to it", ErrNested)
}

// enterTransaction returns the error of a context that no transaction can begin with.
func enterTransaction(ctx context.Context) error {
	if ctx.Value(inTransaction{}) != nil {
		return fmt.Errorf("%w: a transaction cannot begin with the context of another", ErrNested)
	}
	return ctx.Err()
}

// Update runs f in a transaction, and commits what f staged if it returns nil. If it returns an error or panics, the
// transaction is rolled back, and Update returns the error, or panics too. Until f has returned no other write of the
// store begins, not even if the transaction was rolled back before, by the end of its context: so that a write of f's
// past the transaction, which waits for its end, is not made after all.
//
// What is written takes memory until the commit: of the size of a commit, MaxCommit, and half
// of one more, with the lists and copies of blocks that belong to it a few times that. A
// transaction that writes more is refused with ErrTooLarge, by the write or the commit, and then
// commits nothing. What is read is not kept. The cache keeps to its size meanwhile.
//
// Under Always, Update returns when everything that was written or read in the transaction is on stable storage. The
// errors are f's, or in its place ErrFailed, and those of BeginExclusive and DB.Write.
func (db *DB) Update(ctx context.Context, level Durability, f func(*Transaction) error) (err error) {
	tx, err := db.beginExclusive(ctx, level, true)
	if err != nil {
		return err
	}
	defer func() { // also if f panics; after Commit it does nothing
		tx.leave()
		if rerr := tx.Rollback(); rerr != nil {
			err = rerr
		}
	}()
	if err := runFunction(tx, f); err != nil {
		return err
	}
	return tx.Commit()
}

// View runs f with a view of the store. It returns f's error.
func (db *DB) View(ctx context.Context, f func(*Transaction) error) error {
	tx, err := db.NewView(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // of a view it cannot fail
	return f(tx)
}

// BeginExclusive begins a transaction that writes. Until its end no other write of the store begins, and none is
// under way; lookups go on. It is rolled back when the context ends, or the store is closed. The errors are
// ErrClosed, ErrFailed, ErrNoSpace, ErrBusy, ErrNested, and the context's.
func (db *DB) BeginExclusive(ctx context.Context, level Durability) (*Transaction, error) {
	return db.beginExclusive(ctx, level, false)
}

func (db *DB) beginExclusive(ctx context.Context, level Durability, scoped bool) (*Transaction, error) {
	if err := enterTransaction(ctx); err != nil {
		return nil, err
	}
	w, err := db.beginAll(ctx, level)
	if err != nil {
		return nil, err
	}
	tx := &Transaction{db: db, level: w.level, scoped: scoped, w: w}
	db.holder.Store(tx)
	return db.track(ctx, tx), nil
}

// NewView begins a transaction that reads the store as it is now. What it costs others
// is the disk space of what they overwrite and delete until it ends.
func (db *DB) NewView(ctx context.Context) (*Transaction, error) {
	if err := enterTransaction(ctx); err != nil {
		return nil, err
	}
	v, err := db.newSnapshot()
	if err != nil {
		return nil, err
	}
	return db.track(ctx, &Transaction{db: db, snapshot: v, settled: true}), nil
}

// track has a transaction ended by its context, and by Close.
func (db *DB) track(ctx context.Context, tx *Transaction) *Transaction {
	db.pauseAt("transaction: begun")
	tx.ctx = context.WithValue(ctx, inTransaction{}, tx)
	db.transactions.Store(tx, struct{}{})
	tx.stop = context.AfterFunc(ctx, func() { tx.end(context.Cause(ctx)) })
	if db.closing.Load() {
		tx.end(ErrClosed)
	}
	return tx
}

// endTransactions ends those that are left when the store is closed.
func (db *DB) endTransactions() {
	db.transactions.Range(func(tx, _ any) bool {
		tx.(*Transaction).end(ErrClosed)
		return true
	})
}

// end rolls back a transaction that has not ended. The gate stays shut until its function leaves, if it has one.
func (tx *Transaction) end(why error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.ended == nil {
		tx.release(why)
		if tx.w != nil {
			if tx.scoped && !tx.over {
				tx.left, tx.w.gate = true, gateNone
			}
			tx.w.release()
		}
	}
	if tx.left && errors.Is(why, ErrClosed) {
		tx.db.gate.Refuse(ErrClosed) // Close would wait for those who wait for the function
	}
}

// leave tells that the function of a transaction is over.
func (tx *Transaction) leave() {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.over = true
	if tx.left {
		tx.left = false
		tx.db.unlockGate()
	}
	if tx.ended != nil {
		tx.db.transactions.Delete(tx)
	}
}

// release ends a transaction but for its writer. The caller holds mu.
func (tx *Transaction) release(why error) {
	tx.ended = ErrEnded
	if why != nil {
		tx.ended = fmt.Errorf("%w: %w", ErrEnded, why)
	}
	if !tx.scoped || tx.over {
		tx.db.transactions.Delete(tx)
	}
	if tx.snapshot != nil {
		tx.snapshot.close()
	}
}

// Write runs one change with the transaction's writer, which may touch any keys. If the change returns an error or
// panics, what it staged is taken back, and the transaction goes on as it was before. Other users of the transaction
// wait meanwhile. The errors are the change's, ErrEnded and ErrReadOnly.
//
// The change must not use the transaction but by the writer: it would wait for itself.
func (tx *Transaction) Write(change func(*Writer) error) error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	switch {
	case tx.ended != nil:
		return tx.ended
	case tx.w == nil:
		return ErrReadOnly
	}
	tx.steps.Add(1)
	defer tx.steps.Add(1)
	return tx.w.runWithSavepoint(change)
}

// Read runs a lookup as DB.Read does, once: nothing changes meanwhile.
func (tx *Transaction) Read(look func(Reader) error) error { return tx.read(nil, look) }

// ReadWith is Read with Large of the options. The others change nothing: what a transaction reads is
// of one moment, and keeps nobody waiting.
func (tx *Transaction) ReadWith(o ReadOptions, look func(Reader) error) error {
	return tx.read(o.Large, look)
}

func (tx *Transaction) read(large func(value []byte) error, look func(Reader) error) error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.ended != nil {
		return tx.ended
	}
	tx.steps.Add(1)
	defer tx.steps.Add(1)
	if err := tx.db.settle(); err != nil {
		return err
	}
	if tx.w == nil {
		return look(Reader{tx.db, tx.snapshot, tx.snapshot.now, large})
	}
	return look(Reader{tx.db, tx.w, tx.w.Now(), large})
}

// Commit ends the transaction with everything staged in it, as one commit. The errors are those of DB.Write; after
// one nothing was written but for ErrFailed. The end of a view is nothing but that.
func (tx *Transaction) Commit() error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.ended != nil {
		return tx.ended
	}
	tx.stop()
	tx.release(nil)
	tx.settled = true
	if tx.w == nil {
		return nil
	}
	return tx.w.commit()
}

// Rollback ends the transaction without a change. It may be called after its end; after Commit it does nothing. Under
// Always it returns when everything that was read in the transaction is on stable storage: what its user knows from
// that, and says, is as good as what he commits. ErrFailed and ErrClosed say that it is not known to be.
func (tx *Transaction) Rollback() error {
	tx.stop()
	tx.end(nil)
	tx.mu.Lock()
	settled := tx.settled
	tx.settled = true
	tx.mu.Unlock()
	if settled {
		return nil
	}
	return tx.db.Settle(tx.level)
}
