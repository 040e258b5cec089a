package kv

import "slices"

// A transaction has one writer for everything that happens in it, lent to each change
// in turn: what a change staged stays if it returns nil, and goes if it does not, by a
// journal of what it was before.

// nesting is the state of a writer while somebody uses it inside a transaction.
type nesting struct {
	id    uint64 // of the use, from 1; 0 outside of transactions: the writer is its user's own
	undo  []func()
	slots []*slotBlock // those looked at to be changed, to be taken back to saved
	lens  savepoint
}

// savepoint is how much was staged when the user began. What he adds is behind it.
type savepoint struct {
	views, layers, bits, slots, built, drops, attributes, layerDrops int
}

// runNested runs a change of a transaction, which is staged if it returns nil, and
// otherwise, or if it panics, taken back.
func (w *Writer) runNested(change func(*Writer) error) error {
	w.sift()
	if err := w.fits(); err != nil {
		return err
	}
	w.enterNest()
	staged := false
	defer func() {
		if !staged {
			w.rollBack()
		}
		w.nest = nesting{}
	}()
	err := change(w)
	if staged = err == nil; staged {
		w.forgetUnchanged(w.nest.lens.views)
	}
	return err
}

// enterNest begins a use of the writer inside a transaction.
func (w *Writer) enterNest() {
	w.uses++
	w.nest = nesting{id: w.uses, lens: savepoint{
		len(w.views), len(w.layers), len(w.bits), len(w.slots), len(w.built), len(w.drops), len(w.attributes), len(w.layerDrops),
	}}
	if w.added = w.added[:0]; cap(w.added) > maxKept {
		w.added = nil
	}
}

// rollBack takes back what was staged in the present use of the writer.
func (w *Writer) rollBack() {
	for _, undo := range slices.Backward(w.nest.undo) {
		undo()
	}
	to := w.nest.lens
	w.truncateViews(to.views)
	w.takeBackBits(to.bits)
	w.takeBackSlots(to.slots)
	w.truncateLayers(to.layers)
	w.built, w.drops, w.attributes, w.layerDrops = w.built[:to.built], w.drops[:to.drops], w.attributes[:to.attributes], w.layerDrops[:to.layerDrops]
}

func (w *Writer) truncateViews(n int) {
	for i := n; i < len(w.views); i++ {
		delete(w.index, w.views[i].key)
	}
	clear(w.views[n:])
	w.views = w.views[:n]
}

// onUndo has something called if the user of a transaction's writer refuses: for what is not
// taken back by cutting off what was added, the last first.
func (w *Writer) onUndo(undo func()) {
	if w.nest.id != 0 {
		w.nest.undo = append(w.nest.undo, undo)
	}
}

// journalView has a view restored if the user refuses. Views that are new are only cut off.
func (w *Writer) journalView(v *keyView) {
	if w.nest.id == 0 {
		return
	}
	old := *v
	w.onUndo(func() { *w.view([]byte(old.key)) = old })
}
