package probe

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Draft is a private copy of a block to which items are added, so that each addition knows which bits are new. It has
// the lines that the items need.
type Draft struct {
	first  *Line // of the block
	words  [MaxLines * lineWords]uint64
	copied [MaxLines / 64]uint64 // the lines that words has

	touched uint64 // what Prepare has loaded: without a use the compiler would not load it
}

var drafts = sync.Pool{New: func() any { return new(Draft) }}

// NewDraft returns a draft of the block that begins with first. Other goroutines must not change the block until the
// last use of the draft.
func NewDraft(first *Line) *Draft {
	d := drafts.Get().(*Draft)
	d.first, d.copied = first, [MaxLines / 64]uint64{}
	return d
}

// Release gives the draft's memory back. The draft must not be used after that.
func (d *Draft) Release() {
	d.first = nil
	drafts.Put(d)
}

// Prepare copies the lines of items, which can then be added. If that is most of the block, it copies all lines: memory
// is read several times as fast in order. Else it first loads a word of the first line of each item, so that it does
// not wait for the memory of one item after the other.
func (l *Layout) Prepare(d *Draft, hashes []uint64) {
	if l.needMany(len(hashes)) {
		d.copyAll(uint64(l.Lines))
		return
	}
	for _, h := range hashes {
		_, rest := l.Block(h)
		d.touched += l.Touch(d.first, rest)
	}
	for _, h := range hashes {
		_, rest := l.Block(h)
		i, _ := bits.Mul64(rest, uint64(l.Lines))
		d.copy(i)
		var chosen uint8
		var distance uint64
		for n, s := range l.steps[:l.numSteps] {
			if s.line != chosen {
				chosen = s.line
				distance, _ = l.otherLine(chosen, distance, word(h, n))
				d.copy(l.wrap(i + distance))
			}
		}
	}
}

// copyAll copies the lines that words does not have, up to a number. Nobody changes the block meanwhile, so it need not
// be read by atomic loads, which take twice as long.
func (d *Draft) copyAll(lines uint64) {
	if d.copied == [MaxLines / 64]uint64{} {
		copy(d.words[:lines*lineWords], unsafe.Slice(&d.first[0], lines*lineWords))
		for i := range lines {
			d.copied[i>>6] |= 1 << (i & 63)
		}
		return
	}
	for i := range lines {
		d.copy(i)
	}
}

// copy copies a line, unless words has it.
func (d *Draft) copy(i uint64) {
	if d.copied[i>>6]>>(i&63)&1 != 0 {
		return
	}
	d.copied[i>>6] |= 1 << (i & 63)
	to := (*Line)(d.words[i*lineWords:])
	for j, from := 0, lineAt(d.first, i); j < lineWords; j++ {
		to[j] = atomic.LoadUint64(&from[j])
	}
}

// SetBits sets bits, given as positions.
func (d *Draft) SetBits(positions []uint16) {
	for _, p := range positions {
		d.copy(uint64(p) / lineBits)
		d.words[p>>6] |= 1 << (p & 63)
	}
}

// AppendNew appends the positions of the bits that are set in the draft, but not in the block, ascending.
func (d *Draft) AppendNew(dst []uint16) []uint16 {
	for k, lines := range d.copied {
		for ; lines != 0; lines &= lines - 1 {
			i := uint64(k<<6 + bits.TrailingZeros64(lines))
			from := lineAt(d.first, i)
			for j, word := range (*Line)(d.words[i*lineWords:]) {
				for added := word &^ atomic.LoadUint64(&from[j]); added != 0; added &= added - 1 {
					dst = append(dst, uint16(i*lineBits)+uint16(j<<6+bits.TrailingZeros64(added)))
				}
			}
		}
	}
	return dst
}

// Add sets the bits of the item with hash h in a draft of its block, and returns how many of them were not set. The
// item's lines must have been prepared.
func (l *Layout) Add(d *Draft, h uint64) (added int) { return l.Set(d.words[:], h) }

// Set sets the bits of the item with hash h in its block, and returns how many of them were not set. No other goroutine
// may use the block.
func (l *Layout) Set(words []uint64, h uint64) (added int) {
	_, rest := l.Block(h)
	i, _ := bits.Mul64(rest, uint64(l.Lines))
	line := (*Line)(words[i*lineWords:])
	added = setProbes(line, h, l.head)
	var chosen uint8
	var distance uint64
	for n := range int(l.numSteps) {
		s := l.steps[n&(maxSteps-1)]
		w := word(h, n)
		if s.line != chosen {
			chosen = s.line
			distance, w = l.otherLine(chosen, distance, w)
			line = (*Line)(words[l.wrap(i+distance)*lineWords:])
		}
		added += setProbes(line, w, s.probes)
	}
	return added
}

// setProbes sets the bits that the lowest probes of w point to, and returns how many of them were not set.
func setProbes(line *Line, w uint64, probes uint8) (added int) {
	for range probes {
		word := &line[w>>6&(lineWords-1)]
		added += int(^*word >> (w & 63) & 1)
		*word |= 1 << (w & 63)
		w >>= probeBits
	}
	return added
}
