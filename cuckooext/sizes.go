package cuckooext

import (
	"fmt"
	"math"
	"sort"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/scalableext"
)

// maxBlocks is the most blocks of a layer, 8 TiB.
const maxBlocks = probe.MaxBits / block.Bits

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

	// shortSlots is by how many slots a block that is not whole is full earlier than the normal distribution of firstFull says.
	shortSlots = 4

	// leastBuckets is the least number of buckets of a block that is not whole. Stored ones depend on it, see short and cut.
	leastBuckets = 8

	// leastCut and mostCut are the lines of blocks that are cut. Shorter ones would have a lower load, and a filter that grows
	// would have ever more of them; longer ones would save less than a thirty-second.
	leastCut = block.MaxLines / 2
	mostCut  = block.MaxLines - block.MaxLines/32

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
	if g.lines() < block.MaxLines {
		possible -= shortSlots / slots
	}
	return max(0, min(highest, possible))
}

// capacity returns how many items a layer of so many blocks is sized for.
func (g *geometry) capacity(blocks uint64) uint64 {
	return uint64(float64(blocks) * float64(g.slots()) * g.load(blocks))
}

// extent is what a layer is made of: a number of blocks of a geometry.
type extent struct {
	geometry
	blocks uint64
}

// allLines returns the lines of all blocks.
func (e *extent) allLines() uint64 { return e.blocks * uint64(e.lines()) }

// room returns how many items the layer is made for.
func (e *extent) room() uint64 { return min(e.capacity(e.blocks), probe.MaxCapacity) }

// first returns the first layer for a capacity: as few blocks as can be, all of the fewest lines, see cut, unless whole blocks
// take hardly more. If one block is enough, it may be a short one, see short. The error wraps ErrConfig.
func (g *geometry) first(capacity uint64) (extent, error) {
	blocks, err := g.blocksFor(capacity)
	if err != nil {
		return extent{}, err
	}
	e := extent{*g, blocks}
	lines := leastCut + sort.Search(mostCut+1-leastCut, func(more int) bool {
		c, ok := g.cut(leastCut + more)
		return ok && c.capacity(blocks) >= capacity
	})
	if lines <= mostCut {
		e.geometry, _ = g.cut(lines)
	}
	if blocks > 1 {
		return e, nil
	}
	for s := range g.shorter {
		if s.capacity(1) < capacity {
			break
		}
		if s.lines() <= e.lines() {
			e.geometry = s
		}
	}
	return e, nil
}

// cut returns the geometry of blocks of a number of lines, fewer than a whole block has. All layers of a filter have such
// blocks, so that they may have any number of buckets. If these are too few, ok is false. Of such blocks only the lines are
// stored, so this must not change.
func (g *geometry) cut(lines int) (c geometry, ok bool) {
	n := uint32(g.family.Slots(lines)) / g.bucketSize
	if lines >= block.MaxLines || n < leastBuckets {
		return geometry{}, false
	}
	c = *g
	c.longest = lines
	c.setWhole(n)
	return c, true
}

// short returns the geometry of the largest short block that fits into a number of lines, and not into fewer. If there is none, ok
// is false. Of a short block only the lines are stored, so this must not change.
func (g *geometry) short(lines int) (s geometry, ok bool) {
	for s := range g.shorter {
		if n := s.lines(); n <= lines {
			return s, n == lines
		}
	}
	return geometry{}, false
}

// shorter yields the geometries of short blocks, the largest first. A short block has one n-th of the buckets of a whole one.
// Of those with equally many lines it is the largest.
func (g *geometry) shorter(yield func(geometry) bool) {
	s, lines := *g, block.MaxLines
	for parts := uint32(2); g.whole/parts >= leastBuckets; parts++ {
		if g.whole%parts != 0 {
			continue
		}
		s.buckets = g.whole / parts
		if n := s.lines(); n < lines {
			if lines = n; !yield(s) {
				return
			}
		}
	}
}

// lines returns the lines that a block takes.
func (g *geometry) lines() int {
	if g.buckets == g.whole {
		return g.longest
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
		need := math.Ceil(float64(capacity) / (float64(g.slots()) * g.load(blocks))) // infinite if the load is 0
		blocks = max(blocks+1, uint64(min(need, maxBlocks+1)))
	}
	if blocks > maxBlocks {
		return 0, fmt.Errorf("%w: capacity is %d, want at most %d for %v and bucket size %d",
			probe.ErrParams, capacity, g.capacity(maxBlocks), g.family, g.bucketSize)
	}
	return blocks, nil
}

// next returns the layer after one: expansion times as many blocks, a whole multiple, which deleting needs (blockOf). After a
// short block it is the fewest whole ones that have at least expansion times its buckets. The error wraps
// ErrCannotGrow.
func (e extent) next(expansion uint32) (extent, error) {
	if expansion == 0 || e.blocks > maxBlocks/uint64(expansion) {
		return extent{}, fmt.Errorf("%w: newest layer has %d blocks, expansion is %d, a layer has at most %d blocks",
			scalableext.ErrCannotGrow, e.blocks, expansion, uint64(maxBlocks))
	}
	parts := uint64(e.whole / e.buckets)
	e.buckets = e.whole
	e.blocks *= (uint64(expansion) + parts - 1) / parts
	return e, nil
}

// loadOf returns the load of a layer with a number of entries.
func (g *geometry) loadOf(blocks, entries uint64) float64 {
	return float64(entries) / (float64(blocks) * float64(g.slots()))
}

// bytes returns the size of the slots of a number of blocks.
func (g *geometry) bytes(blocks uint64) uint64 {
	return blocks * uint64(g.slots()) * uint64(g.width) / 8
}
