package cuckooext

import (
	"fmt"
	"math"

	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/probe"
	"github.com/sievekv/sievekv/scalableext"
)

// maxBlocks is the most blocks of a layer, 8 TiB.
const maxBlocks = probe.MaxBits / block.Bits

const (
	// defaultFamily is that of a filter made without an error rate.
	defaultFamily = block.FamilySlots12

	// ratedLayers is the number of layers that must fit into an error rate asked
	// for, unless the filter does not grow: 15 times its capacity at an expansion
	// of 2.
	ratedLayers = 4
)

// families are those a filter may have, the smallest first.
var families = [...]block.Family{block.FamilySlots8, block.FamilySlots12, block.FamilySlots16, block.FamilySlots32}

// firstFull is when a block first has no room for an item: at a mean load, with a
// standard deviation of spread divided by the root of its slots. Measured on 1,000
// blocks of each fingerprint width and bucket size; the widths differ only in their
// slots. The loads are the known thresholds (Fernholz and Ramachandran, "The
// k-orientability thresholds for G(n,p)", 2007, with items for edges).
type firstFull struct{ load, spread float64 }

// firstFulls are those by bucket size; larger buckets are like the last.
var firstFulls = [...]firstFull{
	2: {0.897, 0.45}, {0.959, 0.29}, {0.980, 0.20}, {0.989, 0.15}, {0.994, 0.12}, {0.996, 0.10}, {0.998, 0.08},
}

const (
	// Above these loads inserts would take ever more moves for a few percent of
	// memory. A block of 32-bit fingerprints has half the slots of the next
	// smaller ones, so that blocks differ more in load.
	highestLoad   = 0.90
	highestLoad32 = 0.88

	// singleLoad is the load of buckets of one slot. Three items whose two
	// buckets are the same make a block full at any load, so that none is safe
	// for many blocks. At this one a block is full with a chance of about 1e-4
	// (Drmota and Kutzelnigg, "A precise analysis of Cuckoo hashing", 2012), or
	// 4e-3 with fingerprints of 8 bits, whose copies are the most (measured).
	singleLoad = 0.25

	// earlyChance is that of a layer being full before its capacity.
	earlyChance = 0.01
)

// load returns the mean load that a layer of so many blocks is sized for: at most
// the highest, and so low that with a chance of 1-earlyChance no block is full, unless
// buckets have one slot.
//
// With m items to a block on average, the number in a given block has a variance of
// m(1-1/blocks), and the number at which it is full one of spread^2 times its slots.
// The distance between the two means must be as many standard deviations as one in
// blocks/earlyChance blocks deviates.
func (g *geometry) load(blocks uint64) float64 {
	if g.bucketSize == 1 {
		return singleLoad
	}
	highest := highestLoad
	if g.family == block.FamilySlots32 {
		highest = highestLoad32
	}
	full := firstFulls[min(int(g.bucketSize), len(firstFulls)-1)]
	slots, all := float64(g.slots()), float64(blocks)
	deviations := math.Sqrt2 * math.Erfcinv(2*earlyChance/all)
	// load = full.load - c*sqrt(load*a + b), solved for the root of load.
	c, a, b := deviations/math.Sqrt(slots), 1-1/all, full.spread*full.spread
	p := full.load + c*c*a/2
	return min(highest, p-math.Sqrt(p*p-full.load*full.load+c*c*b))
}

// capacity returns how many items a layer of so many blocks is sized for.
func (g *geometry) capacity(blocks uint64) uint64 {
	return uint64(float64(blocks) * float64(g.slots()) * g.load(blocks))
}

// blocksFor returns the number of blocks of a layer for a capacity, at least one. A
// block is never cut short. The error wraps ErrConfig.
func (g *geometry) blocksFor(capacity uint64) (uint64, error) {
	if capacity < 1 || capacity > probe.MaxCapacity {
		return 0, fmt.Errorf("cuckooext: %w: capacity is %d, want 1 to %d",
			probe.ErrParams, capacity, uint64(probe.MaxCapacity))
	}
	blocks := uint64(1)
	for g.capacity(blocks) < capacity {
		// More blocks have a slightly lower load: a few rounds.
		need := math.Ceil(float64(capacity) / (float64(g.slots()) * g.load(blocks)))
		blocks = max(blocks+1, uint64(need))
	}
	if blocks > maxBlocks {
		return 0, fmt.Errorf("cuckooext: %w: capacity is %d, want at most %d for %v and bucket size %d",
			probe.ErrParams, capacity, g.capacity(maxBlocks), g.family, g.bucketSize)
	}
	return blocks, nil
}

// nextBlocks returns the number of blocks of the layer that follows one: a whole
// multiple, on which deleting relies (blockOf). The error wraps
// scalableext.ErrCannotGrow.
func nextBlocks(blocks uint64, expansion uint32) (uint64, error) {
	if expansion == 0 || blocks > maxBlocks/uint64(expansion) {
		return 0, fmt.Errorf("%w: newest layer has %d blocks, expansion is %d, a layer has at most %d blocks",
			scalableext.ErrCannotGrow, blocks, expansion, uint64(maxBlocks))
	}
	return blocks * uint64(expansion), nil
}

// rate returns the false-positive rate of one layer at a load: the chance that an
// absent item's fingerprint is in one of the 2b slots of its buckets that are not
// empty, 1-(1-1/(2^w-1))^(2b*load). (Fan et al. 2014, section 5.1, with one
// fingerprint less, that of the empty slot.)
func (g *geometry) rate(load float64) float64 {
	return -math.Expm1(2 * float64(g.bucketSize) * load * math.Log1p(-1/float64(g.fingerprints)))
}

// chainRate returns the rate of a chain of layers that have the given rate each:
// absent from all means absent from each.
func chainRate(rate float64, layers int) float64 {
	return -math.Expm1(float64(layers) * math.Log1p(-rate))
}

// maxLayers returns how many layers, each as loaded as it is sized for, fit into an
// error rate: 0 to scalableext.MaxLayers.
func (g *geometry) maxLayers(errorRate float64) int {
	layers, rate := 0, g.rate(g.load(1))
	for layers < scalableext.MaxLayers && chainRate(rate, layers+1) <= errorRate {
		layers++
	}
	return layers
}

// layersOf returns how many layers a filter of the parameters may have: as many as fit into
// its error rate, and as a chain of its capacity and expansion has.
func (g *geometry) layersOf(p scalableext.Params) int {
	if p.Expansion == 0 {
		return 1
	}
	return min(g.maxLayers(p.ErrorRate), p.MaxLayers())
}

// loadOf returns the load of a layer that has so many entries.
func (g *geometry) loadOf(blocks, entries uint64) float64 {
	return float64(entries) / (float64(blocks) * float64(g.slots()))
}

// bytes returns how many bytes the slots of so many blocks are.
func (g *geometry) bytes(blocks uint64) uint64 {
	return blocks * uint64(g.slots()) * uint64(g.width) / 8
}

// expectedRate returns the false-positive rate of layers as loaded as they are.
func (g *geometry) expectedRate(layers []LayerInfo) float64 {
	rates := make([]float64, len(layers))
	for i := range layers {
		rates[i] = g.rate(layers[i].Load)
	}
	return scalableext.ChainRate(rates)
}

// ratedGeometry returns the geometry with the shortest fingerprints of which as many
// layers as a filter should be able to have fit into the error rate: ratedLayers,
// or one if it does not grow. The error wraps ErrConfig.
func ratedGeometry(errorRate float64, bucketSize int, grows bool) (geometry, error) {
	if !(errorRate > 0 && errorRate < 1) {
		return geometry{}, fmt.Errorf("cuckooext: %w: error rate is %v, want above 0 and below 1",
			probe.ErrParams, errorRate)
	}
	layers := 1
	if grows {
		layers = ratedLayers
	}
	lowest := 0.0
	for _, family := range families {
		g, err := newGeometry(family, bucketSize)
		if err != nil || g.maxLayers(errorRate) >= layers {
			return g, err
		}
		lowest = chainRate(g.rate(g.load(1)), layers)
	}
	return geometry{}, fmt.Errorf("cuckooext: %w: error rate is %v, want at least %.3g for bucket size %d and %d layers",
		probe.ErrParams, errorRate, roundUp(lowest), bucketSize, layers)
}

// roundUp returns a rate with three digits that is not lower, so that what an error
// names can be asked for.
func roundUp(rate float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(rate))-2)
	return math.Ceil(rate/unit) * unit
}
