package kv

import (
	"context"
	"errors"
	"slices"

	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/format"
	"github.com/sievekv/sievekv/kv/storage"
)

// Folding writes a block that has collected many operands back as a whole, so that reading it becomes one record
// again. It is a commit of its own, under the write lock of the block's key, with the block read anew under that
// lock. Done by the loader that noticed, without the lock, the whole block would be written after an operand it does
// not have, and lose it.

// foldRequest names a block to be folded.
type foldRequest struct {
	key                string
	object, layer, blk uint64
}

func (r foldRequest) About() string { return r.key }

// queueFold asks for a block to be folded some time. If there is no room for that, the next
// load of the block asks again.
func (db *DB) queueFold(key string, object, layer, blk uint64) {
	if !db.folds.Add(foldRequest{key, object, layer, blk}) {
		db.stats.foldsDropped.Add(1)
	}
}

// Fold serves queued requests until it has written about the given number of
// bytes or the queue is empty, and returns the bytes written.
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
	w, err := db.begin(NoSync, []byte(req.key))
	if err != nil {
		return 0, err
	}
	defer w.release()
	o, err := db.find([]byte(req.key), access{})
	if err != nil || o == nil || o.header.ID != req.object {
		return 0, err // the key holds something else by now
	}
	i := slices.IndexFunc(o.layers, func(l *Layer) bool { return l.spec.Number == req.layer })
	if i < 0 {
		return 0, nil
	}
	l := o.layers[i]
	value, err := db.foldedBlock(o, l, req.blk)
	if err != nil || value == nil {
		return 0, err
	}
	db.pauseAt("fold: read")
	must(w.batch.Set(format.AppendBlockKey(nil, l.object, l.spec.Number, req.blk), value, nil))
	// The block's content stays the same, so there is nothing to apply to the cache, no load to keep from being
	// installed, and nobody who has to wait for this to be on stable storage.
	db.apply.RLock()
	defer db.apply.RUnlock()
	if _, err := db.store.Commit(w.batch, false); err != nil {
		return 0, err
	}
	db.stats.folds.Add(1)
	return len(value), db.failure()
}

// foldedBlock reads a block's stored form and returns it written whole, nil if there is nothing to fold.
func (db *DB) foldedBlock(o *Object, l *Layer, blk uint64) ([]byte, error) {
	value, closer, err := db.store.Get(format.AppendBlockKey(nil, l.object, l.spec.Number, blk))
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, storage.ReadError(err, "key %q: fold of block %d of layer %d", o.key, blk, l.spec.Number)
	}
	_, words := l.newBlock()
	info, err := block.Decode(words, o.header.Family, value)
	if cerr := closer.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, storage.ReadError(err, "key %q: fold of block %d of layer %d", o.key, blk, l.spec.Number)
	}
	if info.Operands <= foldThreshold {
		return nil, nil
	}
	return block.AppendBlock(nil, o.header.Family, words), nil
}
