package scalableext

import (
	"fmt"
	"math"
	"slices"

	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
)

// Growth is the rule by which a chain divides its error rate among its layers. The false-positive rate of a chain is
// at most the sum of the rates of its layers. So if the layers' rates sum to the rate asked for, the chain keeps it
// however far it grows. Stored on disk: do not renumber.
type Growth uint8

const (
	// Native gives the first layer 0.7 of the rate, so that a filter of the right size loses little. It divides the
	// rest evenly among the layers that may follow: as many as it takes until one would hold more than 2^40 items, at
	// most 64.
	Native Growth = 0

	// Halving is RedisBloom's rule: a layer has half of the rate of the one before it, and the first has half of the rate
	// asked for. A layer's capacity and rate are stored with it, as a loaded filter may have any. There are at most 64
	// layers.
	Halving Growth = 1

	// Windowed is the rule of a filter that forgets: see Window. A layer's capacity, rate and slice are stored with it.
	Windowed Growth = 2

	// Logged is the rule of a filter that grows without more and more layers, see Log. A layer's capacity and rate are
	// stored with it.
	Logged Growth = 3

	numGrowths = 4
)

const (
	// MaxLayers is the most layers a chain may have.
	MaxLayers = 64

	// MaxExpansion is the largest factor between the capacities of two layers.
	MaxExpansion = 32768

	firstShare = 0.7
)

// MaxLayers returns the most layers the chain may have, 1 to MaxLayers.
func (p Params) MaxLayers() int {
	switch {
	case p.Growth != Native:
		return MaxLayers
	case p.Expansion == 0:
		return 1
	}
	n := 1
	for capacity := p.Capacity; n < MaxLayers && capacity <= probe.MaxCapacity/uint64(p.Expansion); n++ {
		capacity *= uint64(p.Expansion)
	}
	return n
}

// CheckGrowth returns an error that wraps kv.ErrCorrupt unless the growth rule is one that the type or layout has.
func (p Params) CheckGrowth(rules ...Growth) error {
	if slices.Contains(rules, p.Growth) {
		return nil
	}
	return fmt.Errorf("%w: growth rule %d, want one of %v", kv.ErrCorrupt, p.Growth, rules)
}

// Layer returns the capacity and the error rate of layer i of a chain with Native growth; the first is 0. The error is ErrCannotGrow if i is not
// below MaxLayers.
func (p Params) Layer(i int) (capacity uint64, rate float64, err error) {
	most := p.MaxLayers()
	if i >= most {
		return 0, 0, fmt.Errorf("%w: %d layers, the most for capacity %d and expansion %d", ErrCannotGrow, i, p.Capacity, p.Expansion)
	}
	capacity = p.Capacity
	for range i {
		capacity *= max(1, uint64(p.Expansion))
	}
	return capacity, p.layerRate(i, most), nil
}

func (p Params) layerRate(i, most int) float64 {
	switch {
	case p.Expansion == 0 || most == 1:
		return p.ErrorRate
	case i == 0:
		return firstShare * p.ErrorRate
	}
	return (1 - firstShare) * p.ErrorRate / float64(most-1)
}

// ChainRate returns the false-positive rate of a chain from the rates of its layers, 0 to 1 each: the probability that
// at least one layer answers for an absent item, 1 - (1-r1)(1-r2)... It is 0, not -0, for an empty chain.
func ChainRate(layers []float64) float64 {
	absent := 0.0 // logarithm of the probability that no layer answers: near 1 a low rate would lose its digits
	for _, rate := range layers {
		absent += math.Log1p(-rate)
	}
	return 0 - math.Expm1(absent)
}
