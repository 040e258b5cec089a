package cuckooext

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/probe"
)

const (
	defaultBucketSize = 4
	maxBucketSize     = 255
)

// geometry says how a block is divided into buckets of slots. It is the same for all layers of a filter, except that the
// oldest layer may be one short block with fewer buckets, see short. Only newGeometry, and its methods cut, short and within,
// make valid geometries.
type geometry struct {
	family     block.Family
	bucketSize uint32 // b, slots of a bucket, 1 to 255
	buckets    uint32 // n, buckets of a block, 8 to 8192
	whole      uint32 // n of a block that is not short, a multiple of buckets
	longest    int    // lines of a block that is not short: block.MaxLines, or fewer in a filter whose blocks are cut

	// ratedLoad is the load at which as many layers as there must be use up the error rate, see within; otherwise at
	// least 1.
	ratedLoad float64

	// The fields below follow from the ones above. A group is as many slots of a bucket as fit into a word; most
	// buckets are one group. Its lanes are its slots, the first one lowest.

	width        uint32 // w, bits of a fingerprint
	bucketBits   uint32
	fingerprints uint64 // 2^w-1, the number of fingerprints
	xor          bool   // n is a power of two
	stepBase     uint32 // the lowest step, see partner
	steps        uint64 // the number of steps
	shape        shape
	straddles    bool   // a bucket may lie in two words
	groupSlots   uint32 // slots of a whole group
	ones         uint64 // the lowest bit of each lane of a whole group
	lows         uint64 // all bits of each lane except the highest
	reciprocal   uint32 // 65536/w + 1, see laneOf
}

// shape says how a bucket is read.
type shape uint8

const (
	severalGroups shape = iota // more than 64 bits
	oneGroup                   // at most 64 bits
	oneWord                    // a word
)

// newGeometry returns the geometry of blocks with fingerprints of a family and buckets of a size, for layers of any error
// rate. The error wraps ErrConfig.
func newGeometry(family block.Family, bucketSize int) (geometry, error) {
	if !slices.Contains(families[:], family) {
		return geometry{}, fmt.Errorf("%w: fingerprints are %v, want slots of 8, 10, 12, 14, 16, 18, 20, 24 or 32 bits",
			probe.ErrParams, family)
	}
	if bucketSize < 1 || bucketSize > maxBucketSize {
		return geometry{}, fmt.Errorf("%w: bucket size is %d, want 1 to %d",
			probe.ErrParams, bucketSize, maxBucketSize)
	}
	b, w := uint32(bucketSize), uint32(family.Width())
	n := uint32(family.Slots(block.MaxLines)) / b
	g := geometry{
		family: family, bucketSize: b, longest: block.MaxLines, ratedLoad: 1,
		width: w, bucketBits: b * w, fingerprints: 1<<w - 1,
		groupSlots: min(b, 64/w), reciprocal: 65536/w + 1,
	}
	g.setWhole(n)
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

// setWhole sets the number of buckets of a whole block, and of every block.
func (g *geometry) setWhole(n uint32) {
	g.buckets, g.whole = n, n
	g.xor, g.stepBase, g.steps = n&(n-1) == 0, 0, uint64(n)
	if g.xor {
		// A step of 0 would leave the item with one bucket.
		g.stepBase, g.steps = 1, uint64(n)-1
	}
}

// form returns the form of blocks of the geometry.
func (g *geometry) form() blockForm {
	switch {
	case g.buckets < g.whole:
		return shortBlock
	case g.longest < block.MaxLines:
		return cutBlocks
	}
	return wholeBlocks
}

// formed returns the geometry of blocks of a form and a number of lines in a filter whose whole blocks have the geometry g. If there
// are no such blocks, ok is false.
func (g *geometry) formed(form blockForm, lines int) (of geometry, ok bool) {
	switch form {
	case shortBlock:
		return g.short(lines)
	case cutBlocks:
		return g.cut(lines)
	}
	return *g, lines == block.MaxLines
}

// place is where an item may be in a layer: its fingerprint is in a slot of bucket i1 or i2 of a block. If n is not a
// power of two, the two are the same bucket for one item in n on average.
type place struct {
	blk    uint64
	i1, i2 uint32
	fp     uint32 // 1 to 2^w-1; 0 is an empty slot
}

// mixer is the fractional bits of the golden ratio. It is odd, so that multiplication by it is a bijection.
const mixer = 0x9E3779B97F4A7C15

// place returns the place of the item with hash h in a layer of a number of blocks.
//
// The block comes from the highest bits of the hash. The fingerprint and the bucket come from the lower and the upper
// half of (h ^ h>>32) * mixer, which is a bijection. The lower half of h ^ h>>32 is uniform whatever the highest bits
// of h are, and so is the lower half of the product: block and fingerprint are independent. Given both, the upper
// half of the product still depends on all bits of the upper half of h; the block has used only its first
// ones. So the bucket is nearly uniform. With fingerprints of 32 bits and buckets of 4 it becomes uneven from about
// 2^21 blocks (16 GiB) on, where equal fingerprints of a block share a bucket 1.05 times as often, and 1.4 times at
// 2^23.
//
// Bucket and fingerprint do not depend on the number of blocks. So items with the same place in a layer have the same
// place in every older one; see blockOf. That needs that all layers have the same n: they do, whether their blocks are whole or
// cut. Only the oldest layer may be a short block. Its buckets are the buckets of a whole one modulo n, so the same holds for it.
func (g *geometry) place(h, blocks uint64) place {
	r := (h ^ h>>32) * mixer
	p := place{
		blk: blockOf(h, blocks),
		i1:  uint32(r >> 32 * uint64(g.whole) >> 32),
		fp:  uint32(r&(1<<32-1)*g.fingerprints>>32) + 1,
	}
	if g.buckets < g.whole {
		p.i1 %= g.buckets
	}
	p.i2 = g.partner(p.i1, p.fp)
	return p
}

// blockOf returns the block of the item with hash h in a layer of a number of blocks: floor(h*blocks / 2^64).
//
// If a layer has m times the blocks of an older one, items that share a block in it also share one in the older
// layer. With x = h*blocks/2^64 for the older layer, the block is floor(x) in the older and floor(m*x) in the newer
// layer. Because floor(floor(m*x)/m) = floor(x), the block in the newer layer determines the one in the older.
func blockOf(h, blocks uint64) uint64 {
	blk, _ := bits.Mul64(h, blocks)
	return blk
}

// partner returns the other bucket of an entry with fingerprint fp in bucket i. The partner of the partner is i
// again. It is i ^ step if n is a power of two, otherwise (step - i) mod n. The step depends only on the fingerprint.
// The partner in a short block is the partner in a whole block modulo n: as n divides the number of a whole block, both formulas
// may be taken modulo n at once.
func (g *geometry) partner(i, fp uint32) uint32 {
	// Consecutive fingerprints must not have consecutive steps, or moves would reach few buckets; hence two
	// multiplications.
	x := uint64(fp) * mixer
	x = (x ^ x>>32) * 0xD6E8FEB86659FD93
	step := g.stepBase + uint32(x>>32*g.steps>>32)
	if g.buckets < g.whole {
		step %= g.buckets
	}
	if g.xor {
		return i ^ step
	}
	other := int32(step - i)
	return uint32(other + int32(g.buckets)&(other>>31))
}
