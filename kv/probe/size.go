package probe

import (
	"fmt"
	"math"
	"sync/atomic"
)

const (
	maxRate     = 0.25 // higher rates are lowered to it, as RedisBloom does
	oneLineRate = 5e-3 // from here up an item has one line
	twoLineRate = 1e-6 // above this it has two lines, else three
)

// What is aimed at, as a share of the rate asked for. The expected rate is the mean over filters, and single ones
// differ from it: by 3 % (standard deviation) for 10,000 items at 1 %, by 12 % at 1e-6, and a tenth as much for a
// hundred times the items.
const (
	rateMargin    = 0.97
	lowRateMargin = 0.90 // at twoLineRate and below
)

// Size returns the layout of a layer for capacity distinct items, 1 to MaxCapacity, whose expected rate when it is full
// (FullRate) is at most the one given. Rates above 0.25 are lowered to that.
//
// The rate must be below 1, and not so low that equal 64-bit hashes alone make up half of it: the lower limit is
// 1.2e-19 per item of the capacity, 1.2e-11 for 1e8 items.
func Size(capacity uint64, rate float64) (Layout, error) { return size(bitCell, capacity, rate) }

// SizeCounters is Size for a layer of counters, of which an item has one where it has a bit otherwise.
func SizeCounters(capacity uint64, rate float64) (Layout, error) {
	return size(counterCell, capacity, rate)
}

func size(c cell, capacity uint64, rate float64) (Layout, error) {
	if capacity < 1 || capacity > MaxCapacity {
		return Layout{}, fmt.Errorf("%w: capacity is %d, want 1 to %d", ErrParams, capacity, uint64(MaxCapacity))
	}
	lowest := 2 / lowRateMargin * float64(capacity) / hashSpace
	if !(rate >= lowest && rate < 1) { // NaN is refused as well
		return Layout{}, fmt.Errorf("%w: error rate is %v, want at least %.2g (for a capacity of %d) and below 1",
			ErrParams, rate, lowest, capacity)
	}
	return layouts.get(request{cell: c, capacity: capacity, rate: min(rate, maxRate)}, request.layout), nil
}

// request is what is asked of a layer.
type request struct {
	cell     cell
	capacity uint64
	rate     float64
}

func (r request) hash() uint64 {
	return word(r.capacity, 0) ^ word(math.Float64bits(r.rate), 1) ^ uint64(r.cell)
}

// layout begins with the size that suits a large layer, and is done at once but for some small capacities: where fewer
// lines than lines per item or the remainder of a division make the loads less even, and at high rates, where up to
// some ten thousand items the margin is less than what a full layer may have beyond its capacity.
func (r request) layout() Layout {
	p := plans.get(r.goal(), goal.plan)
	needed := float64(r.capacity) * p.cellsPerItem / float64(r.cell.perLine())
	for lines := uint64(math.Ceil(needed)); ; lines += 1 + lines/1024 {
		if l := p.spread(lines); l.FullRate(r.capacity) <= r.rate {
			return l
		}
	}
}

func (r request) goal() goal {
	g := goal{cell: r.cell, linesPerItem: 3, rate: r.rate * lowRateMargin}
	switch {
	case r.rate >= oneLineRate:
		g.linesPerItem, g.rate = 1, r.rate*rateMargin
	case r.rate > twoLineRate:
		g.linesPerItem, g.rate = 2, r.rate*rateMargin
	}
	if r.cell == counterCell {
		g.linesPerItem = counterLines(r.rate >= oneLineRate)
	}
	// A small share of equal hashes is left to the margin, so that most capacities have the same goal.
	if equal := float64(r.capacity) / hashSpace; equal > r.rate/200 {
		g.rate -= equal
	}
	return g
}

// goal is a rate for a large layer to have, equal hashes not counted.
type goal struct {
	rate         float64
	linesPerItem int
	cell         cell
}

// counterLines returns the lines per item of counters, for high rates or low ones. A line has only 128 counters, whose
// loads are less even: at 1 %, one line needs 10.9 counters per item, two 9.8, three 9.7 and a classic filter 9.6; at
// 1e-4 they are 30.9, 21.7, 20.2 and 19.2.
func counterLines(highRate bool) int {
	if highRate {
		return 2
	}
	return 3
}

func (g goal) hash() uint64 { return word(math.Float64bits(g.rate), g.linesPerItem) ^ uint64(g.cell) }

// plan is how a goal is reached.
type plan struct {
	hashes       int
	linesPerItem int
	cell         cell
	cellsPerItem float64 // in a large layer
}

// plan finds the number of hashes that needs the fewest cells. It begins with that of a classic filter, log2(1/rate),
// and walks as long as it gets better; the best is never far.
func (g goal) plan() plan {
	best := g.planWith(min(max(g.linesPerItem, int(math.Round(-math.Log2(g.rate)))), MaxHashes))
	for _, direction := range []int{-1, 1} {
		for k := best.hashes + direction; k >= g.linesPerItem && k <= MaxHashes; k += direction {
			p := g.planWith(k)
			if p.cellsPerItem >= best.cellsPerItem {
				break
			}
			best = p
		}
	}
	return best
}

// planWith bisects the cells per item for k hashes between k, where the rate is above 0.6^k, and 16k. The best number
// of hashes has a rate of about 0.5^k; one for which 16k cells are too few is given infinitely many.
func (g goal) planWith(k int) plan {
	p := plan{hashes: k, linesPerItem: g.linesPerItem, cell: g.cell}
	low, high := float64(k), 16*float64(k)
	for range 24 {
		p.cellsPerItem = (low + high) / 2
		if p.rate(MaxCapacity, MaxCapacity*p.cellsPerItem/float64(MaxLines*g.cell.perLine()), MaxLines) > g.rate {
			low = p.cellsPerItem
		} else {
			high = p.cellsPerItem
		}
	}
	p.cellsPerItem = high
	if high == 16*float64(k) {
		p.cellsPerItem = math.Inf(1)
	}
	return p
}

// spread divides lines into as few blocks as possible, all of one size: a layer slightly larger than a block becomes
// two of half the size rather than two of full size. Where a block has fewer lines than an item should use, the item
// uses all of them: their loads are then equal, which beats the choice of one.
func (p plan) spread(lines uint64) Layout {
	blocks := (lines + MaxLines - 1) / MaxLines
	perBlock := (lines + blocks - 1) / blocks
	return makeLayout(p.cell, blocks, perBlock, uint64(p.hashes), min(uint64(p.linesPerItem), perBlock))
}

// A plan takes a millisecond and a layout 20 microseconds; a store of a million small filters asks for the same few
// over and over.
var (
	plans   memo[goal, plan]
	layouts memo[request, Layout]
)

// memo remembers results of a pure function, one for each value of the low bits of the key's hash. Any number of
// goroutines may use it.
type memo[K memoKey, V any] struct {
	slots [256]atomic.Pointer[memoEntry[K, V]]
}

type memoKey interface {
	comparable
	hash() uint64
}

type memoEntry[K memoKey, V any] struct {
	key   K
	value V
}

func (m *memo[K, V]) get(key K, compute func(K) V) V {
	slot := &m.slots[key.hash()%uint64(len(m.slots))]
	if e := slot.Load(); e != nil && e.key == key {
		return e.value
	}
	value := compute(key)
	slot.Store(&memoEntry[K, V]{key, value})
	return value
}
