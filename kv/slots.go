package kv

import (
	"slices"
	"unsafe"

	"github.com/sievekv/sievekv/internal/block"
)

// Blocks of slots. In a block of bits, bits are only ever set, so a lookup that reads a mixture of two states still
// answers right. Slots change their values: when an entry is moved from one slot to another, a lookup could look at
// the second slot before the entry is there, and at the first after it has gone. So a lookup
// finds out whether a commit has changed them meanwhile, see Section.
//
// A writer keeps a log of the slots that it has set and their values, and stages the log. To read or change a block, it
// makes a copy of the block with the changes. From the log it can make the copy again, or undo changes.

// slotBlock is a block of slots with a writer's changes.
type slotBlock struct {
	stagedPlace
	before int // the block of the same layer before it in changes.slots, plus 1
	object *Object
	layer  *Layer
	words  []uint64 // a copy of the whole block with the changes; nil if the writer has none, or gave it up

	// log has the values that slots were set to, oldest first. Log[saved:] was added since the savepoint whose id is
	// in logged.
	log    []block.Slot
	saved  int
	logged uint64
	full   int // length of log at which overwritten values are removed from it
}

// fullLog is the least length at which a log is shortened.
const fullLog = 64

// maxCopies is how many blocks a writer keeps copies of, 8 MiB. A writer that changes more blocks, as a load does
// when each item has a block of its own, makes the other copies again when it needs them.
const maxCopies = 1024

// Slots returns a block of slots with this writer's changes, for the caller to change. The caller must then give
// every slot that it has changed to SetSlots, before it uses the writer in another way. The words are the writer's,
// and valid until it is used in another way.
func (w *Writer) Slots(o *Object, l *Layer, blk uint64) ([]uint64, error) {
	b := w.slotBlock(o, l, blk)
	if err := w.copySlots(b); err != nil {
		return nil, err
	}
	w.logSlots(b)
	return b.words, nil
}

// Load returns a block with this writer's changes, for lookups.
func (w *Writer) Load(o *Object, l *Layer, blk uint64) (*Line, error) {
	return w.stagedBlock(o, l, blk)
}

// SetSlots stages new values of slots of a block. If a slot is given several times, the last value counts.
func (w *Writer) SetSlots(o *Object, l *Layer, blk uint64, slots []block.Slot) error {
	b := w.slotBlock(o, l, blk)
	w.logSlots(b)
	if b.words != nil {
		block.SetSlots(b.words, o.header.Family, slots)
	}
	if b.log = append(b.log, slots...); len(b.log) >= max(fullLog, b.full) {
		b.shorten()
	}
	w.grow(len(slots) * int(unsafe.Sizeof(block.Slot{})))
	return w.fits()
}

// TogetherOnly makes lookups see the commit as a whole. It is for a writer that moves entries from layer to layer:
// meanwhile, an entry would be missing, or there twice.
func (w *Writer) TogetherOnly() { w.sequence = true }

// shorten removes values from the log that later ones overwrite. It keeps the part before the savepoint separate, so
// that the writer can go back to it.
func (b *slotBlock) shorten() {
	before, since := block.LastOfEach(b.log[:b.saved]), block.LastOfEach(b.log[b.saved:])
	b.log, b.saved = append(before, since...), len(before)
	b.full = 2 * len(b.log)
}

func (w *Writer) findSlots(l *Layer, blk uint64) *slotBlock {
	if len(w.slots) == 0 {
		return nil
	}
	n := w.ordinal(l)
	if n < 0 {
		return nil
	}
	place := stagedPlace{n, blk}
	if w.slotIndex != nil {
		if i, ok := w.slotIndex[place]; ok {
			return w.slots[i]
		}
		return nil
	}
	for _, b := range w.slots {
		w.steps++
		if b.stagedPlace == place {
			return b
		}
	}
	return nil
}

// slotBlock returns a block of slots, perhaps without a copy.
func (w *Writer) slotBlock(o *Object, l *Layer, blk uint64) *slotBlock {
	if b := w.findSlots(l, blk); b != nil {
		return b
	}
	b := &slotBlock{object: o, layer: l}
	b.blk, b.ordinal = blk, w.addLayer(l)
	s, i := &w.layers[b.ordinal], len(w.slots)
	b.before, s.slots = s.slots, i+1
	w.slots = append(w.slots, b)
	w.grow(2 * int(unsafe.Sizeof(slotBlock{})))
	switch {
	case w.slotIndex != nil:
		w.slotIndex[b.stagedPlace] = i
	case len(w.slots) > fewStaged:
		w.slotIndex = make(map[stagedPlace]int)
		for i, b := range w.slots {
			w.slotIndex[b.stagedPlace] = i
		}
	}
	return b
}

// copySlots makes the copy of a block that has none.
func (w *Writer) copySlots(b *slotBlock) error {
	if b.words != nil {
		return nil
	}
	first, err := w.block(b.object, b.layer, b.blk)
	if err != nil {
		return err
	}
	if len(w.copied) >= maxCopies {
		w.giveUpCopies()
	}
	words := w.spareWords(int(b.layer.Spec().Lines) * block.LineWords)
	block.Copy(words, b.layer.Words(first))
	block.SetSlots(words, b.object.header.Family, b.log)
	b.words = words
	w.copied = append(w.copied, b)
	return nil
}

// giveUpCopies forgets copies of blocks and keeps the logs. Their memory is not used again, as a lookup may be
// reading it.
func (w *Writer) giveUpCopies() {
	for _, b := range w.copied {
		b.words = nil
	}
	clear(w.copied)
	w.copied = w.copied[:0]
}

// releaseSlots forgets the copies, and keeps some of their memory for other writers.
func (w *Writer) releaseSlots() {
	for _, b := range w.slots {
		if b.words != nil && len(w.spare) < maxSpare {
			w.spare = append(w.spare, b.words)
		}
	}
	clear(w.copied)
	w.copied = w.copied[:0]
}

// maxSpare is how many blocks' memory an idle writer keeps.
const maxSpare = 16

// spareWords returns memory for a block, with any content.
func (w *Writer) spareWords(n int) []uint64 {
	if last := len(w.spare) - 1; last >= 0 && cap(w.spare[last]) >= n {
		words := w.spare[last][:n]
		w.spare = w.spare[:last]
		return words
	}
	return make([]uint64, n, block.MaxWords)
}

// logSlots saves how much of a block's log was there at the savepoint.
func (w *Writer) logSlots(b *slotBlock) {
	if w.savepoint.id == 0 || b.logged == w.savepoint.id {
		return
	}
	b.logged, b.saved = w.savepoint.id, len(b.log)
	w.savepoint.slots = append(w.savepoint.slots, b)
}

// takeBackSlots undoes what was staged since the savepoint, at which there were n blocks.
func (w *Writer) takeBackSlots(n int) {
	for _, b := range w.savepoint.slots {
		b.log, b.words = b.log[:b.saved], nil
	}
	for i := len(w.slots) - 1; i >= n; i-- {
		b := w.slots[i]
		w.layers[b.ordinal].slots = b.before
		delete(w.slotIndex, b.stagedPlace)
		b.words = nil // it may be among the copies
	}
	clear(w.slots[n:])
	w.slots = w.slots[:n]
}

// stageSlots stages the operands of the blocks.
func (w *Writer) stageSlots() {
	// The order does not matter: a lookup that misses a moved entry finds that the blocks have changed.
	for _, b := range w.slots {
		if len(b.log) == 0 {
			continue
		}
		b.log = block.LastOfEach(b.log)
		w.batch.SetSlots(b.layer.Object(), b.layer.Number(), b.blk, b.object.header.Family, b.log)
	}
}

// changesSlots reports whether slots have staged values.
func (w *Writer) changesSlots() bool {
	return slices.ContainsFunc(w.slots, func(b *slotBlock) bool { return len(b.log) > 0 })
}
