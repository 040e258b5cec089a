package kv

import (
	"context"
	"errors"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/storage"
)

// NextBlock returns the first block of a layer, from one on, that may have something in it: it is stored, or this
// writer has changed it. It is the number of the layer's blocks if there is none. A layer may claim any number of
// blocks, so code that visits all blocks with content goes from one to the next.
func (w *Writer) NextBlock(o *Object, l *Layer, from uint64) (next uint64, err error) {
	next = l.Spec().Blocks
	w.eachStagedBlock(l, func(blk uint64) {
		if blk >= from {
			next = min(next, blk)
		}
	})
	if s := w.stagedLayer(l); from >= next || s != nil && s.madeFor != nil {
		return next, nil // the stored blocks may belong to an earlier layer with the same number
	}
	low, end := format.AppendBlockKey(nil, l.Object(), l.Number(), from), format.AppendBlockKey(nil, l.Object(), l.Number(), next)
	it, err := w.db.iterate(context.Background(), low, end)
	if err != nil {
		return 0, storage.ReadError(err, "key %q: next block", o.key)
	}
	if it.First() {
		var k format.ObjectKey
		k, err = format.DecodeObjectKey(it.Key())
		next = k.Rest
	}
	if err = errors.Join(err, it.Close()); err != nil {
		return 0, storage.ReadError(err, "key %q: next block", o.key)
	}
	return next, nil
}
