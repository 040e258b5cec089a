package probe

import (
	"errors"
	"fmt"
	"math/bits"
)

// Bounds of a layout. With MaxLines a block has 65,536 bits, so that a position in it fits into 16 bits. With MaxBits
// a layer has 2^37 lines. That leaves 27 bits of a hash for the first three probes.
const (
	MaxCapacity     = 1 << 40 // items a layer can be sized for
	MaxBits         = 1 << 46 // of a layer: 8 TiB
	MaxLines        = 128     // of a block
	MaxHashes       = 64      // probes of an item
	MaxLinesPerItem = 3       // that those probes are spread over

	lineBits  = 512
	lineWords = lineBits / 64

	// CounterBits is the width of a counter. A line has 128 of them.
	CounterBits = 4

	bitCell     cell = 1
	counterCell cell = CounterBits
)

// cell is the width in bits of a cell.
type cell uint8

// perLine returns the number of cells of a line.
func (c cell) perLine() int { return lineBits / int(c) }

// ErrParams is wrapped by every error of this package. The text names the parameter, its value and the range allowed.
// Package sievekv exports it as ErrConfig, so it begins with that name.
var ErrParams = errors.New("sievekv: parameter out of range")

// Layout says where in a layer an item's bits or counters are. Size, FromBits and NewLayout make layouts of bits, and
// SizeCounters, FromCounters and NewCounterLayout layouts of counters; a layout made otherwise is not valid. Two
// layouts are equal (==) if and only if they place every item alike. The fields must not be changed.
type Layout struct {
	Blocks       uint64 // in the layer, 1 to MaxBits/512
	Lines        uint32 // in each block, 1 to MaxLines
	Hashes       uint8  // k, probes of an item, 1 to MaxHashes
	LinesPerItem uint8  // g, 1 to MaxLinesPerItem, at most Lines and Hashes

	cell cell

	// The rest follows from the fields above.

	head     uint8 // probes taken from the hash itself, 1 to headProbes
	tail     uint8 // if there is one step and Test has a short cut for it, its probes; else 0
	numSteps uint8
	steps    [maxSteps]step
}

// step is a group of probes taken from one derived word.
type step struct {
	probes uint8 // 1 to probesPerWord
	line   uint8 // which of the item's lines they are in, 0 to LinesPerItem-1; it ascends from step to step
}

// NewLayout returns the layout that the numbers describe. They may be anything, as from a damaged header.
func NewLayout(blocks, lines, hashes, linesPerItem uint64) (Layout, error) {
	return newLayout(bitCell, blocks, lines, hashes, linesPerItem)
}

// NewCounterLayout is NewLayout for a layer of counters.
func NewCounterLayout(blocks, lines, hashes, linesPerItem uint64) (Layout, error) {
	return newLayout(counterCell, blocks, lines, hashes, linesPerItem)
}

func newLayout(c cell, blocks, lines, hashes, linesPerItem uint64) (Layout, error) {
	if lines < 1 || lines > MaxLines {
		return Layout{}, fmt.Errorf("%w: lines per block is %d, want 1 to %d", ErrParams, lines, MaxLines)
	}
	if limit := MaxBits / (lines * lineBits); blocks < 1 || blocks > limit {
		return Layout{}, fmt.Errorf("%w: blocks is %d, want 1 to %d (of %d lines)", ErrParams, blocks, limit, lines)
	}
	if hashes < 1 || hashes > MaxHashes {
		return Layout{}, fmt.Errorf("%w: hashes is %d, want 1 to %d", ErrParams, hashes, MaxHashes)
	}
	if limit := min(MaxLinesPerItem, lines, hashes); linesPerItem < 1 || linesPerItem > limit {
		return Layout{}, fmt.Errorf("%w: lines per item is %d, want 1 to %d", ErrParams, linesPerItem, limit)
	}
	return makeLayout(c, blocks, lines, hashes, linesPerItem), nil
}

// makeLayout deals out the probes. Each line gets an equal share, and the first lines one more if there is a
// remainder. In the first line up to headProbes come from the hash itself. All other probes come in steps.
func makeLayout(c cell, blocks, lines, hashes, linesPerItem uint64) Layout {
	l := Layout{Blocks: blocks, Lines: uint32(lines), Hashes: uint8(hashes), LinesPerItem: uint8(linesPerItem), cell: c}
	for j := range linesPerItem {
		n := hashes / linesPerItem
		if j < hashes%linesPerItem {
			n++
		}
		if j == 0 {
			l.head = uint8(min(n, headProbes))
			n -= uint64(l.head)
		}
		for ; n > 0; l.numSteps++ {
			s := step{probes: uint8(min(n, probesPerWord)), line: uint8(j)}
			l.steps[l.numSteps] = s
			n -= uint64(s.probes)
		}
	}
	if linesPerItem == 1 && (hashes == 6 || hashes == 7) {
		l.tail = l.steps[0].probes
	}
	return l
}

// FromBits returns a layout of at least numBits bits, 1 to MaxBits, rounded up to whole lines in equal blocks, with the
// given number of hashes, 1 to MaxHashes. It has the lines per item that Size uses with this number of hashes: one up
// to 7, two up to 18, then three.
func FromBits(numBits uint64, hashes int) (Layout, error) {
	if numBits < 1 || numBits > MaxBits {
		return Layout{}, fmt.Errorf("%w: bits is %d, want 1 to %d", ErrParams, numBits, uint64(MaxBits))
	}
	if hashes < 1 || hashes > MaxHashes {
		return Layout{}, fmt.Errorf("%w: hashes is %d, want 1 to %d", ErrParams, hashes, MaxHashes)
	}
	p := plan{hashes: hashes, linesPerItem: 3, cell: bitCell}
	switch {
	case hashes <= 7:
		p.linesPerItem = 1
	case hashes <= 18:
		p.linesPerItem = 2
	}
	return p.spread((numBits + lineBits - 1) / lineBits), nil
}

// FromCounters returns a layout of at least numCounters counters, 1 to MaxBits/4, rounded up to whole lines in equal
// blocks, with the given number of hashes, 1 to MaxHashes. It has the lines per item that SizeCounters uses with this
// number of hashes: two up to 7, then three.
func FromCounters(numCounters uint64, hashes int) (Layout, error) {
	if numCounters < 1 || numCounters > MaxBits/CounterBits {
		return Layout{}, fmt.Errorf("%w: counters is %d, want 1 to %d", ErrParams, numCounters, uint64(MaxBits/CounterBits))
	}
	if hashes < 1 || hashes > MaxHashes {
		return Layout{}, fmt.Errorf("%w: hashes is %d, want 1 to %d", ErrParams, hashes, MaxHashes)
	}
	p := plan{hashes: hashes, linesPerItem: min(counterLines(hashes <= 7), hashes), cell: counterCell}
	perLine := uint64(counterCell.perLine())
	return p.spread((numCounters + perLine - 1) / perLine), nil
}

// Cells returns the number of bits of the layer, or of counters in a layer of counters.
func (l *Layout) Cells() uint64 { return l.Blocks * uint64(l.Lines) * uint64(l.cell.perLine()) }

// Bits returns the size of the layer in bits, 512 to MaxBits.
func (l *Layout) Bits() uint64 { return l.Blocks * uint64(l.Lines) * lineBits }

// BlockWords returns the size of each block in 64-bit words, 8 to 1024.
func (l *Layout) BlockWords() int { return int(l.Lines) * lineWords }

// Block returns the number of the block, below l.Blocks, that the item with hash h belongs to. Rest is the rest of the
// hash; Test and Touch choose the first line by it.
func (l *Layout) Block(h uint64) (block, rest uint64) { return bits.Mul64(h, l.Blocks) }
