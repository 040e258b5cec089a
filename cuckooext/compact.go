package cuckooext

import (
	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// operandBytes and slotBytes are the most that a changed block, and each changed slot of it, take of a commit.
// lookBytes is what looking at a block counts for, so that the key's lock is released now and then even if little can
// be moved.
const (
	operandBytes = 256 + 32
	slotBytes    = 6
	lookBytes    = 256

	// leastBudget makes sure that every step moves an entry or looks at another block.
	leastBudget = 4 << 10
)

// compactBudget is roughly the most bytes of a commit of Filter.Compact.
const compactBudget = 256 << 10

// compact moves entries of the newest layer to older layers that have room in one of the entry's buckets, the oldest
// layer first, and removes the newest layer when it is empty. more is false when compact has looked at all blocks of
// the newest layer, or no older layer has room. After it has removed a layer, it goes on with the next.
func compact(w *kv.Writer, o *kv.Object, budget int) (more bool, err error) {
	f, err := kv.As[*filter]([]byte(o.Key()), o)
	if err != nil {
		return false, err
	}
	if f.compatible { // it is compacted when RedisBloom's would be, never later
		return false, nil
	}
	c := &compacter{stager: newStager(w, f), budget: max(budget, leastBudget), last: make([]uint64, len(f.layers))}
	w.TogetherOnly()
	if len(f.layers) > 1 {
		if more, err = c.emptyNewest(); more || err != nil {
			return more, err
		}
		if c.entries(&f.layers[0]) == 0 {
			left, err := w.Shrink(o)
			if err != nil {
				return false, err
			}
			if len(left.Layers()) > 1 {
				w.SetCounter(f.layers[1].table, compactedCounter, 0) // it is from before the removed layer existed
				return true, nil
			}
		}
	}
	oldest := f.layers[len(f.layers)-1].table
	w.SetCounter(oldest, deletesCounter, 0)
	w.SetCounter(oldest, compactionsCounter, min(w.Counter(oldest, compactionsCounter)+1, scalableext.MaxCount))
	return false, nil
}

type compacter struct {
	*stager
	budget, spent int
	last          []uint64 // by layer, the last block that entries moved to, counted from 1
}

// emptyNewest moves entries from where it stopped before, and reports whether there is more to do.
func (c *compacter) emptyNewest() (more bool, err error) {
	newest := &c.c.layers[0]
	from := c.w.Counter(newest.table, compactedCounter)
	for from < newest.blocks && c.useful() {
		if c.spent >= c.budget {
			more = true
			break
		}
		if from, err = c.empty(from); err != nil {
			return false, err
		}
	}
	if !more {
		from = 0
	}
	c.w.SetCounter(newest.table, compactedCounter, from)
	return more, nil
}

// useful reports whether there are entries to move, and a layer that can take some.
func (c *compacter) useful() bool {
	layers := c.c.layers
	if c.entries(&layers[0]) == 0 {
		return false
	}
	for i := range layers[1:] {
		if l := &layers[1+i]; c.entries(l) < l.capacity {
			return true
		}
	}
	return false
}

// empty moves all entries that it can out of a block of the newest layer, and returns the block to go on with: the same one if
// the budget did not suffice. Behind an empty block it passes over those that have nothing.
func (c *compacter) empty(blk uint64) (next uint64, err error) {
	f, newest := c.c, &c.c.layers[0]
	first, err := c.w.Load(f.object, newest.table, blk)
	if err != nil {
		return 0, err
	}
	c.spent += lookBytes
	words := newest.words(first) // the writer's view, which does not change
	var emptied []block.Slot
	isEmpty, next := true, blk+1
	for slot := range uint32(newest.g.slots()) {
		fp := newest.g.slotAt(words, slot)
		if fp == 0 {
			continue
		}
		if isEmpty = false; c.spent >= c.budget {
			next = blk
			break
		}
		moved, err := c.move(blk, slot/newest.g.bucketSize, fp)
		if err != nil {
			return 0, err
		}
		if moved {
			emptied = append(emptied, block.Slot{Index: uint16(slot)})
		}
	}
	switch {
	case isEmpty:
		return c.w.NextBlock(f.object, newest.table, next)
	case len(emptied) == 0:
		return next, nil
	}
	c.spent += operandBytes
	c.w.SetCounter(newest.table, entriesCounter, c.entries(newest)-uint64(len(emptied)))
	return next, c.w.SetSlots(f.object, newest.table, blk, emptied)
}

// move puts an entry of the newest layer into an older one, if there is room without moving other entries. The entry
// still looks like every item it looked like: blk/m is the block of all of these items, if the newest layer has m times the
// blocks, and their buckets are the buckets of the newest layer modulo the number of buckets of the older one.
func (c *compacter) move(blk uint64, bucket, fp uint32) (bool, error) {
	f, newest := c.c, &c.c.layers[0]
	for i := len(f.layers) - 1; i > 0; i-- {
		l := &f.layers[i]
		if c.entries(l) >= l.capacity {
			continue
		}
		p := place{blk: blk / (newest.blocks / l.blocks), i1: bucket % l.g.buckets, fp: fp}
		p.i2 = l.g.partner(p.i1, fp)
		first, err := c.w.Load(f.object, l.table, p.blk)
		if err != nil {
			return false, err
		}
		free := l.g.findIn(l.words(first), p.i1, 0)
		if free < 0 {
			free = l.g.findIn(l.words(first), p.i2, 0)
		}
		if free < 0 {
			continue
		}
		if c.last[i] != p.blk+1 { // entries come in the order of their blocks
			c.last[i] = p.blk + 1
			c.spent += operandBytes
		}
		c.spent += 2 * slotBytes
		c.w.SetCounter(l.table, entriesCounter, c.entries(l)+1)
		return true, c.w.SetSlots(f.object, l.table, p.blk, []block.Slot{{Index: uint16(free), Value: fp}})
	}
	return false, nil
}
