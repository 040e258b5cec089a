package kv

import (
	"sync/atomic"
	"unsafe"

	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/format"
)

// Line is 512 bits, the unit a block is made of.
type Line = block.Line

// slot holds the resident block of one block number, as a pointer to its first
// line, or nil. Behind the pointer lies one allocation of the layer's lines.
//
// Writers of the pointer: a loader sets it from nil, under the stripe's mutex (see load); a commit replaces the
// shared zero block by one of its own, inside its stripe's started/finished window; an eviction sets it to nil, if it
// is still the block evicted. Every one is a compare-and-swap.
type slot = atomic.Pointer[Line]

const (
	chunkBits  = 6
	chunkSlots = 1 << chunkBits
)

// chunk is the second level of a block table, made on first use: 512 bytes for half a megabyte of blocks.
type chunk [chunkSlots]slot

// LayerSpec is the stored description of one layer.
type LayerSpec = format.LayerSpec

// LayoutNative is the layout of layers in which the item's hash picks one block, and all else lies inside it.
const LayoutNative = format.LayoutNative

// Layer is the block table of one layer of an open object. Its blocks come and
// go; Resident is how a lookup finds one without a lock.
type Layer struct {
	object uint64
	spec   LayerSpec

	// A layer of one block, cut short to its lines, keeps it in one, and the
	// block stays as long as the object does; larger ones have chunks.
	one slot
	dir []atomic.Pointer[chunk]

	// closed is set when the object was closed to save memory, and while a transaction builds it: no
	// block is put into one then. Of one that was open it is written with the lock of the shard held.
	closed atomic.Bool

	// counters are written by commits under the key's write lock and read by anyone.
	counters [format.NumCounters]atomic.Uint64

	versions []atomic.Uint32 // of blocks of slots, see Version; a power of two of them
}

func newLayer(h *format.Header, spec LayerSpec) *Layer {
	l := &Layer{object: h.ID, spec: spec}
	if h.Family != block.FamilyBits {
		l.versions = newVersions(spec.Blocks)
	}
	if spec.Blocks > 1 {
		l.dir = make([]atomic.Pointer[chunk], (spec.Blocks+chunkSlots-1)>>chunkBits)
	}
	return l
}

// Spec returns the stored description of the layer. Its Params must not be changed.
func (l *Layer) Spec() LayerSpec { return l.spec }

// Counter returns counter i of the layer, as of the last commit applied, or pending.
func (l *Layer) Counter(i int) uint64 { return l.counters[i].Load() }

// setCounters is for commits, and for who opens the layer.
func (l *Layer) setCounters(values [format.NumCounters]uint64) {
	for i, v := range values {
		l.counters[i].Store(v)
	}
}

// Resident returns the first line of a block if the block is in memory, else nil. The lines behind it, as many as the
// layer's, may be read with atomic loads at any time, also after the block was evicted; blk must be below the layer's
// number of blocks.
func (l *Layer) Resident(blk uint64) *Line {
	if l.dir == nil {
		return l.one.Load()
	}
	c := l.dir[blk>>chunkBits].Load()
	if c == nil {
		return nil
	}
	return c[blk&(chunkSlots-1)].Load()
}

// Words returns the whole block behind its first line, as Resident and Load return
// it. It may be read with atomic loads only, and not be changed.
func (l *Layer) Words(first *Line) []uint64 {
	return unsafe.Slice(&first[0], int(l.spec.Lines)*block.LineWords)
}

// newBlock returns a block of zeros.
func (l *Layer) newBlock() (*Line, []uint64) {
	w := make([]uint64, int(l.spec.Lines)*block.LineWords)
	return (*Line)(w), w
}

// blockBytes is what one resident block costs.
func (l *Layer) blockBytes() int64 { return int64(l.spec.Lines) * block.LineBits / 8 }

// zeroLine is the first line of the block of zeros that stands in every table for blocks never written. It is never
// changed: a commit that sets a bit in it puts a block of its own in its place.
var zeroLine = (*Line)(make([]uint64, block.MaxWords))

// slotOf returns the slot of a block, or nil while its chunk does not exist.
func (l *Layer) slotOf(blk uint64) *slot {
	if l.dir == nil {
		return &l.one
	}
	c := l.dir[blk>>chunkBits].Load()
	if c == nil {
		return nil
	}
	return &c[blk&(chunkSlots-1)]
}

// residentBlocks returns how many blocks take memory now.
func (l *Layer) residentBlocks() (n uint64) {
	count := func(s *slot) {
		if first := s.Load(); first != nil && first != zeroLine {
			n++
		}
	}
	count(&l.one)
	for i := range l.dir {
		if c := l.dir[i].Load(); c != nil {
			for j := range c {
				count(&c[j])
			}
		}
	}
	return n
}

// release takes every block and chunk of the table out of memory.
func (l *Layer) release(r *residency) {
	l.one.Store(nil)
	for i := range l.dir {
		c := l.dir[i].Load()
		if c == nil {
			continue
		}
		blk := uint64(i) << chunkBits
		for j := range c {
			if first := c[j].Load(); first != nil && first != zeroLine {
				r.remove(blockKey(l, blk+uint64(j)), residentBlock{&c[j], first})
			}
		}
		r.remove(chunkKey(l, blk), residentChunk{&l.dir[i], c})
	}
}
