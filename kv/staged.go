package kv

import (
	"slices"
	"unsafe"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/memory"
	"github.com/sievekv/sievekv/internal/storage"
)

// What a writer has staged. A transaction may stage a hundred thousand changes and look for earlier ones at each
// step, so nothing here is found by going through a long list: keys, layers and blocks each have an index once there
// are many.

// changes are everything that a writer has staged.
type changes struct {
	staged []stagedKey    // the keys that the writer has looked at
	index  map[string]int // of staged, once it is long

	layers     []stagedLayer   // with changes; a layer's index here is its ordinal
	layerIndex map[layerID]int // of layers, once there are many, without dropped ones

	bits      []bitBlock          // blocks of bits with staged bits
	bitIndex  map[stagedPlace]int // of bits, once one of many is looked for that may be there
	shuffled  bool                // bits are not in the order of their places
	bitCount  int                 // staged bits in all of them
	added     []addedBit          // staged since the savepoint, oldest first
	slots     []*slotBlock        // blocks of slots that the writer has looked at
	slotIndex map[stagedPlace]int // of slots, once there are many

	built      []uint64 // ids of objects that this writer has built
	drops      []uint64 // ids of objects to be dropped
	attributes []stagedAttribute
	layerDrops []layerDrop // to be dropped, of objects that stay
	flush      bool        // the commit removes every key
}

// fewStaged is how many things are found faster by going through them than by a map.
const fewStaged = 16

// stagedLayer is what a writer has staged of a layer, except its blocks.
type stagedLayer struct {
	layer    *Layer
	counters [format.NumCounters]uint64
	counted  bool    // counters are staged
	madeFor  *Object // the new object that this writer made the layer for, and nothing of it is stored; else nil
	gone     bool    // the layer is dropped, and nothing staged of it counts
	counting uint64  // id of the savepoint since which counters were staged
	bits     int     // index+1 in changes.bits of the last of its blocks
	slots    int     // index+1 in changes.slots
}

// stagedPlace names a block by the ordinal of its layer.
type stagedPlace struct {
	ordinal int
	blk     uint64
}

// ordinal returns the ordinal of a layer, -1 if it has none.
func (w *Writer) ordinal(l *Layer) int {
	id := idOf(l)
	if w.layerIndex != nil {
		if i, ok := w.layerIndex[id]; ok {
			return i
		}
		return -1
	}
	for i := len(w.layers) - 1; i >= 0; i-- {
		w.steps++
		if s := &w.layers[i]; s.layer.Object() == id.object && s.layer.Number() == id.number && !s.gone {
			return i
		}
	}
	return -1
}

// stagedLayer returns what is staged of a layer, nil if nothing is. It is valid until the next layer is added.
func (w *Writer) stagedLayer(l *Layer) *stagedLayer {
	if i := w.ordinal(l); i >= 0 {
		return &w.layers[i]
	}
	return nil
}

// addLayer returns the ordinal of a layer, and adds the layer if it has none.
func (w *Writer) addLayer(l *Layer) int {
	if i := w.ordinal(l); i >= 0 {
		return i
	}
	i := len(w.layers)
	w.layers = append(w.layers, stagedLayer{layer: l})
	w.grow(2 * int(unsafe.Sizeof(stagedLayer{})))
	switch {
	case w.layerIndex != nil:
		w.layerIndex[idOf(l)] = i
	case len(w.layers) > fewStaged:
		w.layerIndex = make(map[layerID]int)
		for i := range w.layers {
			if s := &w.layers[i]; !s.gone {
				w.layerIndex[idOf(s.layer)] = i
			}
		}
	}
	return i
}

// dropLayer forgets what is staged of a layer. A later layer with the same number gets another ordinal.
func (w *Writer) dropLayer(l *Layer) {
	i := w.ordinal(l)
	if i < 0 {
		return
	}
	w.layers[i].gone = true
	delete(w.layerIndex, idOf(l))
	w.onUndo(func() {
		w.layers[i].gone = false
		if w.layerIndex != nil {
			w.layerIndex[idOf(l)] = i
		}
	})
}

// truncateLayers removes the layers from the n-th on, for which nothing is staged any more.
func (w *Writer) truncateLayers(n int) {
	for i := n; i < len(w.layers); i++ {
		if id := idOf(w.layers[i].layer); w.layerIndex != nil && w.layerIndex[id] == i {
			delete(w.layerIndex, id)
		}
	}
	clear(w.layers[n:])
	w.layers = w.layers[:n]
}

// Made reports whether this writer has made the layer, so that nobody else has seen it.
func (w *Writer) Made(l *Layer) bool { s := w.stagedLayer(l); return s != nil && s.madeFor != nil }

// Counter returns counter i of a layer with this writer's changes.
func (w *Writer) Counter(l *Layer, i int) uint64 {
	if s := w.stagedLayer(l); s != nil && s.counted {
		return s.counters[i]
	}
	return l.Counter(i)
}

// SetCounter stages a new absolute value of counter i of a layer.
func (w *Writer) SetCounter(l *Layer, i int, v uint64) {
	n := w.addLayer(l)
	s := &w.layers[n]
	w.logCounters(n)
	if !s.counted {
		s.counted = true
		for j := range s.counters {
			s.counters[j] = l.Counter(j)
		}
	}
	s.counters[i] = v
}

// logCounters saves the counters of a layer in the undo log.
func (w *Writer) logCounters(i int) {
	s := &w.layers[i]
	if w.savepoint.id == 0 || s.counting == w.savepoint.id {
		return
	}
	counters, counted, counting := s.counters, s.counted, s.counting
	s.counting = w.savepoint.id
	w.onUndo(func() {
		s := &w.layers[i]
		s.counters, s.counted, s.counting = counters, counted, counting
	})
}

// stagedBlock returns a block with this writer's changes.
func (w *Writer) stagedBlock(o *Object, l *Layer, blk uint64) (*Line, error) {
	if b := w.findSlots(l, blk); b != nil {
		if err := w.copySlots(b); err != nil {
			return nil, err
		}
		return (*Line)(b.words), nil
	}
	if w.findBits(l, blk) < 0 {
		return w.block(o, l, blk)
	}
	first, words := l.NewBlock()
	return first, w.ReadBlock(o, l, blk, words)
}

// ReadBlock copies a block with this writer's changes to words. Words must have the block's length.
func (w *Writer) ReadBlock(o *Object, l *Layer, blk uint64, words []uint64) error {
	if b := w.findSlots(l, blk); b != nil {
		if err := w.copySlots(b); err != nil {
			return err
		}
		copy(words, b.words)
		return nil
	}
	first, err := w.block(o, l, blk)
	if err != nil {
		return err
	}
	block.Copy(words, l.Words(first))
	if i := w.findBits(l, blk); i >= 0 {
		w.bits[i].Set(words)
	}
	return nil
}

// eachStagedBlock calls f for each block of a layer that has staged changes.
func (w *Writer) eachStagedBlock(l *Layer, f func(blk uint64)) {
	s := w.stagedLayer(l)
	if s == nil {
		return
	}
	for i := s.bits; i > 0; i = w.bits[i-1].before {
		f(w.bits[i-1].blk)
	}
	for i := s.slots; i > 0; i = w.slots[i-1].before {
		f(w.slots[i-1].blk)
	}
}

// forgetGone removes what is staged of dropped layers.
func (w *Writer) forgetGone() {
	if !slices.ContainsFunc(w.layers, func(s stagedLayer) bool { return s.gone }) {
		return
	}
	for i := range w.bits {
		if b := &w.bits[i]; w.layers[b.ordinal].gone {
			w.bitCount -= b.Len()
		}
	}
	w.bits = slices.DeleteFunc(w.bits, func(b bitBlock) bool { return w.layers[b.ordinal].gone })
	for _, b := range w.slots {
		if w.layers[b.ordinal].gone {
			b.words = nil // it may be among the copies
		}
	}
	w.slots = slices.DeleteFunc(w.slots, func(b *slotBlock) bool { return w.layers[b.ordinal].gone })
	for i := range w.layers {
		s := &w.layers[i]
		if s.gone {
			*s = stagedLayer{layer: memory.NewLayer(s.layer.Object(), s.layer.Spec()), gone: true} // without its table
		}
		s.bits, s.slots = 0, 0
	}
	clear(w.bitIndex)
	for i := range w.bits {
		b := &w.bits[i]
		s := &w.layers[b.ordinal]
		b.before, s.bits = s.bits, i+1
		if w.bitIndex != nil {
			w.bitIndex[b.stagedPlace] = i
		}
	}
	clear(w.slotIndex)
	for i, b := range w.slots {
		s := &w.layers[b.ordinal]
		b.before, s.slots = s.slots, i+1
		if w.slotIndex != nil {
			w.slotIndex[b.stagedPlace] = i
		}
	}
}

// changedObjects returns the ids of the objects with staged blocks or counters. forgetGone was called before.
func (w *Writer) changedObjects() map[uint64]bool {
	ids := make(map[uint64]bool)
	for i := range w.layers {
		// No lookup looks into a log.
		if s := &w.layers[i]; (s.counted || s.bits > 0) && s.layer.Spec().Layout != LayoutLog {
			ids[s.layer.Object()] = true
		}
	}
	for _, b := range w.slots {
		if len(b.log) > 0 {
			ids[b.layer.Object()] = true
		}
	}
	return ids
}

// What a transaction stages has to fit into a commit, and takes memory until then. So it is measured each time that
// staged memory has grown by half the size of a commit, not only at the end. Staged changes are then never larger
// than one and a half commits; copies of blocks, and lists, take a few times that.

// grow adds to the bytes of memory that are staged.
func (w *Writer) grow(bytes int) {
	w.unmeasured += bytes
	w.unsifted += bytes
}

// sift calls forgetGone now and then. It is called between two changes of a transaction, so that none can undo the
// dropping of a layer.
func (w *Writer) sift() {
	if w.unsifted >= w.db.MaxCommit()/2 {
		w.unsifted = 0
		w.forgetGone()
	}
}

// fits returns an error if what is staged is larger than a commit may be. After that the writer commits nothing.
func (w *Writer) fits() error {
	if w.tooLarge == nil && w.unmeasured >= w.db.MaxCommit()/2 {
		w.unmeasured = 0
		w.tooLarge = storage.RefuseSize(w.leastSize(), w.db.MaxCommit())
	}
	return w.tooLarge
}

// Room returns how many bytes of the commit are surely left, counted as MaxCommit does.
func (w *Writer) Room() int {
	const most = 128 // bytes of a counter's or a block's key, lengths, and counters
	n := w.leastSize() + most*(len(w.staged)+len(w.layers)+len(w.bits)+len(w.slots)+len(w.drops))
	for i := range w.bits {
		n += w.bits[i].Growth() // a lookup may expand the items of a block
	}
	for _, a := range w.attributes {
		n += storage.PerEntry + most + len(a.name) + len(a.value)
	}
	return w.db.MaxCommit() - n
}

// leastSize returns a lower bound of the size of the commit.
func (w *Writer) leastSize() (n int) {
	for i := range w.staged {
		if v := &w.staged[i]; v.changed && (v.object != nil || v.stored != nil) {
			n += storage.PerEntry + len(v.key)
			if v.object != nil {
				n += len(v.object.header.Params)
			}
		}
	}
	for i := range w.layers {
		if s := &w.layers[i]; s.counted && !s.gone {
			n += storage.PerEntry
		}
	}
	for i := range w.bits {
		if b := &w.bits[i]; b.Len() > 0 && !w.layers[b.ordinal].gone {
			w.scratch = b.AppendOperand(w.scratch[:0], b.blk, &w.positions)
			n += storage.PerEntry + len(w.scratch)
		}
	}
	for _, b := range w.slots {
		if len(b.log) > 0 && !w.layers[b.ordinal].gone {
			w.scratch = block.AppendSlotsOperand(w.scratch[:0], b.object.header.Family, block.LastOfEach(slices.Clone(b.log)))
			n += storage.PerEntry + len(w.scratch)
		}
	}
	return n + 2*storage.PerEntry*len(w.drops)
}

// The most that an idle writer keeps memory for: keys and blocks of slots, blocks of bits, and positions or items of a
// block of bits. A filter for 30 million items at 1 % has 4,574 blocks, and a batch of 16,384 items changes most of them.
const (
	maxKept          = 4096
	maxKeptBlocks    = 8192
	maxKeptPositions = 64
)

// releaseChanges forgets everything, and keeps some memory for other writers.
func (w *Writer) releaseChanges() {
	w.releaseSlots()
	old := w.changes
	w.changes = changes{}
	if cap(old.staged) <= maxKept {
		clear(old.staged)
		w.staged = old.staged[:0]
	}
	if cap(old.layers) <= maxKept {
		clear(old.layers)
		w.layers = old.layers[:0]
	}
	if cap(old.bits) <= 2*maxKeptBlocks {
		for i := range old.bits {
			old.bits[i].Reset(maxKeptPositions)
		}
		w.bits = old.bits[:0]
	}
	if cap(old.slots) <= maxKept {
		clear(old.slots)
		w.slots = old.slots[:0]
	}
}
