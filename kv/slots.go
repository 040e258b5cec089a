package kv

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/sievekv/sievekv/kv/block"
)

// Blocks of slots. The bits of a block of bits are only ever set, and any mixture of
// two states of it answers right. Slots change their values, and an entry that is moved
// from one to another could be looked for in the second before it is there and in the
// first when it has gone. So layers of slots have versions, see Layer.Version.
//
// A writer changes a copy of its own of each block, and stages what differs.

// slotBlock is a block of slots as a writer leaves it.
type slotBlock struct {
	object  *Object
	layer   *Layer
	blk     uint64
	words   []uint64     // a copy of the whole block, with the changes; nil if it was given up
	changed []uint16     // slots, in any order, repeats too
	kept    []block.Slot // those and what is in them, in the same order, while words is nil
	nested  uint64       // the use of the writer that last changed it, see nesting.id
}

// maxCopies is how many blocks a writer has copies of, 8 MiB. One that changes more, and a
// load does where every item has a block of its own, keeps of the others what changed.
const maxCopies = 1024

// maxVersions is how many versions a layer has at most; blocks share them.
const maxVersions = 64

// newVersions returns the versions of a layer of slots.
func newVersions(blocks uint64) []atomic.Uint32 {
	n := 1
	for n < maxVersions && uint64(n) < blocks {
		n *= 2
	}
	return make([]atomic.Uint32, n)
}

// Version returns the version of a block of slots, which it shares with other blocks
// of the layer: odd while a commit that changes one of them is applied, from before
// Pebble has it to after memory has it, and another one afterwards. Who found the same
// even version before and after it looked at blocks, of every one of them, saw them as
// they were at one moment.
func (l *Layer) Version(blk uint64) uint32 { return l.versionOf(blk).Load() }

func (l *Layer) versionOf(blk uint64) *atomic.Uint32 {
	return &l.versions[blk&uint64(len(l.versions)-1)]
}

// Slots returns a block of slots with this writer's changes, to be changed: SetSlots
// must be told of every slot that is, before the writer is used in another way. The
// words are the writer's, valid until it is used in another way.
func (w *Writer) Slots(o *Object, l *Layer, blk uint64) ([]uint64, error) {
	b, err := w.slotBlock(o, l, blk)
	if err != nil {
		return nil, err
	}
	w.journalSlots(b)
	return b.words, nil
}

// Load returns a block with this writer's changes, for lookups.
func (w *Writer) Load(o *Object, l *Layer, blk uint64) (*Line, error) {
	return w.stagedBlock(o, l, blk)
}

// SetSlots stages new values of slots of a block, whichever was set last for each.
func (w *Writer) SetSlots(o *Object, l *Layer, blk uint64, slots []block.Slot) error {
	b, err := w.slotBlock(o, l, blk)
	if err != nil {
		return err
	}
	w.journalSlots(b)
	block.SetSlots(b.words, o.header.family, slots)
	for _, s := range slots {
		b.changed = append(b.changed, s.Index)
	}
	return nil
}

// TogetherOnly has the commit seen as one by lookups: for a writer that moves entries
// between blocks, which would be missing, or there twice, in between.
func (w *Writer) TogetherOnly() { w.sequence = true }

func (w *Writer) findSlots(l *Layer, blk uint64) *slotBlock {
	if w.slotIndex != nil {
		return w.slotIndex[flightKey{l, blk}]
	}
	for _, b := range w.slots {
		if b.layer == l && b.blk == blk {
			return b
		}
	}
	return nil
}

func (w *Writer) slotBlock(o *Object, l *Layer, blk uint64) (*slotBlock, error) {
	if b := w.findSlots(l, blk); b != nil {
		return b, w.copySlots(b)
	}
	b := &slotBlock{object: o, layer: l, blk: blk, nested: w.nest.id}
	if err := w.copySlots(b); err != nil {
		return nil, err
	}
	w.slots = append(w.slots, b)
	w.indexSlots(len(w.slots) - 1)
	return b, nil
}

// copySlots makes the copy of a block that has none, or not any more.
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
	words := w.spareWords(int(b.layer.spec.Lines) * block.LineWords)
	copyWords(words, b.layer.Words(first))
	block.SetSlots(words, b.object.header.family, b.kept)
	b.words, b.kept = words, nil
	w.copied = append(w.copied, b)
	return nil
}

// giveUpCopies has the blocks keep what changed alone. Their memory is not used again, as
// a lookup may be at it.
func (w *Writer) giveUpCopies() {
	for _, b := range w.copied {
		if b.words == nil {
			continue
		}
		for _, i := range b.changed {
			b.kept = append(b.kept, block.Slot{Index: i, Value: block.SlotAt(b.words, b.object.header.family, int(i))})
		}
		b.words = nil
	}
	clear(w.copied)
	w.copied = w.copied[:0]
}

// releaseSlots forgets the blocks, and keeps some memory for others.
func (w *Writer) releaseSlots() {
	for _, b := range w.slots {
		if b.words != nil && len(w.spare) < maxSpare {
			w.spare = append(w.spare, b.words)
		}
	}
	clear(w.slots)
	w.setSlotBlocks(w.slots[:0])
	clear(w.copied)
	w.copied = w.copied[:0]
}

// maxSpare bounds the memory an idle writer keeps, in blocks.
const maxSpare = 16

// spareWords returns memory for a block, of any content.
func (w *Writer) spareWords(n int) []uint64 {
	if last := len(w.spare) - 1; last >= 0 && cap(w.spare[last]) >= n {
		words := w.spare[last][:n]
		w.spare = w.spare[:last]
		return words
	}
	return make([]uint64, n, block.MaxWords)
}

// indexSlots adds blocks from the i-th on to the index, once they are many.
func (w *Writer) indexSlots(i int) {
	if len(w.slots) <= fewViews {
		return
	}
	if w.slotIndex == nil {
		w.slotIndex, i = make(map[flightKey]*slotBlock), 0
	}
	for _, b := range w.slots[i:] {
		w.slotIndex[flightKey{b.layer, b.blk}] = b
	}
}

// setSlotBlocks replaces the list.
func (w *Writer) setSlotBlocks(list []*slotBlock) {
	w.slots, w.slotIndex = list, nil
	w.indexSlots(0)
}

// journalSlots has a block restored if the user of a transaction's writer refuses.
func (w *Writer) journalSlots(b *slotBlock) {
	if w.nest.id == 0 || b.nested == w.nest.id {
		return
	}
	words, n, nested := slices.Clone(b.words), len(b.changed), b.nested
	b.nested = w.nest.id
	w.nest.undo = append(w.nest.undo, func() {
		b.words, b.changed, b.kept, b.nested = words, b.changed[:n], nil, nested
		w.copied = append(w.copied, b)
	})
}

// stageSlots stages the operands of the blocks.
func (w *Writer) stageSlots() {
	// Of entries that move, what they move to comes first, and that is in older layers.
	slices.SortStableFunc(w.slots, func(a, b *slotBlock) int { return cmp.Compare(a.layer.spec.Number, b.layer.spec.Number) })
	var list []block.Slot
	for _, b := range w.slots {
		if len(b.changed) == 0 {
			continue
		}
		list = b.appendChanges(list[:0])
		key := appendBlockKey(w.scratch[:0], b.layer.object, b.layer.spec.Number, b.blk)
		n := len(key)
		w.scratch = block.AppendSlotsOperand(key, b.object.header.family, list)
		must(w.batch.Merge(w.scratch[:n], w.scratch[n:], nil))
	}
}

// appendChanges appends the slots that changed and what is in them, in order and each once.
// The block is not changed afterwards.
func (b *slotBlock) appendChanges(dst []block.Slot) []block.Slot {
	byIndex := func(x, y block.Slot) int { return cmp.Compare(x.Index, y.Index) }
	if b.words == nil {
		slices.SortFunc(b.kept, byIndex)
		b.kept = slices.CompactFunc(b.kept, func(x, y block.Slot) bool { return x.Index == y.Index })
		return append(dst, b.kept...)
	}
	slices.Sort(b.changed)
	b.changed = slices.Compact(b.changed)
	for _, i := range b.changed {
		dst = append(dst, block.Slot{Index: i, Value: block.SlotAt(b.words, b.object.header.family, int(i))})
	}
	return dst
}

// startVersions makes the versions of the blocks that are changed odd, and returns
// those. The locks of the keys are held, so nobody else changes them.
func (w *Writer) startVersions() (odd []*atomic.Uint32) {
	for _, b := range w.slots {
		if v := b.layer.versionOf(b.blk); len(b.changed) > 0 && v.Load()&1 == 0 {
			v.Add(1)
			odd = append(odd, v)
		}
	}
	return odd
}

func finishVersions(odd []*atomic.Uint32) {
	for _, v := range odd {
		v.Add(1)
	}
}

// copyWords copies a block that others may be changing.
func copyWords(to, from []uint64) {
	for i := range to {
		to[i] = atomic.LoadUint64(&from[i])
	}
}

// Stable runs a lookup while no commit to the key is under way, for one that has seen
// blocks change under it time and again. It waits for the key's writer.
func (db *DB) Stable(key []byte, look func(Reader) error) error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.exit()
	db.pauseAt("stable: waiting")
	lock := db.keyLock(key)
	lock.Lock()
	defer lock.Unlock()
	db.gate.RLock()
	defer db.gate.RUnlock()
	return db.Read(look)
}
