package kv

import "slices"

// A transaction has one writer for everything that happens in it, lent to each change
// in turn: what a change staged stays if it returns nil, and goes if it does not, by a
// journal of what it was before.

// nesting is the state of a writer while somebody uses it inside a transaction.
type nesting struct {
	id    uint64 // of the use, from 1; 0 outside of transactions: the writer is its user's own
	undo  []func()
	lens  savepoint
	flush bool
}

// savepoint is how much was staged when the user began. What he adds is behind it.
type savepoint struct {
	views, bits, counts, slots, handed, built, drops, attributes, layerDrops int
}

// runNested runs a change of a transaction, which is staged if it returns nil, and
// otherwise, or if it panics, taken back.
func (w *Writer) runNested(change func(*Writer) error) error {
	w.enterNest()
	staged := false
	defer func() {
		if !staged {
			w.rollBack()
		}
		w.nest = nesting{}
	}()
	err := change(w)
	staged = err == nil
	return err
}

// enterNest begins a use of the writer inside a transaction.
func (w *Writer) enterNest() {
	w.uses++
	w.nest = nesting{id: w.uses, flush: w.flush, lens: savepoint{
		len(w.views), len(w.bits), len(w.counts), len(w.slots), len(w.handed), len(w.built), len(w.drops), len(w.attributes),
		len(w.layerDrops),
	}}
}

// rollBack takes back what was staged in the present use of the writer.
func (w *Writer) rollBack() {
	for _, undo := range slices.Backward(w.nest.undo) {
		undo()
	}
	to := w.nest.lens
	w.truncateViews(to.views)
	if to.bits < len(w.bits) {
		w.bits = w.bits[:to.bits]
		w.restage()
	}
	w.counts, w.handed, w.built = w.counts[:to.counts], w.handed[:to.handed], w.built[:to.built]
	w.setSlotBlocks(w.slots[:to.slots])
	w.drops, w.attributes, w.layerDrops = w.drops[:to.drops], w.attributes[:to.attributes], w.layerDrops[:to.layerDrops]
	w.flush = w.nest.flush
}

func (w *Writer) truncateViews(n int) {
	for i := n; i < len(w.views); i++ {
		delete(w.index, w.views[i].key)
	}
	w.views = w.views[:n]
	if n <= fewViews {
		w.index = nil
	}
}

// restage makes the set of staged bits anew.
func (w *Writer) restage() {
	w.staged.reset()
	if len(w.bits) >= fewBits {
		for _, bit := range w.bits {
			w.staged.add(bit)
		}
	}
}

// journalView has a view restored if the user refuses. Views that are new are only cut off.
func (w *Writer) journalView(v *keyView) {
	if w.nest.id == 0 {
		return
	}
	old := *v
	w.nest.undo = append(w.nest.undo, func() { *w.view([]byte(old.key)) = old })
}

func (w *Writer) journalCount(i int) {
	if w.nest.id == 0 {
		return
	}
	old := w.counts[i]
	w.nest.undo = append(w.nest.undo, func() { w.counts[i] = old })
}

// journalAll has everything restored if the user refuses: before what takes something
// out of the middle.
func (w *Writer) journalAll() {
	if w.nest.id == 0 {
		return
	}
	views, bits, counts, handed := slices.Clone(w.views), slices.Clone(w.bits), slices.Clone(w.counts), slices.Clone(w.handed)
	slots, layerDrops := slices.Clone(w.slots), slices.Clone(w.layerDrops)
	drops, built, attributes := slices.Clone(w.drops), slices.Clone(w.built), slices.Clone(w.attributes)
	flush := w.flush
	w.nest.undo = append(w.nest.undo, func() {
		w.views, w.bits, w.counts, w.handed = views, bits, counts, handed
		w.drops, w.built, w.attributes, w.flush = drops, built, attributes, flush
		w.index = nil
		w.indexViews()
		w.layerDrops = layerDrops
		w.setSlotBlocks(slots)
		w.restage()
	})
}
