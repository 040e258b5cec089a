// Package expiry knows the notes of keys that expire: where they begin, and which of them a sweep takes.
package expiry

import (
	"bytes"
	"sync"

	"github.com/sievekv/sievekv/internal/format"
)

// Hint is a key that is not after the first note. Reading past many deleted notes that are still in tables
// takes long, so a sweep begins to read at the hint.
//
// A sweep first raises the hint to the end, then reads, and then lowers it to the first note that it leaves. A commit
// lowers it after the commit is applied. So either the sweep reads the note of that commit, or the commit lowers the
// hint after the sweep has raised it. During a sweep, the hint tells nothing about the notes that this sweep will
// remove or leave.
type Hint struct {
	mu     sync.Mutex
	from   []byte // guarded by mu
	swept  []byte // what from was when the first sweep under way began; guarded by mu
	sweeps int    // sweeps under way; guarded by mu
}

// First returns a key that is not after the first note, also during a sweep.
func (h *Hint) First() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := h.from
	if h.sweeps > 0 && bytes.Compare(h.swept, first) < 0 {
		first = h.swept
	}
	if len(first) == 0 {
		return []byte{format.TagExpiry}
	}
	return first
}

// End is after every note.
var End = []byte{format.TagExpiry + 1}

// Raise begins a sweep: it returns the hint and raises it to the end.
func (h *Hint) Raise() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	from := h.from
	if h.sweeps++; h.sweeps == 1 || bytes.Compare(from, h.swept) < 0 {
		h.swept = from
	}
	h.from = End
	return from
}

// Leave ends a sweep, and lowers the hint to the first note that the sweep leaves.
func (h *Hint) Leave(note []byte) {
	h.Lower(note)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sweeps--
}

// Lower lowers the hint to a note, unless it is lower.
func (h *Hint) Lower(note []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if bytes.Compare(note, h.from) < 0 {
		h.from = bytes.Clone(note)
	}
}

// Due reports whether a sweep may find notes of expired keys, and whether there may be more: another sweep may not
// have removed yet what it has found.
func (h *Hint) Due(now int64) (due, more bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	due = bytes.Compare(h.from, format.AppendExpiryKey(nil, now+1, nil)) < 0
	return due, due || h.sweeps > 0
}
