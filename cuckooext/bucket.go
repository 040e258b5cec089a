package cuckooext

import (
	"math/bits"
	"sync/atomic"

	"github.com/sievekv/sievekv/internal/block"
)

// A block in memory is a slice of words. Slot s is the w bits from bit s*w on; bucket i is the b slots from slot i*b on;
// bits after the last bucket are unused.

// The functions that read load each word atomically, which costs nothing on 64-bit machines, and decide on the
// copies. So they also work on a block that a commit is changing. Their answer may then mix the states before and
// after several changes, and even the halves of a slot that lies in two words. A caller that must know compares the
// block's version before and after.

// load returns word k of a block, or 0 after its end: reading the last group of a block may read one more word.
func load(words []uint64, k uint32) uint64 {
	if uint64(k) >= uint64(len(words)) {
		return 0
	}
	return atomic.LoadUint64(&words[k])
}

// group returns the group that begins at bit p of the block. Any bits may follow above it.
func (g *geometry) group(words []uint64, p uint32) uint64 {
	k, shift := p>>6, p&63
	x := load(words, k) >> shift
	if g.straddles {
		x |= load(words, k+1) << (64 - shift) // a shift by 64 makes 0
	}
	return x
}

// hasZero returns a value other than 0 if one of the lanes of x is 0. A borrow out of a lane that is 0 causes wrong
// bits only in the lanes above it.
func (g *geometry) hasZero(x uint64) uint64 {
	return (x - g.ones) &^ x & (g.lows + g.ones)
}

// zeros returns the highest bit of each lane of x that is 0, in the first lanes.
func (g *geometry) zeros(x uint64, lanes uint32) uint64 {
	highs := g.lows + g.ones
	if lanes < g.groupSlots {
		highs &= 1<<(lanes*g.width) - 1
	}
	return highs &^ ((x&g.lows + g.lows) | x)
}

// laneOf returns the number of the lane of the lowest bit set.
func (g *geometry) laneOf(found uint64) uint32 {
	return uint32(bits.TrailingZeros64(found)) * g.reciprocal >> 16
}

// mayContain reports whether the place's fingerprint is in one of its buckets. It reads both buckets before the first
// branch: nobody can predict which bucket has the entry, and so both loads wait for memory at the same time.
func (g *geometry) mayContain(words []uint64, p place) bool {
	v := uint64(p.fp) * g.ones
	switch g.shape {
	case oneWord:
		return g.hasZero(load(words, p.i1)^v)|g.hasZero(load(words, p.i2)^v) != 0
	case oneGroup:
		x, y := g.group(words, p.i1*g.bucketBits), g.group(words, p.i2*g.bucketBits)
		return g.hasZero(x^v)|g.hasZero(y^v) != 0
	}
	return g.find(words, p) >= 0
}

// find returns the first slot with the place's fingerprint in its buckets, or -1.
func (g *geometry) find(words []uint64, p place) int {
	if g.shape == severalGroups {
		if s := g.findIn(words, p.i1, p.fp); s >= 0 {
			return s
		}
		return g.findIn(words, p.i2, p.fp)
	}
	v := uint64(p.fp) * g.ones
	bucket, found := p.i1, g.zeros(g.group(words, p.i1*g.bucketBits)^v, g.bucketSize)
	other := g.zeros(g.group(words, p.i2*g.bucketBits)^v, g.bucketSize)
	if found == 0 { // compiles to a conditional move, without a branch
		bucket, found = p.i2, other
	}
	if found == 0 {
		return -1
	}
	return int(bucket*g.bucketSize + g.laneOf(found))
}

// findEmpty returns the first empty slot of the emptier of the place's buckets, or -1 if both are full. Using the
// emptier one leaves fewer full buckets to later items: at a load of 0.8 that saves half of the moves, at 0.9 a
// quarter.
func (g *geometry) findEmpty(words []uint64, p place) int {
	if g.shape == severalGroups {
		bucket, empty := p.i1, g.countIn(words, p.i1, 0)
		if other := g.countIn(words, p.i2, 0); other > empty {
			bucket = p.i2
		}
		return g.findIn(words, bucket, 0)
	}
	bucket, empty := p.i1, g.zeros(g.group(words, p.i1*g.bucketBits), g.bucketSize)
	other := g.zeros(g.group(words, p.i2*g.bucketBits), g.bucketSize)
	if bits.OnesCount64(other) > bits.OnesCount64(empty) {
		bucket, empty = p.i2, other
	}
	if empty == 0 {
		return -1
	}
	return int(bucket*g.bucketSize + g.laneOf(empty))
}

// findIn returns the first slot of a bucket that holds fp, or -1. An fp of 0 means an empty slot.
func (g *geometry) findIn(words []uint64, bucket, fp uint32) int {
	v := uint64(fp) * g.ones
	slot := bucket * g.bucketSize
	for end := slot + g.bucketSize; slot < end; slot += g.groupSlots {
		if found := g.zeros(g.group(words, slot*g.width)^v, end-slot); found != 0 {
			return int(slot + g.laneOf(found))
		}
	}
	return -1
}

// count returns how many slots of the place's buckets hold its fingerprint. If both buckets are the same one, it
// counts them once.
func (g *geometry) count(words []uint64, p place) int {
	n := g.countIn(words, p.i1, p.fp)
	if p.i1 != p.i2 {
		n += g.countIn(words, p.i2, p.fp)
	}
	return n
}

// most returns how many copies of an item a layer can have: one for each slot of the place's buckets.
func (g *geometry) most(p place) int {
	if p.i1 == p.i2 {
		return int(g.bucketSize)
	}
	return int(2 * g.bucketSize)
}

func (g *geometry) countIn(words []uint64, bucket, fp uint32) int {
	slot := bucket * g.bucketSize
	return g.countSlots(words, slot, slot+g.bucketSize, fp)
}

// occupied returns the number of slots of the block that are not empty.
func (g *geometry) occupied(words []uint64) int {
	slots := g.slots()
	return slots - g.countSlots(words, 0, uint32(slots), 0)
}

// slots returns the number of slots of a block that belong to a bucket.
func (g *geometry) slots() int { return int(g.buckets * g.bucketSize) }

func (g *geometry) countSlots(words []uint64, slot, end, fp uint32) (n int) {
	v := uint64(fp) * g.ones
	for ; slot < end; slot += g.groupSlots {
		n += bits.OnesCount64(g.zeros(g.group(words, slot*g.width)^v, end-slot))
	}
	return n
}

// slotAt returns the fingerprint in a slot, 0 if it is empty.
func (g *geometry) slotAt(words []uint64, slot uint32) uint32 {
	return uint32(g.group(words, slot*g.width) & g.fingerprints)
}

// set changes a slot of a block that no other goroutine uses.
func (g *geometry) set(words []uint64, s block.Slot) {
	p := uint32(s.Index) * g.width
	k, shift := p>>6, p&63
	words[k] = words[k]&^(g.fingerprints<<shift) | uint64(s.Value)<<shift
	if shift+g.width > 64 {
		words[k+1] = words[k+1]&^(g.fingerprints>>(64-shift)) | uint64(s.Value)>>(64-shift)
	}
}
