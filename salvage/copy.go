package salvage

import (
	"context"
	"errors"
	"fmt"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/kv"
)

// copying is a key that is copied from one store to another.
type copying struct {
	ctx      context.Context
	from     *kv.DB
	key      []byte
	lossy    bool // leave out what does not decode
	marked   bool // mark the copy, unless it is a string
	object   *kv.Object
	value    []byte // of a string in its header
	counters [][format.NumCounters]uint64
}

// to stages the copy, and reports whether there is something that has not expired. Like COPY, it does not copy
// attributes: they hold the state of work on the object.
func (c *copying) to(w *kv.Writer) (bool, error) {
	if err := c.from.Read(c.look); err != nil || c.object == nil {
		return false, err
	}
	h := c.object.Header()
	if h.ID == 0 {
		return w.Set(c.key, c.value, kv.SetOptions{Expiry: h.Expiry})
	}
	spec := kv.Spec{
		Type: &kv.Type{Name: h.TypeName, Version: h.TypeVersion}, Family: h.Family, Layers: h.Layers, Params: h.Params,
		Expiry: h.Expiry, Lossy: h.Lossy || c.lossy || c.marked && h.TypeName != format.StringType,
	}
	_, err := w.Build(c.ctx, c.key, spec, func(b *kv.Builder) error {
		for i, l := range b.Object().Layers() {
			for n, v := range c.counters[i] {
				if v != 0 {
					w.SetCounter(l, n, v)
				}
			}
			if err := c.blocks(b, c.object.Layers()[i], l); err != nil {
				return err
			}
		}
		return nil
	})
	return err == nil, err
}

// look reads all but the blocks.
func (c *copying) look(r kv.Reader) (err error) {
	if c.object, err = r.Lookup(c.key); err != nil || c.object == nil {
		return err
	}
	if c.object.ID() == 0 {
		c.value, err = r.Get(c.key)
		return err
	}
	layers := c.object.Layers()
	c.counters = make([][format.NumCounters]uint64, len(layers))
	for i, l := range layers {
		for n := range c.counters[i] {
			c.counters[i][n] = r.Counter(l, n)
		}
	}
	return nil
}

func (c *copying) blocks(b *kv.Builder, from, to *kv.Layer) error {
	words := make([]uint64, int(from.Spec().Lines)*block.LineWords)
	for blk := range from.Spec().Blocks {
		if err := kv.GivenUp(c.ctx, int(blk)); err != nil {
			return err
		}
		err := c.from.Read(func(r kv.Reader) error {
			first, err := r.Load(c.object, from, blk)
			if err == nil {
				block.Copy(words, from.Words(first))
			}
			return err
		})
		if c.lossy && errors.Is(err, kv.ErrCorrupt) {
			continue
		}
		if err != nil {
			return fmt.Errorf("block %d: %w", blk, err)
		}
		if err := b.Put(to, blk, words); err != nil {
			return err
		}
	}
	return nil
}
