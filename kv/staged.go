package kv

import (
	"math/bits"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/sievekv/sievekv/kv/block"
)

// What a writer has staged. A transaction may stage a hundred thousand things and look
// into them at each of its steps, so nothing here is found by going through the others:
// keys, layers and blocks have an index each once they are many.

// changes are everything a writer has staged.
type changes struct {
	views []keyView      // what keys map to for this writer
	index map[string]int // of views, by key, once they are many

	layers     []stagedLayer   // layers with changes; a layer's place here is its ordinal
	layerIndex map[layerID]int // of layers, once they are many, but for those that are gone

	bits      []bitBlock          // blocks of bits with new ones
	bitIndex  map[stagedPlace]int // of bits, once they are many
	bitCount  int                 // bits in all of them
	added     []addedBit          // those staged in this use of a transaction's writer, oldest first
	slots     []*slotBlock        // blocks of slots looked at
	slotIndex map[stagedPlace]int // of slots, once they are many

	built      []uint64 // ids of objects this writer has built
	drops      []uint64 // ids of objects to be dropped
	attributes []stagedAttribute
	layerDrops []layerDrop // layers to be dropped, of objects that stay
	flush      bool        // drops every key
}

// fewStaged is the number of things up to which looking through them beats a map.
const fewStaged = 16

// layerID names a layer, in whichever incarnation of its object it is found.
type layerID struct{ object, number uint64 }

func (l *Layer) id() layerID { return layerID{l.object, l.spec.Number} }

// stagedLayer is what a writer has staged of a layer, but for what is in its blocks.
type stagedLayer struct {
	layer    *Layer
	counters [numCounters]uint64
	counted  bool    // counters are staged
	madeFor  *Object // what this writer made it for, of which nothing is stored then; else nil
	gone     bool    // it is dropped, and what is staged of it does not count
	counting uint64  // the use of a transaction's writer that last staged counters
	bits     int     // the last of its blocks in changes.bits, plus 1
	slots    int     // and in changes.slots
}

// stagedPlace names a block: its layer by the ordinal.
type stagedPlace struct {
	ordinal int
	blk     uint64
}

// bitBlock is what is staged of a block of bits.
type bitBlock struct {
	stagedPlace
	before    int      // the block of the same layer before it, plus 1
	count     int      // bits
	positions []uint16 // of the bits, ascending, while they are few
	words     []uint64 // the bits, once they are many
}

// manyPositions is the number of staged bits from which a block of bits, 8 KiB, is not much
// more than their positions and the operand they become.
const manyPositions = 2048

// addedBit is a bit of one of the blocks.
type addedBit struct {
	block    int // its place in changes.bits
	position uint16
}

// ordinal returns the place of a layer among those with changes, -1 if it has none.
func (w *Writer) ordinal(l *Layer) int {
	id := l.id()
	if w.layerIndex != nil {
		if i, ok := w.layerIndex[id]; ok {
			return i
		}
		return -1
	}
	for i := len(w.layers) - 1; i >= 0; i-- {
		w.steps++
		if s := &w.layers[i]; s.layer.object == id.object && s.layer.spec.Number == id.number && !s.gone {
			return i
		}
	}
	return -1
}

// stagedLayer returns what is staged of a layer, nil if nothing is. It is valid until the
// next layer is added.
func (w *Writer) stagedLayer(l *Layer) *stagedLayer {
	if i := w.ordinal(l); i >= 0 {
		return &w.layers[i]
	}
	return nil
}

// addLayer returns the ordinal of a layer, which it adds to those with changes.
func (w *Writer) addLayer(l *Layer) int {
	if i := w.ordinal(l); i >= 0 {
		return i
	}
	i := len(w.layers)
	w.layers = append(w.layers, stagedLayer{layer: l})
	w.grow(2 * int(unsafe.Sizeof(stagedLayer{})))
	switch {
	case w.layerIndex != nil:
		w.layerIndex[l.id()] = i
	case len(w.layers) > fewStaged:
		w.layerIndex = make(map[layerID]int)
		for i := range w.layers {
			if s := &w.layers[i]; !s.gone {
				w.layerIndex[s.layer.id()] = i
			}
		}
	}
	return i
}

// dropLayer forgets what is staged of a layer. One of the same number has another ordinal.
func (w *Writer) dropLayer(l *Layer) {
	i := w.ordinal(l)
	if i < 0 {
		return
	}
	w.layers[i].gone = true
	delete(w.layerIndex, l.id())
	w.onUndo(func() {
		w.layers[i].gone = false
		if w.layerIndex != nil {
			w.layerIndex[l.id()] = i
		}
	})
}

// truncateLayers takes away the layers from the n-th on, of which nothing is staged any more.
func (w *Writer) truncateLayers(n int) {
	for i := n; i < len(w.layers); i++ {
		if id := w.layers[i].layer.id(); w.layerIndex != nil && w.layerIndex[id] == i {
			delete(w.layerIndex, id)
		}
	}
	clear(w.layers[n:])
	w.layers = w.layers[:n]
}

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
	w.journalCounters(n)
	if !s.counted {
		s.counted = true
		for j := range s.counters {
			s.counters[j] = l.Counter(j)
		}
	}
	s.counters[i] = v
}

// journalCounters has the counters of a layer restored if the user of a transaction's
// writer refuses.
func (w *Writer) journalCounters(i int) {
	s := &w.layers[i]
	if w.nest.id == 0 || s.counting == w.nest.id {
		return
	}
	counters, counted, counting := s.counters, s.counted, s.counting
	s.counting = w.nest.id
	w.onUndo(func() {
		s := &w.layers[i]
		s.counters, s.counted, s.counting = counters, counted, counting
	})
}

// SetBits stages the setting of bits of one block, given as ascending positions
// without repeats, and returns how many of them were not set before, by this
// writer's own changes included.
func (w *Writer) SetBits(o *Object, l *Layer, blk uint64, positions []uint16) (int, error) {
	first, err := w.block(o, l, blk)
	if err != nil {
		return 0, err
	}
	words, staged := l.Words(first), w.findBits(l, blk)
	changed := 0
	for _, p := range positions {
		if isSet(words, p) {
			continue
		}
		if staged < 0 {
			staged = w.addBitBlock(l, blk)
		}
		if w.bits[staged].add(p) {
			changed++
			w.grow(4)
			w.bitCount++
			if w.nest.id != 0 {
				w.added = append(w.added, addedBit{staged, p})
			}
		}
	}
	return changed, w.fits()
}

// HasBits reports whether all of the bits are set, by this writer's own changes
// included.
func (w *Writer) HasBits(o *Object, l *Layer, blk uint64, positions []uint16) (bool, error) {
	first, err := w.block(o, l, blk)
	if err != nil {
		return false, err
	}
	words, staged := l.Words(first), w.findBits(l, blk)
	for _, p := range positions {
		if !isSet(words, p) && (staged < 0 || !w.bits[staged].has(p)) {
			return false, nil
		}
	}
	return true, nil
}

func isSet(words []uint64, p uint16) bool {
	return atomic.LoadUint64(&words[p>>6])>>(p&63)&1 != 0
}

// findBits returns the place in bits of a block, -1 if none of its bits are staged.
func (w *Writer) findBits(l *Layer, blk uint64) int {
	if len(w.bits) == 0 {
		return -1
	}
	n := w.ordinal(l)
	if n < 0 {
		return -1
	}
	place := stagedPlace{n, blk}
	if w.bitIndex != nil {
		if i, ok := w.bitIndex[place]; ok {
			return i
		}
		return -1
	}
	for i := len(w.bits) - 1; i >= 0; i-- {
		w.steps++
		if w.bits[i].stagedPlace == place {
			return i
		}
	}
	return -1
}

// addBitBlock adds a block none of whose bits are staged.
func (w *Writer) addBitBlock(l *Layer, blk uint64) int {
	n, i := w.addLayer(l), len(w.bits)
	w.grow(2 * int(unsafe.Sizeof(bitBlock{})))
	s := &w.layers[n]
	if i < cap(w.bits) {
		w.bits = w.bits[:i+1] // with the memory for positions that it has
	} else {
		w.bits = append(w.bits, bitBlock{})
	}
	b := &w.bits[i]
	*b = bitBlock{stagedPlace: stagedPlace{n, blk}, before: s.bits, positions: b.positions[:0]}
	s.bits = i + 1
	switch {
	case w.bitIndex != nil:
		w.bitIndex[b.stagedPlace] = i
	case len(w.bits) > fewStaged:
		w.bitIndex = make(map[stagedPlace]int)
		for i := range w.bits {
			w.bitIndex[w.bits[i].stagedPlace] = i
		}
	}
	return i
}

// has reports whether a bit is staged.
func (b *bitBlock) has(p uint16) bool {
	if b.words != nil {
		return b.words[p>>6]>>(p&63)&1 != 0
	}
	_, found := slices.BinarySearch(b.positions, p)
	return found
}

// add adds a bit and reports whether it was not there.
func (b *bitBlock) add(p uint16) bool {
	if b.words == nil {
		i, found := slices.BinarySearch(b.positions, p)
		if found {
			return false
		}
		if b.count < manyPositions {
			b.positions = slices.Insert(b.positions, i, p)
			b.count++
			return true
		}
		b.words = make([]uint64, block.MaxWords)
		setPositions(b.words, b.positions)
		b.positions = nil
	}
	if b.words[p>>6]>>(p&63)&1 != 0 {
		return false
	}
	b.words[p>>6] |= 1 << (p & 63)
	b.count++
	return true
}

// remove takes a bit away that is there.
func (b *bitBlock) remove(p uint16) {
	b.count--
	if b.words != nil {
		b.words[p>>6] &^= 1 << (p & 63)
		return
	}
	i, _ := slices.BinarySearch(b.positions, p)
	b.positions = slices.Delete(b.positions, i, i+1)
}

// appendPositions appends the bits, ascending.
func (b *bitBlock) appendPositions(dst []uint16) []uint16 {
	dst = append(dst, b.positions...)
	for i, word := range b.words {
		for ; word != 0; word &= word - 1 {
			dst = append(dst, uint16(i<<6|bits.TrailingZeros64(word)))
		}
	}
	return dst
}

// set sets the bits in a block that nobody else sees.
func (b *bitBlock) set(words []uint64) {
	setPositions(words, b.positions)
	if b.words != nil {
		for i := range words {
			words[i] |= b.words[i]
		}
	}
}

// takeBackBits takes back the bits staged in this use of a transaction's writer, which had
// n blocks when that began.
func (w *Writer) takeBackBits(n int) {
	for _, bit := range slices.Backward(w.added) {
		w.bits[bit.block].remove(bit.position)
		w.bitCount--
	}
	for i := len(w.bits) - 1; i >= n; i-- {
		b := &w.bits[i]
		w.layers[b.ordinal].bits = b.before
		delete(w.bitIndex, b.stagedPlace)
		b.words = nil
	}
	w.bits = w.bits[:n]
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
	first, words := l.newBlock()
	return first, w.ReadBlock(o, l, blk, words)
}

// ReadBlock copies a block with this writer's changes to words, which are as many
// as the block has.
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
	copyWords(words, l.Words(first))
	if i := w.findBits(l, blk); i >= 0 {
		w.bits[i].set(words)
	}
	return nil
}

// eachStagedBlock calls f for the blocks of a layer in which something is staged.
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

// forgetGone takes away what is staged of layers that are gone.
func (w *Writer) forgetGone() {
	if !slices.ContainsFunc(w.layers, func(s stagedLayer) bool { return s.gone }) {
		return
	}
	for i := range w.bits {
		if b := &w.bits[i]; w.layers[b.ordinal].gone {
			w.bitCount -= b.count
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
			*s = stagedLayer{layer: &Layer{object: s.layer.object, spec: s.layer.spec}, gone: true} // without its table
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

// changedObjects returns the ids of the objects of which blocks or counters are staged, after
// forgetGone.
func (w *Writer) changedObjects() map[uint64]bool {
	ids := make(map[uint64]bool)
	for i := range w.layers {
		if s := &w.layers[i]; s.counted {
			ids[s.layer.object] = true
		}
	}
	for i := range w.bits {
		ids[w.layers[w.bits[i].ordinal].layer.object] = true
	}
	for _, b := range w.slots {
		if len(b.log) > 0 {
			ids[b.layer.object] = true
		}
	}
	return ids
}

// What a transaction stages has to fit into a commit, and takes memory until then. So it is not
// only at the end that it is measured: whenever as much was staged again as half of a commit, in
// bytes of memory. What is staged at any time is then no more than a commit and that half, in
// copies of blocks and lists a few times as much.

// grow counts bytes of memory that are staged.
func (w *Writer) grow(bytes int) {
	w.unmeasured += bytes
	w.unsifted += bytes
}

// sift forgets what is staged of layers that are gone, now and then. No use of the writer is
// under way that could take back that they are.
func (w *Writer) sift() {
	if w.unsifted >= w.db.MaxCommit()/2 {
		w.unsifted = 0
		w.forgetGone()
	}
}

// fits refuses what is staged if that is more than a commit takes. A writer that was refused once
// commits nothing.
func (w *Writer) fits() error {
	if w.tooLarge == nil && w.unmeasured >= w.db.MaxCommit()/2 {
		w.unmeasured = 0
		w.tooLarge = w.db.refuseSize(w.leastSize())
	}
	return w.tooLarge
}

// leastSize returns a bound of the size of the commit, which is no less.
func (w *Writer) leastSize() (n int) {
	for i := range w.views {
		if v := &w.views[i]; v.changed && (v.object != nil || v.stored != nil) {
			n += perEntry + len(v.key)
			if v.object != nil {
				n += len(v.object.header.params)
			}
		}
	}
	for i := range w.layers {
		if s := &w.layers[i]; s.counted && !s.gone {
			n += perEntry
		}
	}
	for i := range w.bits {
		if b := &w.bits[i]; b.count > 0 && !w.layers[b.ordinal].gone {
			w.positions = b.appendPositions(w.positions[:0])
			w.scratch = block.AppendBitsOperand(w.scratch[:0], w.positions)
			n += perEntry + len(w.scratch)
		}
	}
	for _, b := range w.slots {
		if len(b.log) > 0 && !w.layers[b.ordinal].gone {
			w.scratch = block.AppendSlotsOperand(w.scratch[:0], b.object.header.family, lastOfEach(slices.Clone(b.log)))
			n += perEntry + len(w.scratch)
		}
	}
	return n + 2*perEntry*len(w.drops)
}

// The most that an idle writer keeps: how many keys and blocks it has room for, and positions
// of a block.
const (
	maxKept          = 4096
	maxKeptPositions = 64
)

// releaseChanges forgets everything, and keeps some memory for others.
func (w *Writer) releaseChanges() {
	w.releaseSlots()
	old := w.changes
	w.changes = changes{}
	if cap(old.views) <= maxKept {
		clear(old.views)
		w.views = old.views[:0]
	}
	if cap(old.layers) <= maxKept {
		clear(old.layers)
		w.layers = old.layers[:0]
	}
	if cap(old.bits) <= maxKept {
		for i := range old.bits {
			b := &old.bits[i]
			if b.words = nil; cap(b.positions) > maxKeptPositions {
				b.positions = nil
			}
		}
		w.bits = old.bits[:0]
	}
	if cap(old.slots) <= maxKept {
		clear(old.slots)
		w.slots = old.slots[:0]
	}
}
