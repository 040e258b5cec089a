package kv

import "slices"

// A transaction has one writer for everything that happens in it. Whoever writes in
// it begins and ends that writer as he would one of his own: what he staged stays
// when he commits, and goes when he refuses, by a journal of what it was before.

// nesting is the state of a writer while somebody uses it inside a transaction.
type nesting struct {
	tx    *Transaction // nil: the writer is its user's own
	id    uint64       // of the use, from 1; 0 outside of transactions
	undo  []func()
	lens  savepoint
	flush bool
}

// savepoint is how much was staged when the user began. What he adds is behind it.
type savepoint struct {
	views, bits, counts, slots, handed, built, drops, attributes, layerDrops int
}

// enterNest lends the writer to a user inside a transaction, which he holds until he
// ends it.
func (w *Writer) enterNest(tx *Transaction) {
	w.uses++
	w.nest = nesting{tx: tx, id: w.uses, flush: w.flush, lens: savepoint{
		len(w.views), len(w.bits), len(w.counts), len(w.slots), len(w.handed), len(w.built), len(w.drops), len(w.attributes),
		len(w.layerDrops),
	}}
}

// rejoin ends the use of the writer, with what was staged.
func (w *Writer) rejoin() {
	tx := w.nest.tx
	w.nest = nesting{}
	tx.mu.Unlock()
}

// rollBack ends the use of the writer, without what was staged.
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
	w.rejoin()
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
	if w.nest.tx == nil {
		return
	}
	old := *v
	w.nest.undo = append(w.nest.undo, func() { *w.view([]byte(old.key)) = old })
}

func (w *Writer) journalCount(i int) {
	if w.nest.tx == nil {
		return
	}
	old := w.counts[i]
	w.nest.undo = append(w.nest.undo, func() { w.counts[i] = old })
}

// journalAll has everything restored if the user refuses: before what takes something
// out of the middle.
func (w *Writer) journalAll() {
	if w.nest.tx == nil {
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
