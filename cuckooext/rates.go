package cuckooext

import (
	"fmt"
	"math"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/scalableext"
)

const (
	// defaultFamily is the family of a filter without an error rate.
	defaultFamily = block.FamilySlots12

	// ratedLayers is the number of layers that must fit into a given error rate, unless the filter does not grow.
	// That is 15 times its capacity at an expansion of 2, for 2 bits an item.
	ratedLayers = 4
)

// ratedBucketSizes are the bucket sizes among which a filter with an error rate has the best, if it is not given one. Smaller
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
// add more than a thousandth of the rate: the rate of a filter that was not given one is just what 32 layers have without.
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

// expectedRate returns the false-positive rate of layers with their present loads.
func (g *geometry) expectedRate(layers []LayerInfo) float64 {
	rates := make([]float64, len(layers))
	for i := range layers {
		rates[i] = min(1, g.rate(layers[i].Load)+float64(layers[i].Items)/hashSpace)
	}
	return scalableext.ChainRate(rates)
}

// within returns the geometry for layers that are filled no further than an error rate allows: the rate of the whole filter, if
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
// a layer uses up some of the rate by its hashes, which may be equal to the hash of an absent item. If there cannot be one, or
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
	e, err := g.first(p.Capacity)
	for ; layers > 0 && err == nil; layers-- {
		rate += float64(e.capacity(e.blocks)) / hashSpace
		e, err = e.next(p.Expansion)
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

// ratedGeometry returns the geometry with which a filter is smallest, if enough layers are to fit into the error rate:
// ratedLayers, or one if the filter does not grow. Fewer are enough if equal hashes use up the rate. The smallest filter is the
// one with the smallest first layer; of several, the one in which an item takes the fewest bits. A bucketSize of 0 stands for
// one of ratedBucketSizes. The error wraps ErrConfig.
func ratedGeometry(p scalableext.Params, bucketSize int) (geometry, error) {
	if !(p.ErrorRate > 0 && p.ErrorRate < 1) {
		return geometry{}, fmt.Errorf("%w: error rate is %v, want above 0 and below 1", probe.ErrParams, p.ErrorRate)
	}
	sizes := ratedBucketSizes[:]
	if bucketSize != 0 {
		sizes = []int{bucketSize}
	}
	var list []geometry
	lowest := 1.0
	for _, family := range families {
		for _, size := range sizes {
			g, err := newGeometry(family, size)
			if err != nil {
				return geometry{}, err
			}
			lowest = min(lowest, g.lowestRate(p))
			if g, ok := g.rated(p); ok {
				list = append(list, g)
			}
		}
	}
	if len(list) == 0 {
		return geometry{}, fmt.Errorf("%w: error rate is %v, want at least %s for a capacity of %d, bucket size %d and %d layers",
			probe.ErrParams, p.ErrorRate, probe.LowestText(lowest), p.Capacity, sizes[0], neededLayers(p.Expansion > 0))
	}
	return smallest(list, p.Capacity), nil
}

// smallest returns the one of several geometries that ratedGeometry wants.
func smallest(list []geometry, capacity uint64) (best geometry) {
	fewest := uint64(math.MaxUint64)
	for i := range list {
		g, lines := &list[i], uint64(math.MaxUint64)
		if e, err := g.first(capacity); err == nil {
			lines = e.allLines()
		}
		if i == 0 || lines < fewest || lines == fewest && g.bitsPerItem() < best.bitsPerItem() {
			best, fewest = *g, lines
		}
	}
	return best
}

// lowestRate returns about the lowest error rate that a filter of this geometry can have.
func (g geometry) lowestRate(p scalableext.Params) float64 {
	least := leastLoad * g.load(1)
	g.ratedLoad = least
	return (1 + 1e-5) * (chainRate(g.rate(least), neededLayers(p.Expansion > 0)) + g.equalRate(p, 1))
}
