package kv

import (
	"context"
	"errors"
	"slices"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/storage"
)

// An object may be larger than a commit. Build writes its blocks ahead, in batches of their own, under an id that no
// header has. The commit then writes the header, and so all of the object appears at once. With the first block, or when
// it fails, Build writes the note that a dropped object has; the commit removes the note. So if a crash or an error ends
// the build, the reclaiming of dropped objects removes every block.

// buildBatch is about how many bytes Build writes in one batch. Pebble keeps the memory of a batch of up to 1 MiB for the
// next one.
const buildBatch = 1<<20 - 16<<10

// Builder takes the blocks of an object being built.
type Builder struct {
	ctx    context.Context
	w      *Writer
	object *Object
	batch  storage.Batch
	noted  bool // the note is in a batch
	key    []byte
	value  []byte
}

// Build is Create with blocks, which fill gives to the Builder. The blocks may exceed the size of a commit; none is
// visible before the commit. Fill may read from the store, stage counters of the new object, and read through this
// writer what is under the key until now. If fill returns an error, Build returns it and stages nothing.
func (w *Writer) Build(ctx context.Context, key []byte, s Spec, fill func(*Builder) error) (*Object, error) {
	o, err := w.newOf(key, s)
	if err != nil {
		return nil, err
	}
	if err := w.buildObject(ctx, key, o, fill); err != nil {
		return nil, err
	}
	return o, nil
}

// buildObject writes the blocks of a new object, and stages it.
func (w *Writer) buildObject(ctx context.Context, key []byte, o *Object, fill func(*Builder) error) error {
	if err := w.writeBlocks(ctx, o, fill); err != nil {
		return err // the counters staged under its id are removed with its blocks
	}
	if err := w.put(key, o); err != nil {
		return err
	}
	w.built = append(w.built, o.header.ID)
	return nil
}

func (w *Writer) writeBlocks(ctx context.Context, o *Object, fill func(*Builder) error) error {
	id := o.header.ID
	w.db.building.Store(id, struct{}{})
	w.builds = append(w.builds, id)
	for _, l := range o.layers {
		l.Close() // no block is kept: a transaction may build any number of objects
	}
	b := &Builder{ctx: ctx, w: w, object: o}
	err := fill(b)
	if err == nil {
		err = b.flush()
	}
	if err != nil { // counters that fill has staged may still be committed
		note := w.db.set(format.AppendDroppedKey(nil, id), []byte{format.DroppedUnwritten})
		return errors.Join(err, note)
	}
	return nil
}

// Object returns the object being built.
func (b *Builder) Object() *Object { return b.object }

// Put writes the whole content of a block of a layer, once for each block. Put does not keep words.
func (b *Builder) Put(l *Layer, blk uint64, words []uint64) error {
	if err := b.ctx.Err(); err != nil {
		return err
	}
	if b.w.db.closing.Load() {
		return ErrClosed
	}
	if !slices.ContainsFunc(words, func(w uint64) bool { return w != 0 }) {
		return nil // as an absent block is
	}
	if !b.noted {
		b.batch.Set(format.AppendDroppedKey(nil, l.Object()), []byte{format.DroppedUnwritten})
		b.noted = true
	}
	b.key = format.AppendBlockKey(b.key[:0], l.Object(), l.Number(), blk)
	b.value = block.AppendBlock(b.value[:0], b.object.header.Family, words)
	b.batch.Set(b.key, b.value)
	if b.batch.Len() >= buildBatch {
		return b.flush()
	}
	return nil
}

func (b *Builder) flush() error {
	db := b.w.db
	if db.store.Space.Full() {
		return db.noSpace()
	}
	if b.batch.Empty() {
		return db.failure()
	}
	if err := db.commitBatch(&b.batch, b.w.epoch); err != nil {
		return err
	}
	b.batch.Reset()
	return db.failure()
}
