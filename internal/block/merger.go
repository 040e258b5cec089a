package block

import (
	"slices"
	"sync"
)

// Merger merges the values of one key, see the package comment. It takes any bytes as a value and never fails. Values
// may come by any mixture of MergeNewer and MergeOlder calls. A Merger is not safe for concurrent use.
//
// It collects the values, and applies them oldest first in Finish. So the order in which they come does not matter,
// and the work is linear in their bytes.
type Merger struct {
	w *workspace
}

// workspace is the memory of a Merger. After Finish another Merger uses it.
type workspace struct {
	inputs []byte
	newer  []span // newest last
	older  []span // oldest last
	limit  int    // inputs above this size are merged early, see bound

	val  value // the value being applied
	seq  sequence
	out  []byte // the result
	kept []byte // the result if some inputs could not be merged
	lost bool   // some inputs could not be merged
}

// span is the place of a value in inputs.
type span struct{ start, end int }

// maxInputs bounds the memory of a Merger: when it has collected more bytes, it merges them. A merged operand is
// below 10 KiB for bits, 17 for slots.
const maxInputs = 64 << 10

var workspaces = sync.Pool{New: func() any { return new(workspace) }}

// NewMerger returns a Merger that has one value already. The Merger copies every value that it is given.
func NewMerger(value []byte) *Merger {
	m := &Merger{w: workspaces.Get().(*workspace)}
	m.w.limit = maxInputs
	m.MergeNewer(value)
	return m
}

// MergeNewer adds a value that is newer than all so far.
func (m *Merger) MergeNewer(value []byte) {
	if len(value) != 0 {
		m.w.newer = append(m.w.newer, m.w.collect(value))
		m.w.bound()
	}
}

// MergeOlder adds a value that is older than all so far.
func (m *Merger) MergeOlder(value []byte) {
	if len(value) != 0 {
		m.w.older = append(m.w.older, m.w.collect(value))
		m.w.bound()
	}
}

// Finish returns the merged value, which belongs to the caller. If only one value is not empty, it is returned as it
// was. The Merger must not be used again.
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

// bound merges the values collected into one if they are many. It also raises the limit to twice the result, if that
// is more than maxInputs. Otherwise a long list of inputs that cannot be merged would be merged again with every new
// one.
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

// release gives the workspace back for reuse, unless it has grown unusually large.
func (w *workspace) release() {
	if max(cap(w.inputs), cap(w.out), cap(w.kept)) > 4*maxInputs {
		return
	}
	w.inputs, w.newer, w.older = w.inputs[:0], w.newer[:0], w.older[:0]
	workspaces.Put(w)
}

// merge applies the values collected, oldest first. A value that is alone is passed on as it is: most keys of a
// compaction have only one. The result is valid until the next call that changes w.
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

// apply applies a value. Kept inputs are applied one by one, so that they end up in one list whatever was merged
// before. The result stays marked as lost.
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

// keepSequence moves the sequence to the kept inputs.
func (w *workspace) keepSequence() {
	if w.seq.inputs != 0 {
		w.out = w.seq.appendTo(w.out[:0])
		w.kept = appendKept(w.kept, w.out)
		w.seq.reset()
	}
}
