package cuckooext

import (
	"fmt"
	"math/bits"

	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/probe"
)

const (
	defaultBucketSize = 4
	maxBucketSize     = 255
)

// geometry is how a block is divided into buckets of slots, the same for all layers
// of a filter. newGeometry makes geometries; one made otherwise is not valid.
type geometry struct {
	family     block.Family
	bucketSize uint32 // b, slots of a bucket, 1 to 255
	buckets    uint32 // n, of a block, 8 to 8192

	// What follows from the above. A group is as many slots of a bucket as fit into
	// a word; most buckets are one group. Its lanes are its slots, the first lowest.

	width        uint32 // w, bits of a fingerprint
	bucketBits   uint32
	fingerprints uint64 // 2^w-1, how many there are
	xor          bool   // n is a power of two
	stepBase     uint32 // the lowest step, see partner
	steps        uint64 // how many there are
	shape        shape
	straddles    bool   // a bucket may lie in two words
	groupSlots   uint32 // of a whole group
	ones         uint64 // the lowest bit of each lane of a whole group
	lows         uint64 // all bits of each but the highest
	reciprocal   uint32 // of w, times 65536: see laneOf
}

// shape says how a bucket is read.
type shape uint8

const (
	severalGroups shape = iota // more than 64 bits
	oneGroup                   // at most 64 bits
	oneWord                    // a word
)

// newGeometry returns the geometry of blocks with fingerprints of the given family
// and b slots in a bucket. The error wraps ErrConfig.
func newGeometry(family block.Family, bucketSize int) (geometry, error) {
	switch family {
	case block.FamilySlots8, block.FamilySlots12, block.FamilySlots16, block.FamilySlots32:
	default:
		return geometry{}, fmt.Errorf("cuckooext: %w: fingerprints are %v, want slots of 8, 12, 16 or 32 bits",
			probe.ErrParams, family)
	}
	if bucketSize < 1 || bucketSize > maxBucketSize {
		return geometry{}, fmt.Errorf("cuckooext: %w: bucket size is %d, want 1 to %d",
			probe.ErrParams, bucketSize, maxBucketSize)
	}
	b, w := uint32(bucketSize), uint32(family.Width())
	n := uint32(family.Slots(block.MaxLines)) / b
	g := geometry{
		family: family, bucketSize: b, buckets: n,
		width: w, bucketBits: b * w, fingerprints: 1<<w - 1,
		xor: n&(n-1) == 0, steps: uint64(n),
		groupSlots: min(b, 64/w), reciprocal: 65536/w + 1,
	}
	if g.xor {
		// A step of 0 would leave the item with one bucket.
		g.stepBase, g.steps = 1, uint64(n)-1
	}
	for i := range g.groupSlots {
		g.ones |= 1 << (i * w)
		g.lows |= (1<<(w-1) - 1) << (i * w)
	}
	switch {
	case g.bucketBits == 64:
		g.shape = oneWord
	case g.bucketBits < 64:
		g.shape = oneGroup
	}
	g.straddles = 64%(g.groupSlots*w) != 0 || g.bucketBits > 64 && g.bucketBits%64 != 0
	return g, nil
}

// place is where an item may be in a layer: its fingerprint is in a slot of bucket
// i1 or i2 of a block. The buckets are rarely the same one.
type place struct {
	blk    uint64
	i1, i2 uint32
	fp     uint32 // 1 to 2^w-1; 0 is an empty slot
}

// mixer is odd, so that multiplying by it loses nothing: the fractional bits of the
// golden ratio.
const mixer = 0x9E3779B97F4A7C15

// place returns the place of the item with hash h in a layer of the given number of
// blocks.
//
// The block comes from the highest bits of the hash. Fingerprint and bucket come
// from the lower and the upper half of a bijection of it, (h ^ h>>32) * mixer. The
// lower half of h ^ h>>32 is uniform whatever the highest bits are, and with it the
// lower half of the product; the upper half then still depends on all bits of the
// upper half of h, of which the block has used the first. So block, bucket and
// fingerprint are independent as long as they need no more than 64 bits together:
// for fingerprints of 32 bits and buckets of 4, up to 2^23 blocks or 64 GiB.
//
// Bucket and fingerprint do not depend on the number of blocks. Hence an equal place
// in a layer implies an equal place in every older one; see blockOf.
func (g *geometry) place(h, blocks uint64) place {
	r := (h ^ h>>32) * mixer
	p := place{
		blk: blockOf(h, blocks),
		i1:  uint32(r >> 32 * uint64(g.buckets) >> 32),
		fp:  uint32(r&(1<<32-1)*g.fingerprints>>32) + 1,
	}
	p.i2 = g.partner(p.i1, p.fp)
	return p
}

// blockOf returns the block of the item with hash h in a layer of the given number
// of blocks: floor(h*blocks / 2^64).
//
// If a layer has m times the blocks of an older one, items that share a block in it
// share one in the older, too: with x = h*blocks/2^64, the block in the older is
// floor(x) and that in the newer floor(m*x), and floor(floor(m*x)/m) = floor(x),
// so that the block in the newer determines that in the older.
func blockOf(h, blocks uint64) uint64 {
	blk, _ := bits.Mul64(h, blocks)
	return blk
}

// partner returns the other bucket of an entry with fingerprint fp in bucket i. The
// partner's partner is i again: i ^ step if n is a power of two, else (step - i)
// mod n, where the step depends on the fingerprint alone.
func (g *geometry) partner(i, fp uint32) uint32 {
	// Fingerprints that follow one another must not have steps that do, or the
	// moves of entries lead to few buckets; hence two multiplications.
	x := uint64(fp) * mixer
	x = (x ^ x>>32) * 0xD6E8FEB86659FD93
	step := g.stepBase + uint32(x>>32*g.steps>>32)
	if g.xor {
		return i ^ step
	}
	other := int32(step - i)
	return uint32(other + int32(g.buckets)&(other>>31))
}
