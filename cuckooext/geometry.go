package cuckooext

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/probe"
	"github.com/sievekv/sievekv/scalableext"
)

const (
	defaultBucketSize = 4
	maxBucketSize     = 255
)

// geometry says how a block is divided into buckets of slots. It is the same for all layers of a filter, but for the number
// of buckets: the only block of the oldest layer may be short, see forCapacity. Only newGeometry, and its methods short and
// within, make valid geometries.
type geometry struct {
	family     block.Family
	bucketSize uint32 // b, slots of a bucket, 1 to 255
	buckets    uint32 // n, buckets of a block, 8 to 8192
	whole      uint32 // n of a whole block, a multiple of buckets

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
		family: family, bucketSize: b, buckets: n, whole: n, ratedLoad: 1,
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

// place is where an item may be in a layer: its fingerprint is in a slot of bucket i1 or i2 of a block. If n is not a
// power of two, the two are the same bucket for one item in n on average.
type place struct {
	blk    uint64
	i1, i2 uint32
	fp     uint32 // 1 to 2^w-1; 0 is an empty slot
}

// mixer is the fractional bits of the golden ratio. It is odd, so that multiplication by it is a bijection.
const mixer = 0x9E3779B97F4A7C15

// place returns the place of the item with hash h in a layer of so many blocks.
//
// The block comes from the highest bits of the hash. The fingerprint and the bucket come from the lower and the upper
// half of (h ^ h>>32) * mixer, which is a bijection. The lower half of h ^ h>>32 is uniform whatever the highest bits
// of h are, and so is the lower half of the product: block and fingerprint are independent. Given both, the upper
// half of the product still depends on all bits of the upper half of h, of which the block has used only the first
// ones. So the bucket is nearly uniform. With fingerprints of 32 bits and buckets of 4 it becomes uneven from about
// 2^21 blocks (16 GiB) on, where equal fingerprints of a block share a bucket 1.05 times as often, and 1.4 times at
// 2^23.
//
// Bucket and fingerprint do not depend on the number of blocks. So items with the same place in a layer have the same
// place in every older one; see blockOf. In a short block the buckets are those of a whole one modulo n, so the same holds
// for it.
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

// blockOf returns the block of the item with hash h in a layer of so many blocks: floor(h*blocks / 2^64).
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
// The partner in a short block is the partner in a whole block modulo n: as n divides that of a whole block, both formulas
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

// maxBlocks is the most blocks of a layer, 8 TiB.
const maxBlocks = probe.MaxBits / block.Bits

const (
	// defaultFamily is the family of a filter without an error rate.
	defaultFamily = block.FamilySlots12

	// ratedLayers is the number of layers that must fit into a given error rate, unless the filter does not grow.
	// That is 15 times its capacity at an expansion of 2, for 2 bits an item.
	ratedLayers = 4
)

// ratedBucketSizes are the bucket sizes of which a filter with an error rate has the best, if it is not given one. Smaller
// buckets have a lower rate, larger ones a higher load.
var ratedBucketSizes = [...]int{2, 3, 4}

// leastLoad is the part of its possible load that a layer has at least. Shorter fingerprints that keep the rate only at a
// lower load are not taken.
const leastLoad = 0.5

// families are the families that a filter may have, the smallest first.
var families = [...]block.Family{
	block.FamilySlots8, block.FamilySlots10, block.FamilySlots12, block.FamilySlots14, block.FamilySlots16, block.FamilySlots18,
	block.FamilySlots20, block.FamilySlots24, block.FamilySlots32,
}

// firstFull says when a block first has no room for an item: at a mean load, with a standard deviation of spread
// divided by the square root of its slots. Measured on 1,000 blocks of each fingerprint width and bucket size; the
// widths differ only in the number of slots. The loads agree with the known thresholds (Fernholz and Ramachandran,
// "The k-orientability thresholds for G(n,p)", 2007, with items for edges).
type firstFull struct{ load, spread float64 }

// firstFulls has the values by bucket size. Larger buckets are like the last.
var firstFulls = [...]firstFull{
	2: {0.897, 0.45}, {0.959, 0.29}, {0.980, 0.20}, {0.989, 0.15}, {0.994, 0.12}, {0.996, 0.10}, {0.998, 0.08},
}

const (
	// Above these loads inserts would need ever more moves to gain a few percent of memory. Of 24-bit fingerprints, and of
	// longer ones, a block has fewer, so the loads of blocks vary more.
	highestLoad     = 0.90
	highestLoadLong = 0.88

	// singleLoad is the load of buckets of one slot. Three items with the same two buckets make a block full at any
	// load, so no load is safe for many blocks. At this one a block is full with a probability of about 1e-4 (Drmota
	// and Kutzelnigg, "A precise analysis of Cuckoo hashing", 2012), or 4e-3 with fingerprints of 8 bits, which have
	// the most equal items (measured).
	singleLoad = 0.25

	// shortSlots is by how many slots a short block is full earlier than the normal distribution of firstFull says.
	shortSlots = 4

	// leastBuckets is the least number of buckets of a short block. Stored short blocks depend on it, see short.
	leastBuckets = 8

	// earlyChance is the probability that a layer becomes full before its capacity.
	earlyChance = 0.01
)

// load returns the mean load that a layer of so many blocks is sized for: at most the rated and the highest load, and so
// low that with a probability of 1-earlyChance no block is full. That probability does not hold for buckets of one slot.
//
// With m items to a block on average, the number in a given block has a variance of m(1-1/blocks), and the number at
// which it is full has a variance of spread^2 times its slots. The two means must be as many standard deviations
// apart as the most extreme one in blocks/earlyChance blocks.
func (g *geometry) load(blocks uint64) float64 {
	if g.bucketSize == 1 {
		return min(g.ratedLoad, singleLoad)
	}
	highest := min(g.ratedLoad, highestLoad)
	if g.family >= block.FamilySlots24 {
		highest = min(g.ratedLoad, highestLoadLong)
	}
	full := firstFulls[min(int(g.bucketSize), len(firstFulls)-1)]
	slots, all := float64(g.slots()), float64(blocks)
	deviations := math.Sqrt2 * math.Erfcinv(2*earlyChance/all)
	// load = full.load - c*sqrt(load*a + b), solved for the root of load.
	c, a, b := deviations/math.Sqrt(slots), 1-1/all, full.spread*full.spread
	p := full.load + c*c*a/2
	possible := p - math.Sqrt(p*p-full.load*full.load+c*c*b)
	if g.buckets < g.whole {
		possible -= shortSlots / slots
	}
	return min(highest, possible)
}

// capacity returns how many items a layer of so many blocks is sized for.
func (g *geometry) capacity(blocks uint64) uint64 {
	return uint64(float64(blocks) * float64(g.slots()) * g.load(blocks))
}

// forCapacity returns the geometry of the first layer for a capacity: with the shortest block, if one block that is not
// whole is enough. A short block has one n-th of the buckets of a whole one, so few items take few bytes.
func (g *geometry) forCapacity(capacity uint64) geometry {
	for s, parts := *g, g.whole/leastBuckets; parts > 1; parts-- {
		if g.whole%parts != 0 {
			continue
		}
		if s.buckets = g.whole / parts; s.capacity(1) >= capacity {
			s, _ = g.short(s.lines())
			return s
		}
	}
	return *g
}

// short returns the geometry of the largest short block that fits into so many lines, and not into fewer. If there is none, ok
// is false. Of a short block only the lines are stored, so this must not change.
func (g *geometry) short(lines int) (s geometry, ok bool) {
	s = *g
	for parts := uint32(2); g.whole/parts >= leastBuckets; parts++ {
		if g.whole%parts != 0 {
			continue
		}
		s.buckets = g.whole / parts
		if n := s.lines(); n <= lines {
			return s, n == lines
		}
	}
	return geometry{}, false
}

// lines returns the lines that a block takes.
func (g *geometry) lines() int {
	if g.buckets == g.whole {
		return block.MaxLines
	}
	return int(g.buckets*g.bucketBits+block.LineBits-1) / block.LineBits
}

// blocksFor returns the number of blocks of a layer for a capacity, at least one. The error wraps ErrConfig.
func (g *geometry) blocksFor(capacity uint64) (uint64, error) {
	if capacity < 1 || capacity > probe.MaxCapacity {
		return 0, fmt.Errorf("%w: capacity is %d, want 1 to %d",
			probe.ErrParams, capacity, uint64(probe.MaxCapacity))
	}
	blocks := uint64(1)
	for blocks <= maxBlocks && g.capacity(blocks) < capacity {
		// More blocks have a slightly lower load, so this takes a few rounds.
		need := math.Ceil(float64(capacity) / (float64(g.slots()) * g.load(blocks)))
		blocks = max(blocks+1, uint64(need))
	}
	if blocks > maxBlocks {
		return 0, fmt.Errorf("%w: capacity is %d, want at most %d for %v and bucket size %d",
			probe.ErrParams, capacity, g.capacity(maxBlocks), g.family, g.bucketSize)
	}
	return blocks, nil
}

// nextBlocks returns the number of blocks of the layer after one of this geometry: a whole multiple, which deleting needs
// (blockOf). After a short block it is the fewest whole ones that have at least expansion times its buckets. The error wraps
// scalableext.ErrCannotGrow.
func (g *geometry) nextBlocks(blocks uint64, expansion uint32) (uint64, error) {
	if g.buckets < g.whole && expansion > 0 {
		parts := uint64(g.whole / g.buckets)
		return (uint64(expansion) + parts - 1) / parts, nil
	}
	if expansion == 0 || blocks > maxBlocks/uint64(expansion) {
		return 0, fmt.Errorf("%w: newest layer has %d blocks, expansion is %d, a layer has at most %d blocks",
			scalableext.ErrCannotGrow, blocks, expansion, uint64(maxBlocks))
	}
	return blocks * uint64(expansion), nil
}

// rate returns the false-positive rate of one layer at a load: the probability that an absent item's fingerprint is
// in one of the 2b slots of its buckets that are not empty, 1-(1-1/(2^w-1))^(2b*load). (Fan et al. 2014, section 5.1,
// with one fingerprint less, because 0 means empty.)
func (g *geometry) rate(load float64) float64 {
	return -math.Expm1(2 * float64(g.bucketSize) * load * math.Log1p(-1/float64(g.fingerprints)))
}

// chainRate returns the rate of a chain of layers with the same rate. An absent item is a false positive of the chain
// if it is one of any layer.
func chainRate(rate float64, layers int) float64 {
	return -math.Expm1(float64(layers) * math.Log1p(-rate))
}

// maxLayers returns how many full layers of a filter with these parameters fit into its error rate: 0 to
// scalableext.MaxLayers. It gives each the load of a layer of one block, which is the highest. Equal hashes count if they
// add more than a thousandth of the rate: that of a filter that was not given one is just what 32 layers have without.
func (g *geometry) maxLayers(p scalableext.Params) int {
	layers, rate := 0, g.rate(g.load(1))
	for ; layers < scalableext.MaxLayers; layers++ {
		all, equal := chainRate(rate, layers+1), 0.0
		if few := p.ErrorRate / 1000; g.mostEqual(p, layers+1) > few {
			if equal = g.equalRate(p, layers+1); equal <= few {
				equal = 0
			}
		}
		if all+equal > p.ErrorRate {
			break
		}
	}
	return layers
}

// layersOf returns the most layers of a filter with these parameters: as many as fit into its error rate, and as a
// chain of its capacity and expansion may have.
func (g *geometry) layersOf(p scalableext.Params) int {
	if p.Expansion == 0 {
		return 1
	}
	return min(g.maxLayers(p), p.MaxLayers())
}

// loadOf returns the load of a layer with so many entries.
func (g *geometry) loadOf(blocks, entries uint64) float64 {
	return float64(entries) / (float64(blocks) * float64(g.slots()))
}

// bytes returns the size of the slots of so many blocks.
func (g *geometry) bytes(blocks uint64) uint64 {
	return blocks * uint64(g.slots()) * uint64(g.width) / 8
}

// expectedRate returns the false-positive rate of layers with their present loads.
func (g *geometry) expectedRate(layers []LayerInfo) float64 {
	rates := make([]float64, len(layers))
	for i := range layers {
		rates[i] = min(1, g.rate(layers[i].Load)+float64(layers[i].Items)/hashSpace)
	}
	return scalableext.ChainRate(rates)
}

// within returns the geometry for layers that are filled no further than an error rate allows: that of the whole filter, if
// so many layers are full.
func (g geometry) within(errorRate float64, layers int) geometry {
	// The load at which chainRate(g.rate(load), layers) is the rate. It is less by more than what is rounded.
	const less = 1 - 1e-6
	g.ratedLoad = less * math.Log1p(-errorRate) / (float64(layers) * 2 * float64(g.bucketSize) * math.Log1p(-1/float64(g.fingerprints)))
	return g
}

// forParams returns the geometry for the layers of a filter with these parameters. If they use up the rate by equal hashes, as
// those of earlier versions may, these do not count.
func (g geometry) forParams(p scalableext.Params) geometry {
	if rated, ok := g.rated(p); ok {
		return rated
	}
	return g.within(p.ErrorRate, neededLayers(p.Expansion > 0))
}

// rated returns the geometry for the layers of a filter with these parameters, for as many of the needed ones as there can be:
// a layer uses up some of the rate by its hashes, which may be equal to that of an absent item. If there cannot be one, or
// only at a load that is not worth it, ok is false.
func (g geometry) rated(p scalableext.Params) (rated geometry, ok bool) {
	const few = 1e-7 // of the rate, and less than what within leaves of it
	layers := neededLayers(p.Expansion > 0)
	least := leastLoad * g.load(1)
	if rated = g.within(p.ErrorRate, layers); g.mostEqual(p, layers) < few*p.ErrorRate {
		return rated, rated.ratedLoad >= least
	}
	for n := layers; n > 0; n-- {
		rated = g.within(p.ErrorRate, layers)
		for range 2 { // the load changes the number of blocks, hardly that of items
			if rated.ratedLoad >= least {
				rated = g.within(p.ErrorRate-rated.equalRate(p, n), layers)
			}
		}
		if rated.ratedLoad >= least {
			return rated, true
		}
	}
	return geometry{}, false
}

// hashSpace is the number of hashes. An absent item and another have the same one with a chance of 1/hashSpace. If a layer of
// long fingerprints has so many blocks that few hashes have the same place, formulas like that of rate count more pairs of
// items with other hashes than have the same place (measured up to 2^25 blocks of fingerprints of 32 bits). So equal hashes
// are all that there is to add.
const hashSpace = 1 << 64

// equalRate returns the chance that an absent item has the hash of one in the first layers of a filter, all full.
func (g *geometry) equalRate(p scalableext.Params, layers int) (rate float64) {
	layer := g.forCapacity(p.Capacity)
	blocks, err := g.blocksFor(p.Capacity)
	for ; layers > 0 && err == nil; layers-- {
		rate += float64(layer.capacity(blocks)) / hashSpace
		blocks, err = layer.nextBlocks(blocks, p.Expansion)
		layer = *g
	}
	return rate
}

// mostEqual returns a number above equalRate, in far less time.
func (g *geometry) mostEqual(p scalableext.Params, layers int) (rate float64) {
	items := 2 * float64(max(p.Capacity, uint64(g.slots())))
	for range layers {
		rate += items / hashSpace
		items *= float64(p.Expansion)
	}
	return rate
}

// neededLayers returns how many layers must fit into an error rate.
func neededLayers(grows bool) int {
	if grows {
		return ratedLayers
	}
	return 1
}

// bitsPerItem returns how many bits an item takes in a layer of one block that has as many items as it is sized for.
func (g *geometry) bitsPerItem() float64 { return float64(g.width) / g.load(1) }

// ratedGeometry returns the geometry in which an item takes the fewest bits, if enough layers are to fit into the error
// rate: ratedLayers, or one if the filter does not grow. Fewer are enough if equal hashes use up the rate. If one block is enough for the capacity, that with the shortest block
// comes first. A bucketSize of 0 stands for one of ratedBucketSizes. The error wraps ErrConfig.
func ratedGeometry(p scalableext.Params, bucketSize int) (best geometry, err error) {
	errorRate, capacity := p.ErrorRate, p.Capacity
	if !(errorRate > 0 && errorRate < 1) {
		return geometry{}, fmt.Errorf("%w: error rate is %v, want above 0 and below 1",
			probe.ErrParams, errorRate)
	}
	layers, lowest, bestLines := neededLayers(p.Expansion > 0), 1.0, 0
	sizes := ratedBucketSizes[:]
	if bucketSize != 0 {
		sizes = []int{bucketSize}
	}
	for _, family := range families {
		for _, size := range sizes {
			g, err := newGeometry(family, size)
			if err != nil {
				return geometry{}, err
			}
			lowest = min(lowest, g.lowestRate(p))
			g, ok := g.rated(p)
			if !ok {
				continue
			}
			first := g.forCapacity(capacity)
			if lines := first.lines(); best.family == 0 || lines < bestLines || lines == bestLines && g.bitsPerItem() < best.bitsPerItem() {
				best, bestLines = g, lines
			}
		}
	}
	if best.family == 0 {
		return geometry{}, fmt.Errorf("%w: error rate is %v, want at least %s for a capacity of %d, bucket size %d and %d layers",
			probe.ErrParams, errorRate, probe.LowestText(lowest), capacity, sizes[0], layers)
	}
	return best, nil
}

// lowestRate returns about the lowest error rate that a filter of this geometry can have.
func (g geometry) lowestRate(p scalableext.Params) float64 {
	least := leastLoad * g.load(1)
	g.ratedLoad = least
	return (1 + 1e-5) * (chainRate(g.rate(least), neededLayers(p.Expansion > 0)) + g.equalRate(p, 1))
}
