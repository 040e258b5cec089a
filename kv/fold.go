package kv

import (
	"context"
	"errors"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/storage"
)

// A block that has collected many operands is folded: it is written back whole, so that reading it takes one record
// again. This is a commit of its own. It holds the write lock of the block's key, and reads the block again under the
// lock. Without the lock, the whole block could be written after an operand that it does not contain, and that
// operand would be lost.

// foldRequest names a block to be folded.
type foldRequest struct {
	key                string
	object, layer, blk uint64
}

func (r foldRequest) About() string { return r.key }

// queueFold asks for a block to be folded later. If the queue is full, the next load of the block asks again.
func (db *DB) queueFold(key string, object, layer, blk uint64) {
	if !db.folds.Add(foldRequest{key, object, layer, blk}) {
		db.stats.foldsDropped.Add(1)
	}
}

// Fold, for services, folds queued blocks until it has written about budget bytes or the queue is empty. It returns
// the bytes written.
func (db *DB) Fold(ctx context.Context, budget int) (int, error) {
	done := 0
	for done < budget && ctx.Err() == nil {
		req, found := db.folds.Take()
		if !found {
			break
		}
		n, err := db.foldBlock(req)
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, ctx.Err()
}

// FoldBacklog returns the number of blocks waiting to be folded.
func (db *DB) FoldBacklog() int { return db.folds.Len() }

func (db *DB) foldBlock(req foldRequest) (int, error) {
	if db.store.Space.Full() {
		return 0, db.noSpace()
	}
	if db.store.Group != nil {
		return db.foldHere(req)
	}
	w, err := db.begin(NoSync, []byte(req.key))
	if err != nil {
		return 0, err
	}
	defer w.release()
	o, err := db.find([]byte(req.key), nil)
	if err != nil || o == nil || o.header.ID != req.object {
		return 0, err // something else is under the key now
	}
	l := o.layer(req.layer)
	if l == nil {
		return 0, nil
	}
	value, err := db.foldedBlock(db.store, o, l, req.blk)
	if err != nil || value == nil {
		return 0, err
	}
	db.pauseAt("fold: read")
	w.batch.Set(format.AppendBlockKey(nil, l.Object(), l.Number(), req.blk), value)
	// The content of the block stays the same. So the cache needs no change, and loads may go on. A later answer at
	// Always that wrote nothing may sync once for this commit: safe, only slower.
	db.apply.RLock()
	defer db.apply.RUnlock()
	if _, err := db.store.Commit(&w.batch, storage.Now); err != nil {
		return 0, err
	}
	db.stats.folds.Add(1)
	return len(value), db.failure()
}

// foldHere is foldBlock for a member of a group. Each member folds for itself: the content of the block stays the same.
// Between two messages nothing else changes what Pebble has of the block. Pending changes go to Pebble later, and are
// not folded.
func (db *DB) foldHere(req foldRequest) (int, error) {
	if err := db.enter(); err != nil {
		return 0, err
	}
	defer db.exit()
	db.applying.Lock()
	defer db.applying.Unlock()
	o, err := db.find([]byte(req.key), nil)
	if err != nil || o == nil || o.header.ID != req.object {
		return 0, err
	}
	l := o.layer(req.layer)
	if l == nil {
		return 0, nil
	}
	value, err := db.foldedBlock(storage.Disk(db.store), o, l, req.blk)
	if err != nil || value == nil {
		return 0, err
	}
	var b storage.Batch
	b.Set(format.AppendBlockKey(nil, l.Object(), l.Number(), req.blk), value)
	if err := db.store.Group.Write(&b); err != nil {
		return 0, err
	}
	db.stats.folds.Add(1)
	return len(value), nil
}

// foldedBlock reads a block's stored form and returns its folded form, nil if there is nothing to fold.
func (db *DB) foldedBlock(from storage.Reader, o *Object, l *Layer, blk uint64) ([]byte, error) {
	value, closer, err := from.Get(format.AppendBlockKey(nil, l.Object(), l.Number(), blk))
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, storage.ReadError(err, "key %q: fold of block %d of layer %d", o.key, blk, l.Number())
	}
	_, words := l.NewBlock()
	info, err := block.Decode(words, o.header.Family, value)
	if cerr := closer.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, storage.ReadError(err, "key %q: fold of block %d of layer %d", o.key, blk, l.Number())
	}
	if info.Operands <= foldThreshold {
		return nil, nil
	}
	return block.AppendBlock(nil, o.header.Family, words), nil
}
