package kv

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/sievekv/sievekv/internal/memory"
	"github.com/sievekv/sievekv/internal/storage"
)

// Writer stages changes that are committed as one. It reads its own changes. DB.Write, Transaction.Write and
// module.Call.Write pass a Writer to a function, which may use it until it returns, in one goroutine. Until then the
// Writer holds the write locks of its keys, so the function should be short.
//
// A Writer may only touch the keys that it was made for.
type Writer struct {
	db    *DB
	level Durability
	epoch uint64  // see storage.Group; 0 in a store that is alone
	keys  []uint8 // indices of the key locks that it holds, ascending
	gate  gateHold

	batch storage.Batch
	changes
	copied []*slotBlock // blocks of slots that have copies, and perhaps some that gave them up
	spare  [][]uint64   // memory for blocks of slots

	// The last block read from disk, so that a batch sorted by block reads each block once, even if the cache does
	// not keep it.
	lastLayer *Layer
	lastBlk   uint64
	lastFirst *Line

	builds     []uint64  // ids of objects this writer has begun to build
	savepoint  savepoint // of the change of a transaction that is under way
	uses       uint64    // changes of the transaction so far
	unmeasured int       // bytes staged since their sum was compared with a commit's limit
	unsifted   int       // bytes staged since sift looked for dropped layers
	tooLarge   error     // what was staged does not fit into a commit
	steps      int       // staged things that searches have looked at since the program began, for tests

	moment int64 // see Now; set if timed
	timed  bool

	sequence bool // the commit has to be applied under the sequence lock
	unseen   bool // lookups do not see the change: it concerns expired keys, or entries move
	groups   []groupDelta

	applier   applier
	scratch   []byte
	positions []uint16
}

// gateHold is how a writer holds the gate: it shares it and holds key locks, or has it alone, which stands for the
// locks of all keys.
type gateHold uint8

const (
	gateNone gateHold = iota
	gateShared
	gateExclusive
)

var writers = sync.Pool{New: func() any { return new(Writer) }}

// Write runs change with a writer of the given keys, and commits what change staged. If change returns an error or
// panics, nothing is written, and Write returns the error or panics too. In any case the keys' locks are free when
// Write returns.
//
// Under Always, Write returns when what it wrote, and everything that its answer was based on, is on stable storage.
// This includes errors and panics, which may tell that a key exists, or is missing, or is full. The errors are
// change's, or ErrFailed in its place; and ErrClosed, ErrNoSpace, ErrBusy, ErrNested and ErrTooLarge (a key above
// MaxKeyLen, or more than MaxCommit). In a group Write returns ErrNotLeader, or ErrOutcomeUnknown. After that and after
// ErrFailed the outcome is unknown. After any other error nothing was written.
//
// Change must write to the store by the writer alone: any other write would wait for itself.
func (db *DB) Write(level Durability, keys [][]byte, change func(*Writer) error) error {
	w, err := db.begin(level, keys...)
	if err != nil {
		return err
	}
	return w.run(change)
}

// run runs change, commits what it staged, and ends the writer, whatever change does.
func (w *Writer) run(change func(*Writer) error) error {
	returned := false
	defer func() {
		if !returned { // change panicked, or ended its goroutine: this can be an answer too
			_ = w.refuse(nil)
		}
	}()
	err := change(w)
	returned = true
	if err != nil {
		return w.refuse(err)
	}
	return w.commit()
}

// begin begins a write of the given keys. Commit, refuse or release must end the writer.
func (db *DB) begin(level Durability, keys ...[]byte) (*Writer, error) {
	if db.inside() {
		return nil, fmt.Errorf("%w: write by the transaction, or by a handle that is bound to it", ErrNested)
	}
	w, err := db.newWriter(level)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		w.keys = append(w.keys, db.keyLockIndex(key))
	}
	slices.Sort(w.keys)
	w.keys = slices.Compact(w.keys)
	for _, i := range w.keys {
		db.keyLocks[i].Lock()
	}
	if err := db.passGate(context.Background(), false); err != nil {
		w.release()
		return nil, err
	}
	w.gate = gateShared
	return w.fenced()
}

// fenced takes the epoch, when the writer has its locks.
func (w *Writer) fenced() (_ *Writer, err error) {
	if w.epoch, err = w.db.leads(); err != nil {
		w.release()
		return nil, err
	}
	return w, nil
}

// beginAll begins a write of any keys, with the gate held alone. It stops waiting for the gate when the context ends.
func (db *DB) beginAll(ctx context.Context, level Durability) (*Writer, error) {
	if db.inside() {
		return nil, fmt.Errorf("%w: write by the transaction", ErrNested)
	}
	w, err := db.newWriter(level)
	if err != nil {
		return nil, err
	}
	if err := db.passGate(ctx, true); err != nil {
		w.release()
		return nil, err
	}
	w.gate = gateExclusive
	return w.fenced()
}

func (db *DB) newWriter(level Durability) (*Writer, error) {
	if level > NoSync {
		return nil, fmt.Errorf("%w: level of durability %d: Always, EverySec or NoSync, 0 for Options.Durability", ErrOptions, level)
	}
	if err := db.readOnly(); err != nil {
		return nil, err
	}
	if err := db.enter(); err != nil {
		return nil, err
	}
	epoch, err := db.leads()
	if err == nil && db.store.Space.Exhausted() {
		err = db.noSpace()
	}
	if err != nil {
		db.exit()
		return nil, err
	}
	w := writers.Get().(*Writer)
	w.db, w.level, w.epoch = db, db.level(level), epoch
	return w, nil
}

func (db *DB) noSpace() error { return fmt.Errorf("%w: %s", ErrNoSpace, storage.FullDisk(db.store)) }

// unlock gives back the gate and the key locks.
func (w *Writer) unlock() {
	switch w.gate {
	case gateShared:
		w.db.gate.RUnlock()
	case gateExclusive:
		w.db.unlockGate()
	}
	w.gate = gateNone
	for _, i := range w.keys {
		w.db.keyLocks[i].Unlock()
	}
	w.keys = w.keys[:0]
}

// release gives back everything that the writer has.
func (w *Writer) release() {
	w.unlock()
	w.batch.Reset()
	w.db.exit()
	w.savepoint = savepoint{}
	w.releaseChanges()
	w.groups = w.groups[:0]
	for _, id := range w.builds {
		w.db.building.Delete(id)
	}
	w.builds = w.builds[:0]
	w.db, w.lastLayer, w.lastFirst = nil, nil, nil
	w.sequence, w.unseen, w.uses, w.timed = false, false, 0, false
	w.unmeasured, w.unsifted, w.tooLarge = 0, 0, nil
	writers.Put(w)
}

// refuse ends the writer without a commit and returns err. The error is an answer: that a key exists, or is missing,
// or is full. So under Always refuse returns when everything that the answer was based on is on stable storage, as
// commit does, or returns ErrFailed in place of err.
func (w *Writer) refuse(err error) error {
	defer w.release()
	return w.answer(err)
}

// answer is refuse without the release of the writer.
func (w *Writer) answer(err error) error {
	if serr := w.settleAnswer(); serr != nil {
		return serr
	}
	return err
}

// settleAnswer gives back the locks and waits until everything read under them is as durable as the level says; in a
// group, until it is applied. Every commit of these keys has its number by now.
func (w *Writer) settleAnswer() error {
	w.unlock()
	if g := w.db.store.Group; g != nil {
		return g.SettleAll(w.epoch)
	}
	if w.level != Always {
		return nil
	}
	return w.db.store.Sync()
}

// DB returns the writer's store.
func (w *Writer) DB() *DB { return w.db }

// Now returns the time by which keys have expired for the writer, in Unix milliseconds. It is the time of the first
// call: keys that expire at the same time are all there, or all missing, in the whole of a transaction.
func (w *Writer) Now() int64 {
	if !w.timed {
		w.moment, w.timed = w.db.Now(), true
	}
	return w.moment
}

// block returns a block as of the last commit. The writer holds the lock of the key, so no commit changes the block.
func (w *Writer) block(o *Object, l *Layer, blk uint64) (*Line, error) {
	if first := l.InMemory(blk); first != nil {
		return first, nil
	}
	if s := w.stagedLayer(l); s != nil && s.madeFor != nil {
		return memory.ZeroLine, nil
	}
	if w.lastLayer == l && w.lastBlk == blk {
		return w.lastFirst, nil
	}
	first, err := w.db.load(o, l, blk)
	if err == nil {
		w.lastLayer, w.lastBlk, w.lastFirst = l, blk, first
	}
	return first, err
}

// delete adds a Delete to the batch. Key was built in w.scratch.
func (w *Writer) delete(key []byte) {
	w.scratch = key[:0]
	w.batch.Delete(key)
}

// set adds a Set to the batch. Key was built in w.scratch.
func (w *Writer) set(key, value []byte) {
	w.scratch = key[:0]
	w.batch.Set(key, value)
}
