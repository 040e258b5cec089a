package cuckooext

import (
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/block"
)

// operandBytes and slotBytes are about what a changed block, and a changed slot of it,
// take of a commit.
const (
	operandBytes = 256 + 32
	slotBytes    = 6
)

// compact moves entries of the newest layer to older ones that have room in one of the
// buckets there, the oldest first, and takes the layer away when it is empty. It is
// done when an entry of the newest layer has no room elsewhere.
func compact(w *kv.Writer, o *kv.Object, budget int) (more bool, err error) {
	f, err := kv.As[*filter]([]byte(o.Key()), o)
	if err != nil {
		return false, err
	}
	c := &compacter{stager: newStager(w, f), budget: budget}
	w.TogetherOnly()
	newest := &f.layers[0]
	from := f.compacted.Load()
	if len(f.layers) == 1 {
		from = newest.blocks
	}
	for ; from < newest.blocks && c.spent < c.budget; from++ {
		if err := c.empty(from); err != nil {
			return false, err
		}
	}
	f.compacted.Store(from)
	if from < newest.blocks {
		return true, nil
	}
	f.compacted.Store(0)
	if len(f.layers) > 1 && c.entries(newest) == 0 {
		left, err := w.Shrink(o)
		if err != nil {
			return false, err
		}
		if len(left.Layers()) > 1 {
			return true, nil
		}
	}
	w.SetCounter(f.layers[len(f.layers)-1].table, deletesCounter, 0)
	return false, nil
}

type compacter struct {
	*stager
	budget, spent int
}

// empty moves what it can out of a block of the newest layer.
func (c *compacter) empty(blk uint64) error {
	f, newest := c.c, &c.c.layers[0]
	first, err := c.w.Load(f.object, newest.table, blk)
	if err != nil {
		return err
	}
	if words := newest.words(first); f.g.occupied(words) == 0 {
		return nil
	}
	words, err := c.w.Slots(f.object, newest.table, blk)
	if err != nil {
		return err
	}
	var emptied []block.Slot
	for slot := range f.g.slots() {
		fp := f.g.slotAt((*blockWords)(words), uint32(slot))
		if fp == 0 {
			continue
		}
		moved, err := c.move(blk, uint32(slot)/f.g.bucketSize, fp)
		if err != nil {
			return err
		}
		if moved {
			emptied = append(emptied, block.Slot{Index: uint16(slot)})
		}
	}
	if len(emptied) == 0 {
		return nil
	}
	c.spent += operandBytes + slotBytes*len(emptied)
	c.w.SetCounter(newest.table, entriesCounter, c.entries(newest)-uint64(len(emptied)))
	return c.w.SetSlots(f.object, newest.table, blk, emptied)
}

// move puts an entry of the newest layer into an older one, if there is room for it
// without moving others.
func (c *compacter) move(blk uint64, bucket, fp uint32) (bool, error) {
	f, newest := c.c, &c.c.layers[0]
	for i := len(f.layers) - 1; i > 0; i-- {
		l := &f.layers[i]
		if c.entries(l) >= l.capacity {
			continue
		}
		p := place{blk: blk / (newest.blocks / l.blocks), i1: bucket, i2: f.g.partner(bucket, fp), fp: fp}
		first, err := c.w.Load(f.object, l.table, p.blk)
		if err != nil {
			return false, err
		}
		free := f.g.findIn(l.words(first), p.i1, 0)
		if free < 0 {
			free = f.g.findIn(l.words(first), p.i2, 0)
		}
		if free < 0 {
			continue
		}
		c.spent += operandBytes/16 + slotBytes // blocks of older layers take entries of many newer ones
		c.w.SetCounter(l.table, entriesCounter, c.entries(l)+1)
		return true, c.w.SetSlots(f.object, l.table, p.blk, []block.Slot{{Index: uint16(free), Value: fp}})
	}
	return false, nil
}
