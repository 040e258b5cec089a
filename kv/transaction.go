package kv

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sievekv/sievekv/internal/gate"
)

// The errors of transactions.
var (
	// ErrEnded is returned when a transaction is used after its end.
	ErrEnded = errors.New("kv: transaction has ended")

	// ErrReadOnly is returned by a write in a transaction that only reads, and by a write to a store that is open
	// with Options.ReadOnly.
	ErrReadOnly = errors.New("kv: a view is read-only")
)

// Transaction is any number of reads and writes of any keys, as one. One kind writes: until its end no other write of
// the store begins, and it reads its own changes. The other kind, of View, only reads: it sees the store as of one
// commit, and keeps no write waiting. Goroutines that share a transaction take turns. Package txn is built on it.
type Transaction struct {
	db     *DB
	ctx    context.Context // the context it began with, marked as the transaction's
	level  Durability      // of the kind that writes
	epoch  uint64          // of its writer
	scoped bool            // it runs a function, for which it holds the gate

	uses gate.Uses // while a method runs

	mu       sync.Mutex
	w        *Writer   // nil for the kind that only reads; guarded by mu
	snapshot *snapshot // nil for the kind that writes; guarded by mu
	ended    error     // guarded by mu
	settled  bool      // nothing has to come to stable storage for it any more; guarded by mu
	over     bool      // its function has returned; guarded by mu
	left     bool      // its writer has ended, but it still holds the gate; guarded by mu
	stop     func() bool

	after map[string]*afterCommit // what is called after the commit; guarded by mu until then
}

// Scope is what handles on filters can be bound to: a Transaction, or a type that has one.
type Scope interface{ Scope() *Transaction }

// Scope returns the transaction.
func (tx *Transaction) Scope() *Transaction { return tx }

// DB returns the transaction's store. A write to the store that is not made by the transaction returns ErrNested or
// ErrBusy.
func (tx *Transaction) DB() *DB { return tx.db }

// inTransaction is the key under which the context of a transaction has the Transaction.
type inTransaction struct{}

// Context returns the context that the transaction began with, marked as the transaction's: a call that gets it and
// would wait for the transaction returns ErrNested.
func (tx *Transaction) Context() context.Context { return tx.ctx }

// Outside returns ErrNested for the context of a transaction that holds the gate: a write with this context that is
// not part of the transaction would wait for itself.
func (db *DB) Outside(ctx context.Context) error {
	tx, marked := ctx.Value(inTransaction{}).(*Transaction)
	if !marked || db.holder.Load() != tx {
		return nil
	}
	return fmt.Errorf("%w: write by the transaction whose context this is, or by a handle that is bound to it", ErrNested)
}

// enterTransaction returns an error for a context with which no transaction can begin.
func enterTransaction(ctx context.Context) error {
	if ctx.Value(inTransaction{}) != nil {
		return fmt.Errorf("%w: a transaction cannot begin with the context of another", ErrNested)
	}
	return ctx.Err()
}

// Update runs f in a transaction that writes. If f returns nil, Update commits what f staged. If f returns an error
// or panics, the transaction is rolled back, and Update returns the error or panics too. No other write of the store
// begins until f has returned, even if the end of the context has rolled the transaction back before. So a write by f
// that is not part of the transaction is never made: it would have to wait for f.
//
// What f stages takes memory until the commit: up to one and a half times MaxCommit, and a few times that for lists
// and copies of blocks. If f writes more, the write or the commit returns ErrTooLarge, and nothing is committed. What
// f reads takes no memory. The cache keeps to its size meanwhile.
//
// Under Always, Update returns when everything that f wrote or read is on stable storage. The errors are f's, or
// ErrFailed in its place, and the errors of BeginExclusive and DB.Write.
func (db *DB) Update(ctx context.Context, level Durability, f func(*Transaction) error) (err error) {
	tx, err := db.beginExclusive(ctx, level, true)
	if err != nil {
		return err
	}
	defer func() { // also when f panics; after Commit it does nothing
		tx.leave()
		if rerr := tx.Rollback(); rerr != nil {
			err = rerr
		}
	}()
	if err := gate.Run(func() error { return f(tx) }); err != nil {
		return err
	}
	return tx.commit()
}

// View runs f in a transaction that only reads, and returns f's error.
func (db *DB) View(ctx context.Context, f func(*Transaction) error) error {
	tx, err := db.NewView(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // it cannot fail without a writer
	return f(tx)
}

// BeginExclusive begins a transaction that writes. It waits for the writes under way, and no other write of the store
// begins until its end; lookups go on. It is rolled back when the context ends or the store is closed. The errors are
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
	tx := &Transaction{db: db, level: w.level, epoch: w.epoch, scoped: scoped, w: w}
	db.holder.Store(tx)
	return db.track(ctx, tx), nil
}

// NewView begins a transaction that reads the store as it is now. Until its end, the disk space of what others
// overwrite and delete is not reclaimed.
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

// track makes the end of the context, and Close, end a transaction.
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

// endTransactions ends the remaining transactions when the store is closed.
func (db *DB) endTransactions() {
	db.transactions.Range(func(tx, _ any) bool {
		tx.(*Transaction).end(ErrClosed)
		return true
	})
}

// end rolls back a transaction that has not ended. If the transaction runs a function, it holds the gate until the
// function returns.
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
		tx.db.gate.Refuse(ErrClosed) // otherwise Close would wait for writers that wait for the function
	}
}

// leave is called when the function of a transaction has returned.
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

// release ends a transaction, except its writer. The caller holds mu.
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
// panics, what it staged is undone, and the transaction goes on. Other uses of the transaction wait meanwhile. The
// errors are the change's, ErrEnded and ErrReadOnly.
//
// The change must use the transaction by its writer alone: any other use would wait for itself.
func (tx *Transaction) Write(change func(*Writer) error) error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	switch {
	case tx.ended != nil:
		return tx.ended
	case tx.w == nil:
		return ErrReadOnly
	}
	tx.uses.Begin()
	defer tx.uses.End()
	return tx.w.runWithSavepoint(change)
}

// Read runs a lookup, as DB.Read does. It runs it once, unless it is a view's and a commit has changed a block that the
// lookup has read in memory: then Read runs it again, for the answer as of the view.
func (tx *Transaction) Read(look func(Reader) error) error { return tx.read(nil, look) }

// ReadWith is Read with the option Large. The other options have no effect: a transaction reads as of one commit
// anyway.
func (tx *Transaction) ReadWith(o ReadOptions, look func(Reader) error) error {
	return tx.read(o.Large, look)
}

func (tx *Transaction) read(large func(value []byte) error, look func(Reader) error) error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.ended != nil {
		return tx.ended
	}
	tx.uses.Begin()
	defer tx.uses.End()
	if err := tx.db.awaitSequence(); err != nil {
		return err
	}
	if tx.w == nil {
		return tx.snapshot.lookup(func() error { return look(Reader{tx.db, tx.snapshot, tx.snapshot.now, large}) })
	}
	return look(Reader{tx.db, tx.w, tx.w.Now(), large})
}

// Commit ends the transaction and commits everything staged in it as one. It returns the errors of DB.Write. After any
// error but ErrFailed nothing was written. In the function of Update it returns an error and does nothing.
func (tx *Transaction) Commit() error {
	if tx.scoped {
		return errors.New("kv: Commit inside the function of Update, which commits when the function returns nil")
	}
	return tx.commit()
}

// AfterCommit calls a function after a successful commit, in the goroutine that commits, with the sum of n over all
// calls for the same key. The call holds no locks, and may make commits of its own. Key names the function.
func (tx *Transaction) AfterCommit(key string, n int, f func(n int)) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.ended != nil {
		return
	}
	if tx.after == nil {
		tx.after = make(map[string]*afterCommit)
	}
	a := tx.after[key]
	if a == nil {
		a = &afterCommit{f: f}
		tx.after[key] = a
	}
	a.n += n
}

type afterCommit struct {
	n int
	f func(n int)
}

func (tx *Transaction) commit() error {
	if err := tx.commitStaged(); err != nil {
		return err
	}
	for _, a := range tx.after { // nothing adds to it any more
		a.f(a.n)
	}
	return nil
}

func (tx *Transaction) commitStaged() error {
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
// Always it returns when everything that was read in the transaction is on stable storage, so that the caller may tell
// what it has read. After ErrFailed and ErrClosed the caller may not tell it, because it may be lost.
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
	if g := tx.db.store.Group; g != nil {
		return g.SettleAll(tx.epoch)
	}
	return tx.db.Settle(tx.level)
}
