package bitmapext

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/sievekv/sievekv/kv/block"
)

// words is a block of a string. Bit 0 of a word is bit 7 of the string's bits there, see format.go. Where a method takes
// other words, they may be nil for a block of zeros, and commits may be changing them.
type words [block.MaxWords]uint64

// set makes the words those of w.
func (a *words) set(w *words) {
	if w == nil {
		*a = words{}
		return
	}
	for j := range a {
		a[j] = atomic.LoadUint64(&w[j])
	}
}

// setBytes makes the words those of up to 8,192 bytes, with zeros after them.
func (a *words) setBytes(b []byte) {
	n := len(b) / 8
	for j := range n {
		a[j] = binary.LittleEndian.Uint64(b[8*j:])
	}
	clear(a[n:])
	if rest := b[8*n:]; len(rest) > 0 {
		var last [8]byte
		copy(last[:], rest)
		a[n] = binary.LittleEndian.Uint64(last[:])
	}
}

// appendBytes appends the first n bytes of the words.
func (a *words) appendBytes(b []byte, n uint64) []byte {
	end := uint64(len(b)) + n
	for j := range (n + 7) / 8 {
		b = binary.LittleEndian.AppendUint64(b, a[j])
	}
	return b[:end]
}

// some reports whether a bit is set.
func (a *words) some() bool {
	for j := range a {
		if a[j] != 0 {
			return true
		}
	}
	return false
}

// and keeps the bits that w has, and reports whether there is one.
func (a *words) and(w *words) bool {
	if w == nil {
		*a = words{}
		return false
	}
	all := uint64(0)
	for j := range a {
		x := a[j] & atomic.LoadUint64(&w[j])
		a[j] = x
		all |= x
	}
	return all != 0
}

// andNot keeps the bits that w has not, and reports whether there is one.
func (a *words) andNot(w *words) bool {
	if w == nil {
		return a.some()
	}
	all := uint64(0)
	for j := range a {
		x := a[j] &^ atomic.LoadUint64(&w[j])
		a[j] = x
		all |= x
	}
	return all != 0
}

func (a *words) or(w *words) {
	if w == nil {
		return
	}
	for j := range a {
		a[j] |= atomic.LoadUint64(&w[j])
	}
}

func (a *words) xor(w *words) {
	if w == nil {
		return
	}
	for j := range a {
		a[j] ^= atomic.LoadUint64(&w[j])
	}
}

// orTwice is or, and sets in twice what both have.
func (a *words) orTwice(w, twice *words) {
	if w == nil {
		return
	}
	for j := range a {
		x := atomic.LoadUint64(&w[j])
		twice[j] |= a[j] & x
		a[j] |= x
	}
}

// flip makes set bits clear and clear bits set in the first n bytes; those behind are zero.
func (a *words) flip(n uint64) {
	for j := range a {
		a[j] = ^a[j]
	}
	if j := n / 8; j < uint64(len(a)) {
		a[j] &= 1<<(n%8*8) - 1
		clear(a[j+1:])
	}
}
