package kv

import (
	"context"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/storage"
)

// Copy stages a copy of what is under src, its expiry included, under dst. It reports false, and stages nothing, if
// src is missing, or if dst is taken and replace is not set. Blocks are written ahead, see build.go. Attributes are
// not copied: they hold the state of work on src.
func (w *Writer) Copy(ctx context.Context, src, dst []byte, replace bool) (bool, error) {
	from, err := w.look(src)
	if err != nil || from.object == nil {
		return false, err
	}
	o := from.object
	to, err := w.look(dst)
	if err != nil || to.object != nil && !replace || string(src) == string(dst) {
		return false, err
	}
	if o.inline() {
		value, _, err := o.string()
		if err == nil {
			err = w.putString(dst, value, o.header.Expiry)
		}
		return err == nil, err
	}
	copied, err := w.make(dst, *o.header)
	if err != nil {
		return false, err
	}
	err = w.buildObject(ctx, dst, copied, func(b *Builder) error {
		for i, l := range o.layers {
			for c := range format.NumCounters {
				if v := w.Counter(l, c); v != 0 {
					w.SetCounter(b.object.layers[i], c, v)
				}
			}
			if err := w.copyBlocks(b, o, l, b.object.layers[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return err == nil, err
}

// copyBlocks gives a builder the blocks of a layer: the stored ones, and those that this writer has changed. No other
// writer changes them meanwhile.
func (w *Writer) copyBlocks(b *Builder, o *Object, from, to *Layer) error {
	staged := make(map[uint64]bool)
	w.eachStagedBlock(from, func(blk uint64) { staged[blk] = true })
	_, words := from.NewBlock()
	for blk := range staged {
		if err := w.ReadBlock(o, from, blk, words); err != nil {
			return err
		}
		if err := b.Put(to, blk, words); err != nil {
			return err
		}
	}
	if s := w.stagedLayer(from); s != nil && s.madeFor != nil {
		return nil // the stored blocks may belong to an earlier layer with the same number
	}
	prefix := format.AppendOrdered(format.AppendObjectKey(nil, from.Object()), from.Number()+format.PartLayers)
	end := format.AppendOrdered(format.AppendObjectKey(nil, from.Object()), from.Number()+format.PartLayers+1)
	it, err := w.db.iterate(b.ctx, prefix, end)
	if err != nil {
		return storage.ReadError(err, "key %q: copy", o.key)
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var k format.ObjectKey
		if k, err = format.DecodeObjectKey(it.Key()); err == nil && k.Rest >= from.Spec().Blocks {
			err = format.Corruptf("block %d of layer %d, which has %d", k.Rest, from.Number(), from.Spec().Blocks)
		}
		if err != nil || staged[k.Rest] {
			continue
		}
		var value []byte
		if value, err = it.ValueAndErr(); err == nil {
			_, err = block.Decode(words, o.header.Family, value)
		}
		if err == nil {
			err = b.Put(to, k.Rest, words)
		}
	}
	if cerr := it.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return storage.ReadError(err, "key %q: copy", o.key)
	}
	return nil
}
