package bitmapext

import (
	"iter"
	"math/bits"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/kv"
)

// BITOP AND remembers in which lines of a block bits are set. Of bitmaps with few set bits, most lines in which one has
// bits are empty in another. So the result of most blocks is known without looking at them, which would take as long as
// it takes to read them from memory.

// lineSet is a set of lines of a block.
type lineSet [block.MaxLines / 64]uint64

var everyLine = lineSet{^uint64(0), ^uint64(0)}

func (s lineSet) and(other lineSet) lineSet { return lineSet{s[0] & other[0], s[1] & other[1]} }

func (s lineSet) empty() bool { return s[0]|s[1] == 0 }

func (s lineSet) len() int { return bits.OnesCount64(s[0]) + bits.OnesCount64(s[1]) }

// all are the numbers of the lines, ascending.
func (s lineSet) all() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s {
			for ; w != 0; w &= w - 1 {
				if !yield(64*i + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// line returns a line of a block.
func (a *words) line(i int) *block.Line { return (*block.Line)(a[i*block.LineWords:]) }

// lines returns a set of all lines in which bits are set, and perhaps others: of a block whose first lines all have some
// it does not look at the rest.
func (a *words) lines() (set lineSet) {
	const first = 8
	for i := range block.MaxLines {
		l := a.line(i)
		if l[0]|l[1]|l[2]|l[3]|l[4]|l[5]|l[6]|l[7] != 0 {
			set[i/64] |= 1 << (i % 64)
		}
		if i == first && set.len() > first {
			return everyLine
		}
	}
	return set
}

// lineTable has the lines of blocks of one string with set bits. It is the body of the string's object, and used by the
// writer that holds the lock of the key. It takes 24 bytes for a block of 8 KiB.
type lineTable struct {
	chunks []*[64]knownLines
}

// knownLines are the lines of a block since its last change.
type knownLines struct {
	lines lineSet
	since uint64 // the number of the commit that may have changed the block last, plus 1; 0 if the lines are not known
}

// of returns what is known of block blk of the string.
func (t *lineTable) of(blk uint64) *knownLines {
	i := int(blk / 64)
	for i >= len(t.chunks) {
		t.chunks = append(t.chunks, nil)
	}
	if t.chunks[i] == nil {
		t.chunks[i] = new([64]knownLines)
	}
	return &t.chunks[i][blk%64]
}

// lines returns block blk of the string, and the lines in which it has set bits, and perhaps others. The block is nil if
// wordsOf has to tell. If the lines are not known, lines looks for them if scan is set, and then reports that it did.
func (s *String) lines(blk uint64, scan bool) (w *words, lines lineSet, scanned bool, err error) {
	writer, writes := s.from.(*kv.Writer)
	if s.object == nil || !writes {
		return nil, everyLine, false, nil
	}
	layer, n := place(blk)
	if blk >= blocksOf(s.Len()) || layer >= len(s.object.Layers()) {
		return nil, lineSet{}, false, nil
	}
	l := s.object.Layers()[layer]
	if layer == 2 && !marked(func(i int) uint64 { return writer.Counter(l, i) }, n) {
		return nil, lineSet{}, false, nil
	}
	first, err := writer.Load(s.object, l, n)
	if err != nil {
		return nil, lineSet{}, false, err
	}
	w = (*words)(l.Words(first))
	if first != l.InMemory(n) {
		return w, everyLine, false, nil // the writer has changed the block, or it is not kept in memory
	}
	known := s.object.Body().(*lineTable).of(blk)
	since := s.object.Memory().LastChange(l, n) + 1 // no commit changes the block now
	if known.since == since {
		return w, known.lines, false, nil
	}
	if !scan {
		return w, everyLine, false, nil
	}
	known.lines, known.since = w.lines(), since
	return w, known.lines, true, nil
}
