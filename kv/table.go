package kv

import (
	"sync/atomic"
	"unsafe"

	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/format"
	"github.com/sievekv/sievekv/kv/lastchange"
	"github.com/sievekv/sievekv/kv/residency"
)

// Line is 512 bits, the unit a block is made of.
type Line = block.Line

// slot holds the resident block of one block number: a pointer to its first line, or nil. The block is one allocation
// of as many lines as the layer has.
//
// Three kinds of goroutines change the pointer, each by compare-and-swap. A loader sets it from nil, under the
// stripe's mutex (see load). A commit replaces the shared zero block by a new one. An eviction sets it to nil, if it is still
// the evicted block.
type slot = atomic.Pointer[Line]

const (
	chunkBits  = 6
	chunkSlots = 1 << chunkBits
)

// chunk is the second level of a block table, made on first use: 512 bytes for half a megabyte of blocks.
type chunk [chunkSlots]slot

// LayerSpec is the stored description of one layer.
type LayerSpec = format.LayerSpec

// LayoutNative is the layout of layers in which the hash of an item picks one block, and everything else about the
// item lies in that block. A layer in LayoutCompatible is an array as RedisBloom has it.
const (
	LayoutNative     = format.LayoutNative
	LayoutCompatible = format.LayoutCompatible
	LayoutLog        = format.LayoutLog
)

// Layer is the block table of one layer of an open object. Blocks are loaded and evicted; a lookup finds a block
// without a lock by Resident.
type Layer struct {
	object uint64
	spec   LayerSpec

	// A layer of one block, which is only as long as its lines, keeps it in one; the block stays in memory as long as
	// the object. Larger layers have chunks. A log has neither: none of its blocks is kept.
	one slot
	dir []atomic.Pointer[chunk]

	// closed is set when the object is closed to save memory, and while a transaction builds it: then no block is put
	// into one. For an object that was open it changes under the shard's lock.
	closed atomic.Bool

	// counters are changed by commits, under the key's write lock or with the gate held alone, and read without a lock.
	counters [format.NumCounters]atomic.Uint64

	versions []atomic.Uint32    // of blocks of slots, see Version; their number is a power of two
	changed  lastchange.Numbers // which commit changed a block last; a commit raises it before it is applied to the block
}

func newLayer(h *format.Header, spec LayerSpec) *Layer {
	blocks := spec.Blocks
	if spec.Layout == LayoutLog { // one number for all blocks: most are never written, and none is kept in memory
		blocks = 1
	}
	l := &Layer{object: h.ID, spec: spec, changed: lastchange.New(blocks)}
	if h.Family != block.FamilyBits {
		l.versions = make([]atomic.Uint32, lastchange.Places(spec.Blocks, maxVersions))
	}
	return l
}

// makeTable makes the table of chunks, once the type has accepted the layer: what is stored may claim any number of blocks.
func (l *Layer) makeTable() {
	if l.dir == nil && l.spec.Blocks > 1 && l.spec.Layout != LayoutLog {
		l.dir = make([]atomic.Pointer[chunk], (l.spec.Blocks+chunkSlots-1)>>chunkBits)
	}
}

// keepsOne reports whether the layer keeps its only block in one.
func (l *Layer) keepsOne() bool { return l.spec.Blocks == 1 && l.spec.Layout != LayoutLog }

// Spec returns the stored description of the layer. Its Params must not be changed.
func (l *Layer) Spec() LayerSpec { return l.spec }

// Counter returns counter i of the layer, as of the last commit that was applied or is pending.
func (l *Layer) Counter(i int) uint64 { return l.counters[i].Load() }

// setCounters is called by commits, and when the layer is opened.
func (l *Layer) setCounters(values [format.NumCounters]uint64) {
	for i, v := range values {
		l.counters[i].Store(v)
	}
}

// Resident returns the first line of a block if the block is in memory, else nil. The caller may read the block's
// lines with atomic loads at any time, even after the block was evicted. Blk must be below the layer's number of
// blocks.
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

// Words returns the whole block, given its first line as Resident and Load return it. The caller may only read it,
// with atomic loads.
func (l *Layer) Words(first *Line) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(first)), int(l.spec.Lines)*block.LineWords) // &first[0] would read memory
}

// newBlock returns a block of zeros.
func (l *Layer) newBlock() (*Line, []uint64) {
	w := make([]uint64, int(l.spec.Lines)*block.LineWords)
	return (*Line)(w), w
}

// blockBytes returns the bytes of memory that a resident block takes.
func (l *Layer) blockBytes() int64 { return int64(l.spec.Lines) * block.LineBits / 8 }

// zeroLine is the first line of a block of zeros that all tables share for blocks that were never written. It is
// never changed: a commit that sets a bit in it replaces it by a new block.
var zeroLine = (*Line)(make([]uint64, block.MaxWords))

// slotOf returns the slot of a block, nil while its chunk does not exist.
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
func (l *Layer) release(r *residency.Residency) {
	l.one.Store(nil)
	for i := range l.dir {
		c := l.dir[i].Load()
		if c == nil {
			continue
		}
		blk := uint64(i) << chunkBits
		for j := range c {
			if first := c[j].Load(); first != nil && first != zeroLine {
				r.Remove(blockKey(l, blk+uint64(j)), residentBlock{&c[j], first})
			}
		}
		r.Remove(chunkKey(l, blk), residentChunk{&l.dir[i], c})
	}
}
