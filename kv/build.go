package kv

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv/kv/block"
)

// An object may be larger than a commit. Build writes its blocks ahead, in
// batches of their own, under an id that no header has; the commit then puts the
// header in place, and all of it is there at once. A note is written first, as for
// a dropped object, which the commit takes away again: of a build that ended in a
// crash or a refusal the reclaiming removes every trace.

// buildBatch is about how many bytes Build writes at once.
const buildBatch = 1 << 20

// Builder takes the blocks of an object being built.
type Builder struct {
	ctx    context.Context
	w      *Writer
	object *Object
	batch  *pebble.Batch
	value  []byte
}

// Build is Create with blocks, which fill gives to the Builder. They may be more
// than a commit takes: only the commit makes them visible. Fill may read from the
// store, and stage counters with this writer; an error of its ends the build and
// is returned.
func (w *Writer) Build(ctx context.Context, key []byte, s Spec, fill func(*Builder) error) (*Object, error) {
	o, err := w.create(key, s)
	if err != nil {
		return nil, err
	}
	id := o.header.id
	w.db.building.Store(id, struct{}{})
	w.builds = append(w.builds, id)
	if err := w.db.pebble.Set(appendDroppedKey(nil, id), []byte{droppedUnwritten}, pebble.NoSync); err != nil {
		return nil, w.db.fail(fmt.Errorf("kv: build of key %q: %w", key, err))
	}
	for _, l := range o.layers {
		if l.dir == nil {
			l.one.Store(zeroLine)
		}
	}
	b := &Builder{ctx: ctx, w: w, object: o, batch: w.db.pebble.NewBatch()}
	defer func() { _ = b.batch.Close() }() // releases memory, cannot fail
	if err := fill(b); err != nil {
		return nil, err
	}
	if err := b.flush(); err != nil {
		return nil, err
	}
	must(w.batch.Delete(appendDroppedKey(nil, id), nil))
	return o, nil
}

// Object returns the object being built.
func (b *Builder) Object() *Object { return b.object }

// Put gives a block of a layer its content, once. Words are the whole block; they
// are not kept.
func (b *Builder) Put(l *Layer, blk uint64, words []uint64) error {
	key := appendBlockKey(nil, l.object, l.spec.Number, blk)
	b.value = block.AppendBlock(b.value[:0], b.object.header.family, words)
	if len(b.value) == 0 {
		return nil
	}
	must(b.batch.Set(key, b.value, nil))
	if l.dir == nil {
		first, own := l.newBlock()
		copy(own, words)
		l.one.Store(first)
	}
	if b.batch.Len() >= buildBatch {
		return b.flush()
	}
	return nil
}

func (b *Builder) flush() error {
	db := b.w.db
	if err := b.ctx.Err(); err != nil {
		return err
	}
	if db.space.Full() {
		return db.noSpace()
	}
	if b.batch.Empty() {
		return db.failure()
	}
	if err := db.pebble.Apply(b.batch, pebble.NoSync); err != nil {
		return db.fail(fmt.Errorf("kv: build of key %q: %w", b.object.key, err))
	}
	b.batch.Reset()
	return db.failure()
}
