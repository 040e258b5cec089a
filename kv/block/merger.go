package block

import (
	"slices"
	"sync"
)

// Merger merges the values of one key, see the package comment. It takes anything for a value and never fails. Values
// may come in any order of MergeNewer and MergeOlder calls, or all at once the one way or the other. It is not safe
// for concurrent use.
//
// Values are collected and applied oldest first in Finish, so that age needs no
// thought and the work is linear in their bytes.
type Merger struct {
	w *workspace
}

// workspace is the memory of a Merger, reused by others after Finish.
type workspace struct {
	inputs []byte
	newer  []span // newest last
	older  []span // oldest last
	limit  int    // size of inputs from which they are merged early

	val  value // being applied
	seq  sequence
	out  []byte // the result
	kept []byte // the result if some inputs could not be merged
	lost bool   // whether there are such
}

// span is where a value lies in inputs.
type span struct{ start, end int }

// maxInputs is the size in bytes from which a Merger merges what it has collected,
// to bound its memory. Merged operands are below 10 KiB for bits, 17 for slots.
const maxInputs = 64 << 10

var workspaces = sync.Pool{New: func() any { return new(workspace) }}

// NewMerger returns a Merger that has value to merge with others. Every value is borrowed for the call only.
func NewMerger(value []byte) *Merger {
	m := &Merger{w: workspaces.Get().(*workspace)}
	m.w.limit = maxInputs
	m.MergeNewer(value)
	return m
}

// MergeNewer adds a value newer than all so far.
func (m *Merger) MergeNewer(value []byte) {
	if len(value) != 0 {
		m.w.newer = append(m.w.newer, m.w.collect(value))
		m.w.bound()
	}
}

// MergeOlder adds a value older than all so far.
func (m *Merger) MergeOlder(value []byte) {
	if len(value) != 0 {
		m.w.older = append(m.w.older, m.w.collect(value))
		m.w.bound()
	}
}

// Finish returns the merged value, which belongs to the caller. One value alone,
// or with empty ones, is returned as it was. The Merger must not be used again.
func (m *Merger) Finish() []byte {
	w := m.w
	m.w = nil
	result := slices.Clone(w.merge())
	w.release()
	return result
}

func (w *workspace) collect(value []byte) span {
	start := len(w.inputs)
	w.inputs = append(w.inputs, value...)
	return span{start, len(w.inputs)}
}

// bound merges the values collected into one if they are many. The next time is when they are twice as long as what
// came of it, if that was much: inputs that cannot be merged would else be gone through with every new one.
func (w *workspace) bound() {
	if len(w.inputs) <= w.limit {
		return
	}
	merged := w.merge()
	w.inputs = append(w.inputs[:0], merged...)
	w.newer = append(w.newer[:0], span{0, len(merged)})
	w.older = w.older[:0]
	w.limit = max(maxInputs, 2*len(merged))
}

// release gives the workspace back, unless it has grown beyond the ordinary.
func (w *workspace) release() {
	if max(cap(w.inputs), cap(w.out), cap(w.kept)) > 4*maxInputs {
		return
	}
	w.inputs, w.newer, w.older = w.inputs[:0], w.newer[:0], w.older[:0]
	workspaces.Put(w)
}

// merge applies the values collected, oldest first. One value alone is passed on unseen: most keys of a compaction
// have no more. The result is valid until the next call that changes w.
func (w *workspace) merge() []byte {
	if len(w.newer)+len(w.older) <= 1 {
		return w.inputs
	}
	w.out, w.kept, w.lost = w.out[:0], append(w.kept[:0], kindKept), false
	for _, s := range slices.Backward(w.older) {
		w.apply(w.inputs[s.start:s.end])
	}
	for _, s := range w.newer {
		w.apply(w.inputs[s.start:s.end])
	}
	if w.lost {
		w.keepSequence()
		return w.kept
	}
	w.out = w.seq.appendTo(w.out)
	w.seq.reset()
	return w.out
}

// apply applies a value. Kept inputs are applied one by one, so that they end up
// in one list whatever was merged before; but they stay lost.
func (w *workspace) apply(val []byte) {
	if _, ok := countKept(val); !ok {
		w.applyOne(val)
		return
	}
	w.lost = true
	for list := val[1:]; len(list) > 0; {
		var input []byte
		input, list, _ = nextKept(list)
		w.applyOne(input)
	}
}

func (w *workspace) applyOne(val []byte) {
	if err := w.val.parse(val); err != nil {
		w.lost = true
		w.keepSequence()
		w.kept = appendKept(w.kept, val)
		return
	}
	if !w.seq.accepts(&w.val) {
		w.lost = true
		w.keepSequence()
	}
	w.seq.add(&w.val, val)
}

// keepSequence moves the sequence to the inputs kept.
func (w *workspace) keepSequence() {
	if w.seq.inputs != 0 {
		w.out = w.seq.appendTo(w.out[:0])
		w.kept = appendKept(w.kept, w.out)
		w.seq.reset()
	}
}
