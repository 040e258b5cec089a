package kv

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/sievekv/sievekv/kv/storage"
)

// Writer stages changes, which are committed as one: all of them or none, within one Pebble batch. It reads its own
// changes. DB.Write, Transaction.Write and Call.Write give one to a function, which may use it until it returns. A
// Writer holds the write locks of its keys until then, so keep the function short. It is for one goroutine.
//
// A Writer touches only the keys that it was made for.
type Writer struct {
	db    *DB
	level Durability
	keys  []uint8 // indices of the key locks held, ascending
	gate  gateHold

	batch *storage.Batch
	changes
	copied []*slotBlock // blocks of slots there are copies of, and perhaps some more
	spare  [][]uint64   // memory for blocks of slots

	// The last block read from disk: a batch sorted by block reads each once, also when the cache does not keep it.
	lastLayer *Layer
	lastBlk   uint64
	lastFirst *Line

	builds     []uint64  // ids of objects this writer has begun to build
	savepoint  savepoint // of a transaction's writer
	uses       uint64    // of it, so far
	unmeasured int       // bytes staged since it was last looked whether they fit into a commit
	unsifted   int       // and since it was looked what of them is gone
	tooLarge   error     // they do not fit
	steps      int       // things staged that were looked at in search of one, ever, for tests

	moment int64 // see now; meaningful if timed
	timed  bool

	sequence bool // has to be applied under the sequence lock
	unseen   bool // nothing changes for lookups: what is changed does not exist for them, or only moves
	groups   []groupDelta

	little    storage.SmallCommit // memory for smallCommit
	applier   applier
	scratch   []byte
	positions []uint16
}

// gateHold is how a writer holds the gate: shared beside its key locks, or
// exclusively, which makes every key its own.
type gateHold uint8

const (
	gateNone gateHold = iota
	gateShared
	gateExclusive
)

var writers = sync.Pool{New: func() any { return new(Writer) }}

// Write runs change with a writer to the given keys, and commits what it staged. If
// change returns an error or panics, nothing is written; the error is returned, and the
// panic goes on. Either way the keys' locks are free when Write returns.
//
// Under Always, Write returns when what it wrote is on stable storage, and when everything is that its answer was
// based on: with an error or a panic, too, which may say that a key is there, or missing, or full. The errors are
// change's, or in its place ErrFailed, and ErrClosed, ErrNoSpace, ErrBusy, ErrNested and ErrTooLarge: for a key above
// MaxKeyLen, or for more than a commit takes, MaxCommit. After ErrFailed the outcome is unknown; after any other
// error nothing was written.
//
// Change must not write to the store but by the writer: it would wait for itself.
func (db *DB) Write(level Durability, keys [][]byte, change func(*Writer) error) error {
	w, err := db.begin(level, keys...)
	if err != nil {
		return err
	}
	return w.run(change)
}

// run has change stage what is committed then, and ends the writer, however change ends.
func (w *Writer) run(change func(*Writer) error) error {
	returned := false
	defer func() {
		if !returned { // change panicked, or ended its goroutine, which may be an answer as any
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

// begin starts a write to the given keys. The writer must be ended by commit, refuse or release.
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
	return w, nil
}

// beginAll starts a write to any keys, alone. Waiting for that ends with the context.
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
	return w, nil
}

func (db *DB) newWriter(level Durability) (*Writer, error) {
	if err := db.enter(); err != nil {
		return nil, err
	}
	if db.store.Space.Exhausted() {
		db.exit()
		return nil, db.noSpace()
	}
	w := writers.Get().(*Writer)
	w.db, w.level = db, db.level(level)
	w.batch = db.store.NewBatch()
	return w, nil
}

func (db *DB) noSpace() error {
	also := ", only deletions are accepted"
	if db.store.Space.Exhausted() {
		also = ", and the reserve is used up"
	}
	return fmt.Errorf("%w: less than %d bytes free in %s%s", ErrNoSpace, db.opts.MinFreeSpace, db.dir, also)
}

// unlock lets other writers at the keys.
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

// release returns everything the writer holds.
func (w *Writer) release() {
	w.unlock()
	_ = w.batch.Close() // releases memory, cannot fail
	w.db.exit()
	w.savepoint = savepoint{}
	clear(w.applier.layers)
	w.applier = applier{layers: w.applier.layers[:0]}
	w.releaseChanges()
	w.groups = w.groups[:0]
	for _, id := range w.builds {
		w.db.building.Delete(id)
	}
	w.builds = w.builds[:0]
	w.db, w.batch, w.lastLayer, w.lastFirst = nil, nil, nil, nil
	w.sequence, w.unseen, w.uses, w.timed = false, false, 0, false
	w.unmeasured, w.unsifted, w.tooLarge = 0, 0, nil
	writers.Put(w)
}

// refuse ends the writer without a change and returns err, the answer it came to: a key that is there, or missing, or
// full. Under Always it returns when everything that answer was based on is on stable storage, as commit does;
// ErrFailed takes the place of err if that fails.
func (w *Writer) refuse(err error) error {
	defer w.release()
	return w.answer(err)
}

// answer is refuse for a writer that is released elsewhere.
func (w *Writer) answer(err error) error {
	if serr := w.settleAnswer(); serr != nil {
		return serr
	}
	return err
}

// settleAnswer lets go of the keys and waits until what was read of them is as durable as the level asks for.
// Everything committed to these keys has its number by now.
func (w *Writer) settleAnswer() error {
	w.unlock()
	if w.level != Always {
		return nil
	}
	return w.db.store.Sync()
}

// DB returns the store that is written to.
func (w *Writer) DB() *DB { return w.db }

// Now returns the time by which keys have expired for the writer, in Unix milliseconds. It is one moment, that of the
// first question: keys that expire together are all there, or all missing, in all that a transaction does.
func (w *Writer) Now() int64 {
	if !w.timed {
		w.moment, w.timed = w.db.Now(), true
	}
	return w.moment
}

// block returns a block as the last commit left it. The key's write lock is held, so nobody is changing it.
func (w *Writer) block(o *Object, l *Layer, blk uint64) (*Line, error) {
	if first := l.Resident(blk); first != nil {
		return first, nil
	}
	if s := w.stagedLayer(l); s != nil && s.madeFor != nil {
		return zeroLine, nil
	}
	if w.lastLayer == l && w.lastBlk == blk {
		return w.lastFirst, nil
	}
	first, err := w.db.load(o, l, blk, false)
	if err == nil {
		w.lastLayer, w.lastBlk, w.lastFirst = l, blk, first
	}
	return first, err
}

// delete stages a Delete; key was built in w.scratch.
func (w *Writer) delete(key []byte) {
	w.scratch = key
	must(w.batch.Delete(key, nil))
}

// set stages a Set; key was built in w.scratch.
func (w *Writer) set(key, value []byte) {
	w.scratch = key
	must(w.batch.Set(key, value, nil))
}

// must is for batch operations, whose errors only tell of a batch already
// committed or a value of 4 GiB: mistakes of this package.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
