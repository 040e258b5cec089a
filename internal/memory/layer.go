package memory

import (
	"sync/atomic"
	"unsafe"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/residency"
)

// Line is 512 bits, the unit a block is made of.
type Line = block.Line

// Slot has the block of one block number that is in memory: a pointer to its first line, or nil. The block is one
// allocation of all lines of a block of the layer.
//
// Three kinds of goroutines change the pointer, each by compare-and-swap. A loader sets it from nil, under a mutex that
// commits take before they conclude that a block is not in memory. A commit replaces the shared block of zeros by a new one. An
// eviction sets it to nil, if it is still the evicted block.
type Slot = atomic.Pointer[Line]

const (
	chunkBits  = 6
	chunkSlots = 1 << chunkBits
)

// chunk is the second level of a block table, made on first use: 512 bytes for half a megabyte of blocks.
type chunk [chunkSlots]Slot

// Layer is the block table of one layer of an open object. Blocks are loaded and evicted; a lookup finds a block
// without a lock.
type Layer struct {
	object uint64
	spec   format.LayerSpec

	// A layer of one block, which is only as long as its lines, keeps it in one; the block stays in memory as long as
	// the object. Larger layers have chunks. A log has neither: its blocks are not kept.
	one Slot
	dir []atomic.Pointer[chunk]

	// closed is set when the object is closed to save memory, and while it is built: then no block stays in one. For
	// an object that was open it changes under the shard's lock.
	closed atomic.Bool

	// counters are changed by commits, under the key's write lock or with the gate held alone, and read without a lock.
	counters [format.NumCounters]atomic.Uint64
}

// NewLayer returns a layer of the object with an id. It has no table yet: see MakeTable.
func NewLayer(object uint64, spec format.LayerSpec) *Layer { return &Layer{object: object, spec: spec} }

// MakeTable makes the table of chunks, once the type has accepted the layer: stored bytes may claim any number of
// blocks.
func (l *Layer) MakeTable() {
	if l.dir == nil && l.spec.Blocks > 1 && !l.isLog() {
		l.dir = make([]atomic.Pointer[chunk], (l.spec.Blocks+chunkSlots-1)>>chunkBits)
	}
}

func (l *Layer) isLog() bool { return l.spec.Layout == format.LayoutLog }

// KeepsOne reports whether the layer keeps its only block as long as the object.
func (l *Layer) KeepsOne() bool { return l.spec.Blocks == 1 && !l.isLog() }

// KeepOne makes that block the one with the given first line.
func (l *Layer) KeepOne(first *Line) { l.one.Store(first) }

// Object returns the id of the layer's object.
func (l *Layer) Object() uint64 { return l.object }

// Number returns the layer's number, which no other layer of the object has.
func (l *Layer) Number() uint64 { return l.spec.Number }

// Spec returns the stored description of the layer. Its Params must not be changed.
func (l *Layer) Spec() format.LayerSpec { return l.spec }

// Counter returns counter i of the layer, as of the last commit that was applied or is pending.
func (l *Layer) Counter(i int) uint64 { return l.counters[i].Load() }

// SetCounters sets all counters. The caller holds the key lock of the object's key or the gate alone, or is opening the layer.
func (l *Layer) SetCounters(values [format.NumCounters]uint64) {
	for i, v := range values {
		if l.counters[i].Load() != v { // storing takes several times as long
			l.counters[i].Store(v)
		}
	}
}

// InMemory returns the first line of a block if it is in memory, else nil, for a caller that loads memory ahead or has locked
// the key. Lookups use a Section. Blk must be below the layer's number of blocks.
func (l *Layer) InMemory(blk uint64) *Line {
	if l.dir == nil {
		return l.one.Load()
	}
	c := l.dir[blk>>chunkBits].Load()
	if c == nil {
		return nil
	}
	return c[blk&(chunkSlots-1)].Load()
}

// Words returns the whole block, given its first line. The caller may only read it, with atomic loads.
func (l *Layer) Words(first *Line) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(first)), int(l.spec.Lines)*block.LineWords) // &first[0] would read memory
}

// NewBlock returns a block of zeros.
func (l *Layer) NewBlock() (*Line, []uint64) {
	w := make([]uint64, int(l.spec.Lines)*block.LineWords)
	return (*Line)(w), w
}

// BlockBytes returns the bytes that a block takes.
func (l *Layer) BlockBytes() int64 { return int64(l.spec.Lines) * block.LineBits / 8 }

// Bytes returns the memory of the layer without its full-size blocks, but with one that it keeps.
func (l *Layer) Bytes() int64 {
	const perLayer = int64(unsafe.Sizeof(Layer{})) + 160
	n := perLayer + int64(len(l.dir))*8 + int64(len(l.spec.Params))
	if l.KeepsOne() {
		n += l.BlockBytes()
	}
	return n
}

// ZeroLine is the first line of a block of zeros that all tables share for blocks that were never written. It is
// never changed: a commit that sets a bit in it replaces it by a new block.
var ZeroLine = (*Line)(make([]uint64, block.MaxWords))

// Slot returns the slot of a block, nil if it has none yet.
func (l *Layer) Slot(blk uint64) *Slot {
	if l.dir == nil {
		return &l.one
	}
	c := l.dir[blk>>chunkBits].Load()
	if c == nil {
		return nil
	}
	return &c[blk&(chunkSlots-1)]
}

// Install puts a block that was read into its slot, under the rule of the residency, and reports whether it did. The caller
// knows that the block has every commit, see package kv.
func (l *Layer) Install(r *residency.Residency, blk uint64, first *Line) bool {
	if l.isLog() {
		return false
	}
	if l.dir == nil {
		// The block of a one-block layer was counted with its object, if the object is open.
		installed := l.one.CompareAndSwap(nil, first)
		if l.closed.Load() {
			l.one.CompareAndSwap(first, nil)
		}
		return installed
	}
	d := &l.dir[blk>>chunkBits]
	c := d.Load()
	if c == nil {
		c = new(chunk)
		if d.CompareAndSwap(nil, c) {
			r.Put(l.chunkKey(blk), chunkInMemory{d, c}, chunkSlots*8)
		} else if c = d.Load(); c == nil {
			return false
		}
	}
	s := &c[blk&(chunkSlots-1)]
	if !s.CompareAndSwap(nil, first) {
		return false
	}
	if first != ZeroLine {
		r.Put(l.Key(blk), blockInMemory{s, first}, l.BlockBytes())
	}
	return true
}

// ReplaceZero replaces the shared block of zeros by another, or takes it out of memory if that is nil.
func (l *Layer) ReplaceZero(r *residency.Residency, blk uint64, s *Slot, first *Line) {
	if s.CompareAndSwap(ZeroLine, first) && first != nil && l.dir != nil {
		r.Put(l.Key(blk), blockInMemory{s, first}, l.BlockBytes())
	}
}

// Touch counts a lookup of a block in memory. Blocks with many touches stay there.
func (l *Layer) Touch(r *residency.Residency, blk uint64) {
	if l.dir != nil {
		r.Touch(l.Key(blk))
		r.Touch(l.chunkKey(blk))
	}
}

// Blocks returns how many blocks take memory now.
func (l *Layer) Blocks() (n uint64) {
	count := func(s *Slot) {
		if first := s.Load(); first != nil && first != ZeroLine {
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

// Close takes the block of a layer that keeps one out of memory, and keeps it out. It reports whether the layer may have
// others, which Release takes out.
func (l *Layer) Close() (others bool) {
	l.closed.Store(true)
	l.one.Store(nil)
	return l.dir != nil
}

// Release takes every block and chunk of the table out of memory.
func (l *Layer) Release(r *residency.Residency) {
	l.one.Store(nil)
	for i := range l.dir {
		c := l.dir[i].Load()
		if c == nil {
			continue
		}
		blk := uint64(i) << chunkBits
		for j := range c {
			if first := c[j].Load(); first != nil && first != ZeroLine {
				r.Remove(l.Key(blk+uint64(j)), blockInMemory{&c[j], first})
			}
		}
		r.Remove(l.chunkKey(blk), chunkInMemory{&l.dir[i], c})
	}
}

// Evict takes a block out of memory as the cache does when it needs room, and EvictChunk the part of the table with the block:
// they return what the cache would call, for tests.
func (l *Layer) Evict(blk uint64) (drop func()) {
	if s := l.Slot(blk); s != nil {
		return blockInMemory{s, s.Load()}.Drop
	}
	return func() {}
}

// EvictChunk is described at Evict.
func (l *Layer) EvictChunk(blk uint64) (drop func()) {
	d := &l.dir[blk>>chunkBits]
	return chunkInMemory{d, d.Load()}.Drop
}

type blockInMemory struct {
	slot  *Slot
	first *Line
}

// Drop implements residency.Resident.
func (b blockInMemory) Drop() { b.slot.CompareAndSwap(b.first, nil) }

// chunkInMemory is a chunk of a block table. The blocks of a dropped chunk cannot be found any more. A dropped chunk
// is never put back.
type chunkInMemory struct {
	dir *atomic.Pointer[chunk]
	c   *chunk
}

// Drop implements residency.Resident.
func (c chunkInMemory) Drop() { c.dir.CompareAndSwap(c.c, nil) }

// Key is the residency's name for a block.
func (l *Layer) Key(blk uint64) uint64 {
	return residency.Mix(l.object ^ residency.Mix(l.spec.Number<<48^blk))
}

func (l *Layer) chunkKey(blk uint64) uint64 {
	return residency.Mix(^l.object ^ residency.Mix(l.spec.Number<<48^blk>>chunkBits))
}
