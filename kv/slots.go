package kv

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/format"
)

// Blocks of slots. The bits of a block of bits are only ever set, and any mixture of two states of it answers right.
// Slots change their values, and an entry that is moved from one to another could be looked for in the second before
// it is there and in the first when it has gone. So layers of slots have versions, see Layer.Version.
//
// A writer changes a copy of its own of each block, and notes which slots are set to what:
// that is what it stages, and has a copy made again, or taken back.

// slotBlock is a block of slots as a writer leaves it.
type slotBlock struct {
	stagedPlace
	before int // the block of the same layer before it in changes.slots, plus 1
	object *Object
	layer  *Layer
	words  []uint64 // a copy of the whole block, with the changes; nil if it was given up

	// log is what slots were set to, oldest first. Log[saved:] was added since the savepoint whose id is in logged.
	log    []block.Slot
	saved  int
	logged uint64
	full   int // length of log at which what counts no more is taken out of it
}

// fullLog is the least length of a log to be shortened.
const fullLog = 64

// maxCopies is how many blocks a writer has copies of, 8 MiB. One that changes more, and a
// load does where every item has a block of its own, makes the copies of the others again.
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

// Version returns the version of a block of slots, which it shares with other blocks of the layer: odd while a commit
// that changes one of them is applied, from before Pebble has it to after memory has it, and another one afterwards.
// Who found the same even version before and after it looked at blocks, of every one of them, saw them as they were
// at one moment.
func (l *Layer) Version(blk uint64) uint32 { return l.versionOf(blk).Load() }

func (l *Layer) versionOf(blk uint64) *atomic.Uint32 {
	return &l.versions[blk&uint64(len(l.versions)-1)]
}

// Slots returns a block of slots with this writer's changes, to be changed: SetSlots must be told of every slot that
// is, before the writer is used in another way. The words are the writer's, valid until it is used in another way.
func (w *Writer) Slots(o *Object, l *Layer, blk uint64) ([]uint64, error) {
	b, err := w.slotBlock(o, l, blk)
	if err != nil {
		return nil, err
	}
	w.logSlots(b)
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
	w.logSlots(b)
	block.SetSlots(b.words, o.header.Family, slots)
	if b.log = append(b.log, slots...); len(b.log) >= max(fullLog, b.full) {
		b.shorten()
	}
	w.grow(len(slots) * int(unsafe.Sizeof(block.Slot{})))
	return w.fits()
}

// TogetherOnly has the commit seen as one by lookups: for a writer that moves entries
// between blocks, which would be missing, or there twice, in between.
func (w *Writer) TogetherOnly() { w.sequence = true }

// shorten takes out of the log what others behind it overwrite. What was there before the use
// of the writer stays apart, to be gone back to.
func (b *slotBlock) shorten() {
	before, since := lastOfEach(b.log[:b.saved]), lastOfEach(b.log[b.saved:])
	b.log, b.saved = append(before, since...), len(before)
	b.full = 2 * len(b.log)
}

// lastOfEach keeps of each slot the last value, in the order of the slots.
func lastOfEach(log []block.Slot) []block.Slot {
	slices.SortStableFunc(log, func(a, b block.Slot) int { return cmp.Compare(a.Index, b.Index) })
	n := 0
	for i, s := range log {
		if i+1 == len(log) || log[i+1].Index != s.Index {
			log[n] = s
			n++
		}
	}
	return log[:n]
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

func (w *Writer) slotBlock(o *Object, l *Layer, blk uint64) (*slotBlock, error) {
	if b := w.findSlots(l, blk); b != nil {
		return b, w.copySlots(b)
	}
	b := &slotBlock{object: o, layer: l}
	b.blk = blk
	if err := w.copySlots(b); err != nil {
		return nil, err
	}
	b.ordinal = w.addLayer(l)
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
	block.SetSlots(words, b.object.header.Family, b.log)
	b.words = words
	w.copied = append(w.copied, b)
	return nil
}

// giveUpCopies leaves what changed of the blocks alone. Their memory is not used again, as a lookup may be at it.
func (w *Writer) giveUpCopies() {
	for _, b := range w.copied {
		b.words = nil
	}
	clear(w.copied)
	w.copied = w.copied[:0]
}

// releaseSlots gives up the copies, and keeps some of their memory for others.
func (w *Writer) releaseSlots() {
	for _, b := range w.slots {
		if b.words != nil && len(w.spare) < maxSpare {
			w.spare = append(w.spare, b.words)
		}
	}
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

// logSlots notes at the savepoint how much of a block's log to keep.
func (w *Writer) logSlots(b *slotBlock) {
	if w.savepoint.id == 0 || b.logged == w.savepoint.id {
		return
	}
	b.logged, b.saved = w.savepoint.id, len(b.log)
	w.savepoint.slots = append(w.savepoint.slots, b)
}

// takeBackSlots takes back what was staged since the savepoint, at which there were n blocks.
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
	// In any order: who looks at an entry that moves finds that versions have changed.
	for _, b := range w.slots {
		if len(b.log) == 0 {
			continue
		}
		b.log = lastOfEach(b.log)
		key := format.AppendBlockKey(w.scratch[:0], b.layer.object, b.layer.spec.Number, b.blk)
		n := len(key)
		w.scratch = block.AppendSlotsOperand(key, b.object.header.Family, b.log)
		must(w.batch.Merge(w.scratch[:n], w.scratch[n:], nil))
	}
}

// startVersions makes the versions of the blocks that are changed odd, in the layers that are to be patched, and
// returns those. The locks of the keys are held, or the gate, so nobody else changes them.
func (w *Writer) startVersions(p *applier) (odd []*atomic.Uint32) {
	for _, b := range w.slots {
		_, l := p.layer(b.layer.object, b.layer.spec.Number)
		if l == nil {
			continue // of an object that is not open
		}
		if v := l.versionOf(b.blk); len(b.log) > 0 && v.Load()&1 == 0 {
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

// ReadLocked is Read with the write lock of a key held, so that no commit changes the key meanwhile. It is for a lookup that
// has seen blocks change while it ran, time and again. It waits for the key's writer.
func (db *DB) ReadLocked(key []byte, look func(Reader) error) error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.exit()
	db.pauseAt("read locked: waiting")
	if db.inside() {
		return db.Read(look) // nobody commits before the transaction does
	}
	lock := db.keyLock(key)
	lock.Lock()
	defer lock.Unlock()
	if err := db.passGate(context.Background(), false); err != nil {
		return err
	}
	defer db.gate.RUnlock()
	return db.Read(look)
}
