// Package portable keeps one filter, bitmap or string in one file, which does not depend on the store it comes from: what
// the hash of a filter's items needs is in the file, and so is its geometry. Another store takes it in, with the same
// answers for every item, and a Filter answers without a store.
//
// A file has checksums throughout: damage is found, and named with its place. It is written and read chunk by chunk, so
// that a filter of any size needs little memory. It has neither the expiry of the key nor its name.
//
// The file of a filter with a keyed hash has the secret of the hash, as the store has: a person who can read the file
// can choose items that collide.
package portable

import (
	"context"
	"fmt"
	"io"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/kv"
)

// blocksAtOnce is how many blocks are read from the store before they are written.
const blocksAtOnce = 16

// Export writes what is under a key to w, as of one commit. Other operations go on meanwhile. After an error the bytes
// written to w are of no use. The errors are kv.ErrNotFound, kv.ErrTooLarge for a filter with more layers than the
// header of a file has room for, errors of reading the store, and w's.
func Export(ctx context.Context, db *kv.DB, key []byte, w io.Writer) error {
	return db.View(ctx, func(tx *kv.Transaction) error { return ExportFrom(ctx, tx, key, w) })
}

// ExportFrom is Export from a transaction. Of one that writes it exports what it has staged, too.
func ExportFrom(ctx context.Context, tx *kv.Transaction, key []byte, w io.Writer) error {
	var o *kv.Object
	var value []byte
	c := &contents{}
	err := tx.Read(func(r kv.Reader) (err error) {
		if o, err = r.Lookup(key); err != nil {
			return err
		}
		if o == nil {
			return fmt.Errorf("%w: %q", kv.ErrNotFound, key)
		}
		h := o.Header()
		if h.Expiry = 0; h.ID == 0 {
			value, err = r.Get(key)
			c.header = format.StringHeader([]byte{format.EncodingBytes}, 0)
			return err
		}
		h.ID = 1
		c.header, c.counters = &h, make([][format.NumCounters]uint64, len(h.Layers))
		for i, l := range o.Layers() {
			for n := range format.NumCounters {
				c.counters[i][n] = r.Counter(l, n)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	e, err := newEncoder(w, c)
	if err != nil {
		return fmt.Errorf("key %q: export: %w", key, err)
	}
	if c.inline() {
		err = e.bytes(value)
	} else {
		err = exportBlocks(ctx, tx, o, e)
	}
	if err == nil {
		err = e.end()
	}
	if err != nil {
		return fmt.Errorf("key %q: export: %w", key, err)
	}
	return nil
}

// exportBlocks writes the blocks of all layers.
func exportBlocks(ctx context.Context, tx *kv.Transaction, o *kv.Object, e *encoder) error {
	buffer := make([]uint64, blocksAtOnce*block.MaxWords)
	for i, l := range o.Layers() {
		n := uint64(l.Spec().Lines) * block.LineWords
		for from := uint64(0); from < l.Spec().Blocks; from += blocksAtOnce {
			if err := ctx.Err(); err != nil {
				return err
			}
			to := min(from+blocksAtOnce, l.Spec().Blocks)
			err := tx.Read(func(r kv.Reader) error { // may run twice: nothing is written here
				for blk := from; blk < to; blk++ {
					first, err := r.Load(o, l, blk)
					if err != nil {
						return err
					}
					block.Copy(buffer[(blk-from)*n:][:n], l.Words(first))
				}
				return nil
			})
			if err != nil {
				return err
			}
			for blk := from; blk < to; blk++ {
				if err := e.block(o.Family(), i, blk, buffer[(blk-from)*n:][:n]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
