package kv

import (
	"context"
	"errors"
	"sync"
)

// The errors of transactions.
var (
	// ErrEnded is returned by the use of a transaction after its end.
	ErrEnded = errors.New("kv: transaction has ended")

	// ErrReadOnly is returned by a write in a view.
	ErrReadOnly = errors.New("kv: a view is read-only")
)

// Transaction is any number of reads and writes of any keys that are as one: either
// a writer that excludes all others until its end, and reads what it has written, or
// a view, which sees the store as of one commit and excludes nobody. Its users take
// turns. It is what package txn is made of.
type Transaction struct {
	db    *DB
	level Durability // of a writer

	mu      sync.Mutex
	w       *Writer // nil for a view; guarded by mu
	view    *view   // nil for a writer; guarded by mu
	ended   error   // guarded by mu
	settled bool    // nothing more has to come to stable storage for it; guarded by mu
	stop    func() bool
}

// Scope is what handles on filters can be bound to: a Transaction, or what holds one.
type Scope interface{ Scope() *Transaction }

// Scope returns the transaction.
func (tx *Transaction) Scope() *Transaction { return tx }

// BeginExclusive begins a transaction that writes. Until its end no other write of the
// store begins, and none is under way; lookups go on. It is rolled back when the
// context ends, or the store is closed. The errors are ErrClosed, ErrFailed, ErrNoSpace,
// and the context's.
func (db *DB) BeginExclusive(ctx context.Context, level Durability) (*Transaction, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w, err := db.beginAll(level)
	if err != nil {
		return nil, err
	}
	return db.track(ctx, &Transaction{db: db, level: w.level, w: w}), nil
}

// NewView begins a transaction that reads the store as it is now. What it costs others
// is the disk space of what they overwrite and delete until it ends.
func (db *DB) NewView(ctx context.Context) (*Transaction, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	v, err := db.newView()
	if err != nil {
		return nil, err
	}
	return db.track(ctx, &Transaction{db: db, view: v, settled: true}), nil
}

// track has a transaction ended by its context, and by Close.
func (db *DB) track(ctx context.Context, tx *Transaction) *Transaction {
	db.pauseAt("transaction: begun")
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

// end rolls back a transaction that has not ended.
func (tx *Transaction) end(why error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.ended == nil {
		tx.release(why)
		if tx.w != nil {
			tx.w.release()
		}
	}
}

// release ends a transaction but for its writer. The caller holds mu.
func (tx *Transaction) release(why error) {
	tx.ended = ErrEnded
	if why != nil {
		tx.ended = errors.Join(ErrEnded, why)
	}
	tx.db.transactions.Delete(tx)
	if tx.view != nil {
		tx.view.close()
	}
}

// Write runs one change with the transaction's writer, which may touch any keys. If the
// change returns an error or panics, what it staged is taken back, and the transaction
// goes on as it was before. Other users of the transaction wait meanwhile. The errors are
// the change's, ErrEnded and ErrReadOnly.
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
	return tx.w.runNested(change)
}

// Read runs a lookup as DB.Read does, once: nothing changes meanwhile.
func (tx *Transaction) Read(look func(Reader) error) error { return tx.read(nil, look) }

func (tx *Transaction) read(large func(value []byte) error, look func(Reader) error) error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.ended != nil {
		return tx.ended
	}
	if err := tx.db.settle(); err != nil {
		return err
	}
	return look(Reader{db: tx.db, w: tx.w, view: tx.view, large: large})
}

// Commit ends the transaction with everything staged in it, as one commit. The errors
// are those of DB.Write; after one nothing was written but for ErrFailed. The end
// of a view is nothing but that.
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

// Rollback ends the transaction without a change. It may be called after its end; after
// Commit it does nothing. Under Always it returns when everything that was read in the
// transaction is on stable storage: what its user knows from that, and says, is as good as
// what he commits. ErrFailed and ErrClosed say that it is not known to be.
func (tx *Transaction) Rollback() error {
	tx.stop()
	tx.end(nil)
	tx.mu.Lock()
	settled := tx.settled
	tx.settled = true
	tx.mu.Unlock()
	if settled || tx.level != Always {
		return nil
	}
	return tx.db.Sync()
}
