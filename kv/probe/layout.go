package probe

import (
	"errors"
	"fmt"
	"math/bits"
)

// Bounds of a layout. With MaxLines a block has 65,536 bits, so that a position in it fits 16 bits. With MaxBits a
// layer has 2^37 lines, which leaves 27 bits of a hash for the first three probes.
const (
	MaxCapacity     = 1 << 40 // items a layer can be sized for
	MaxBits         = 1 << 46 // of a layer: 8 TiB
	MaxLines        = 128     // of a block
	MaxHashes       = 64      // probes of an item
	MaxLinesPerItem = 3       // that those probes are spread over

	lineBits  = 512
	lineWords = lineBits / 64
)

// ErrParams is wrapped by every error of this package; the text names the parameter, its value and the range
// allowed.
var ErrParams = errors.New("probe: parameter out of range")

// Layout says where in a layer an item's bits are. Size, FromBits and NewLayout make layouts; one made otherwise is
// not valid. Two layouts are equal (==) if and only if they place every item alike. The fields are to be read only.
type Layout struct {
	Blocks       uint64 // in the layer, 1 to MaxBits/512
	Lines        uint32 // in each block, 1 to MaxLines
	Hashes       uint8  // k, probes of an item, 1 to MaxHashes
	LinesPerItem uint8  // g, 1 to MaxLinesPerItem, at most Lines and Hashes

	// What follows from the above.

	head     uint8 // probes taken from the hash itself, 1 to headProbes
	tail     uint8 // probes of the one and only step if Test has a short cut for it, else 0
	numSteps uint8
	steps    [maxSteps]step
}

// step is a group of probes taken from one derived word.
type step struct {
	probes uint8 // 1 to probesPerWord
	line   uint8 // which of the item's lines they are in, 0 to LinesPerItem-1, ascending
}

// NewLayout returns the layout that the numbers describe, which may be anything, as those read from a damaged header
// are.
func NewLayout(blocks, lines, hashes, linesPerItem uint64) (Layout, error) {
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
	return makeLayout(blocks, lines, hashes, linesPerItem), nil
}

// makeLayout deals the probes out: each line an equal share, the first ones taking the remainder; in the first line
// up to headProbes from the hash, everything else in steps.
func makeLayout(blocks, lines, hashes, linesPerItem uint64) Layout {
	l := Layout{Blocks: blocks, Lines: uint32(lines), Hashes: uint8(hashes), LinesPerItem: uint8(linesPerItem)}
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

// FromBits returns a layout of at least numBits bits, 1 to MaxBits, rounded up to whole lines in equal blocks, with
// the given number of hashes, 1 to MaxHashes. The lines per item are those that Size uses with as many hashes: one
// up to 7, two up to 18, then three.
func FromBits(numBits uint64, hashes int) (Layout, error) {
	if numBits < 1 || numBits > MaxBits {
		return Layout{}, fmt.Errorf("%w: bits is %d, want 1 to %d", ErrParams, numBits, uint64(MaxBits))
	}
	if hashes < 1 || hashes > MaxHashes {
		return Layout{}, fmt.Errorf("%w: hashes is %d, want 1 to %d", ErrParams, hashes, MaxHashes)
	}
	p := plan{hashes: hashes, linesPerItem: 3}
	switch {
	case hashes <= 7:
		p.linesPerItem = 1
	case hashes <= 18:
		p.linesPerItem = 2
	}
	return p.spread((numBits + lineBits - 1) / lineBits), nil
}

// Bits returns the size of the layer, 512 to MaxBits.
func (l *Layout) Bits() uint64 { return l.Blocks * uint64(l.Lines) * lineBits }

// BlockWords returns the size of each block in 64-bit words, 8 to 1024.
func (l *Layout) BlockWords() int { return int(l.Lines) * lineWords }

// Block returns the number of the block that the item with hash h belongs to, below l.Blocks, and what is left of
// the hash for Test and Touch to choose the first line by.
func (l *Layout) Block(h uint64) (block, rest uint64) { return bits.Mul64(h, l.Blocks) }
