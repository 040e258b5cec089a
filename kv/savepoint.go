package kv

import "slices"

// A transaction has one writer for all of its changes, which run one after the other. If a change returns nil, what
// it staged stays. If not, the writer goes back to the savepoint where the change began: what was added is cut off,
// and what was replaced is restored from an undo log.

// savepoint is where a change inside a transaction began, and how the writer gets back there.
type savepoint struct {
	id    uint64       // number of the change, from 1; 0 outside of transactions
	undo  []func()     // the undo log, oldest first
	slots []*slotBlock // that the change has looked at; each knows how much of its log to keep
	lens  stagedLens
}

// stagedLens are the lengths of the writer's lists at a savepoint.
type stagedLens struct {
	staged, layers, bits, slots, built, drops, attributes, layerDrops int
}

// runWithSavepoint runs a change of a transaction. If the change returns an error or panics, everything it staged is
// undone.
func (w *Writer) runWithSavepoint(change func(*Writer) error) error {
	w.sift()
	if err := w.fits(); err != nil {
		return err
	}
	w.setSavepoint()
	staged := false
	defer func() {
		if !staged {
			w.rollBack()
		}
		w.savepoint = savepoint{}
	}()
	err := change(w)
	if staged = err == nil; staged {
		w.forgetUnchanged(w.savepoint.lens.staged)
	}
	return err
}

// setSavepoint begins a change inside a transaction.
func (w *Writer) setSavepoint() {
	w.uses++
	w.savepoint = savepoint{id: w.uses, lens: stagedLens{
		len(w.staged), len(w.layers), len(w.bits), len(w.slots), len(w.built), len(w.drops), len(w.attributes), len(w.layerDrops),
	}}
	if w.added = w.added[:0]; cap(w.added) > maxKept {
		w.added = nil
	}
}

// rollBack undoes what was staged since the savepoint.
func (w *Writer) rollBack() {
	for _, undo := range slices.Backward(w.savepoint.undo) {
		undo()
	}
	to := w.savepoint.lens
	w.truncateKeys(to.staged)
	w.takeBackBits(to.bits)
	w.takeBackSlots(to.slots)
	w.truncateLayers(to.layers)
	w.built, w.drops, w.attributes, w.layerDrops = w.built[:to.built], w.drops[:to.drops], w.attributes[:to.attributes], w.layerDrops[:to.layerDrops]
}

func (w *Writer) truncateKeys(n int) {
	for i := n; i < len(w.staged); i++ {
		delete(w.index, w.staged[i].key)
	}
	clear(w.staged[n:])
	w.staged = w.staged[:n]
}

// onUndo adds a function to the undo log, for changes that cutting off does not undo. The last function is called
// first.
func (w *Writer) onUndo(undo func()) {
	if w.savepoint.id != 0 {
		w.savepoint.undo = append(w.savepoint.undo, undo)
	}
}

// logKey saves a staged key in the undo log.
func (w *Writer) logKey(v *stagedKey) {
	if w.savepoint.id == 0 {
		return
	}
	old := *v
	w.onUndo(func() { *w.keyOf([]byte(old.key)) = old })
}
