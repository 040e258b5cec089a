package bitmapext

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/sievekv/sievekv/internal/block"
)

// words is a block of a string. Bit 0 of a word is bit 7 of the string's bits there, see format.go.
type words [block.MaxWords]uint64

// zeros is a block without a set bit.
var zeros words

// set copies w to the words; nil stands for zeros. Commits may be changing w.
func (a *words) set(w *words) {
	if w == nil {
		*a = words{}
		return
	}
	for j := range a {
		a[j] = atomic.LoadUint64(&w[j])
	}
}

// setBytes sets the words to up to 8,192 bytes, with zeros after them.
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

// The combinations below take four blocks at a time and report whether the result has a set bit. Any of the blocks may
// be the words themselves. They are loops over four words at once, because they do little but read memory: combining
// eight blocks two at a time takes more than twice as long. No commit may be changing the blocks.

// and makes the words the bits that all of the blocks have. It does not look at the last two blocks where the others have
// no bit in common.
func (a *words) and(w, x, y, z *words) bool {
	all := uint64(0)
	for j := 0; j < len(a); j += 4 {
		r, s, t, u := w[j]&x[j], w[j+1]&x[j+1], w[j+2]&x[j+2], w[j+3]&x[j+3]
		if r|s|t|u != 0 {
			r, s, t, u = r&y[j]&z[j], s&y[j+1]&z[j+1], t&y[j+2]&z[j+2], u&y[j+3]&z[j+3]
			all |= r | s | t | u
		}
		a[j], a[j+1], a[j+2], a[j+3] = r, s, t, u
	}
	return all != 0
}

// andNot makes the words the bits that the first block has and none of the others.
func (a *words) andNot(w, x, y, z *words) bool {
	all := uint64(0)
	for j := 0; j < len(a); j += 4 {
		r, s, t, u := w[j]&^x[j], w[j+1]&^x[j+1], w[j+2]&^x[j+2], w[j+3]&^x[j+3]
		if r|s|t|u != 0 {
			r, s, t, u = r&^y[j]&^z[j], s&^y[j+1]&^z[j+1], t&^y[j+2]&^z[j+2], u&^y[j+3]&^z[j+3]
			all |= r | s | t | u
		}
		a[j], a[j+1], a[j+2], a[j+3] = r, s, t, u
	}
	return all != 0
}

// or makes the words the bits that any of the blocks has.
func (a *words) or(w, x, y, z *words) bool {
	all := uint64(0)
	for j := 0; j < len(a); j += 4 {
		r, s, t, u := w[j]|x[j], w[j+1]|x[j+1], w[j+2]|x[j+2], w[j+3]|x[j+3]
		r, s, t, u = r|y[j]|z[j], s|y[j+1]|z[j+1], t|y[j+2]|z[j+2], u|y[j+3]|z[j+3]
		all |= r | s | t | u
		a[j], a[j+1], a[j+2], a[j+3] = r, s, t, u
	}
	return all != 0
}

// xor makes the words the bits that one or three of the blocks have.
func (a *words) xor(w, x, y, z *words) bool {
	all := uint64(0)
	for j := 0; j < len(a); j += 4 {
		r, s, t, u := w[j]^x[j], w[j+1]^x[j+1], w[j+2]^x[j+2], w[j+3]^x[j+3]
		r, s, t, u = r^y[j]^z[j], s^y[j+1]^z[j+1], t^y[j+2]^z[j+2], u^y[j+3]^z[j+3]
		all |= r | s | t | u
		a[j], a[j+1], a[j+2], a[j+3] = r, s, t, u
	}
	return all != 0
}

// orTwice sets the bits that w has, and sets in twice those that both have.
func (a *words) orTwice(w, twice *words) {
	for j := range a {
		x := w[j]
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
