package probe

import (
	"fmt"
	"math"
	"sync/atomic"
)

const (
	maxRate     = 0.25 // higher rates are lowered to this one, as RedisBloom does
	oneLineRate = 5e-3 // from here up an item has one line
	twoLineRate = 1e-6 // above this an item has two lines, else three
)

// Size aims at this share of the rate asked for. The expected rate is a mean over filters, and single filters differ
// from it: by 3 % (standard deviation) for 10,000 items at 1 %, by 12 % at 1e-6, and by a tenth of that for a hundred
// times the items.
const (
	rateMargin    = 0.97
	lowRateMargin = 0.90 // at twoLineRate and below
)

// Size returns the layout of a layer for capacity distinct items, 1 to MaxCapacity, whose expected rate when it is
// full (FullRate) is at most the given one. Rates above 0.25 are lowered to that.
//
// The rate must be below 1, and not below LowestRate.
func Size(capacity uint64, rate float64) (Layout, error) { return size(bitCell, capacity, rate) }

// SizeCounters is Size for a layer of counters, in which an item has counters in place of bits.
func SizeCounters(capacity uint64, rate float64) (Layout, error) {
	return size(counterCell, capacity, rate)
}

func size(c cell, capacity uint64, rate float64) (Layout, error) {
	if capacity < 1 || capacity > MaxCapacity {
		return Layout{}, fmt.Errorf("%w: capacity is %d, want 1 to %d", ErrParams, capacity, uint64(MaxCapacity))
	}
	lowest := LowestRate(capacity)
	if !(rate >= lowest && rate < 1) { // NaN is refused as well
		return Layout{}, fmt.Errorf("%w: error rate is %v, want at least %s (for a capacity of %d) and below 1",
			ErrParams, rate, LowestText(lowest), capacity)
	}
	return layouts.get(request{cell: c, capacity: capacity, rate: min(rate, maxRate)}, request.layout), nil
}

// LowestRate returns the lowest error rate that a layer for capacity items can have. Below it, equal 64-bit hashes
// alone would make up more than half of the rate. It is 1.2e-19 per item of the capacity, 1.2e-11 for 1e8 items.
func LowestRate(capacity uint64) float64 { return 2 / lowRateMargin * float64(capacity) / hashSpace }

// LowestText returns the lowest rate that is allowed, for an error. It rounds up, so that the rate in the text is
// allowed.
func LowestText(rate float64) string {
	unit := math.Pow(10, math.Floor(math.Log10(rate))-2)
	return fmt.Sprintf("%.3g", math.Ceil(rate/unit)*unit)
}

// request is what Size is asked for.
type request struct {
	cell     cell
	capacity uint64
	rate     float64
}

func (r request) hash() uint64 {
	return word(r.capacity, 0) ^ word(math.Float64bits(r.rate), 1) ^ uint64(r.cell)
}

// layout begins with the number of lines that suits a large layer, and adds lines until FullRate is low enough. Lines
// are added only for some small capacities: where an item has fewer lines than it should, or where the remainder of a
// division makes the loads less even. At high rates, up to some ten thousand items, a full layer can exceed its
// capacity by more than the margin allows for.
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
	// If the share of equal hashes is small, the margin covers it, so that most capacities have the same goal.
	if equal := float64(r.capacity) / hashSpace; equal > r.rate/200 {
		g.rate -= equal
	}
	return g
}

// goal is the rate for a large layer, without equal hashes.
type goal struct {
	rate         float64
	linesPerItem int
	cell         cell
}

// counterLines returns the lines per item of counters, for high rates or for low ones. A line has only 128 counters,
// so the loads of lines are less even. At 1 %, one line needs 10.9 counters per item, two 9.8, three 9.7 and a
// classic filter 9.6. At 1e-4 the numbers are 30.9, 21.7, 20.2 and 19.2.
func counterLines(highRate bool) int {
	if highRate {
		return 2
	}
	return 3
}

func (g goal) hash() uint64 { return word(math.Float64bits(g.rate), g.linesPerItem) ^ uint64(g.cell) }

// plan is how a layer reaches a goal.
type plan struct {
	hashes       int
	linesPerItem int
	cell         cell
	cellsPerItem float64 // in a large layer
}

// plan finds the number of hashes that needs the fewest cells. It begins with a classic filter's number, log2(1/rate),
// and goes up and down from there as long as that helps. The best number is never far.
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

// planWith finds the cells per item for k hashes by bisection, between k, where the rate is above 0.6^k, and 16k. The
// best number of hashes has a rate of about 0.5^k. If 16k cells are too few, planWith returns infinitely many.
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

// spread divides lines into as few blocks as possible, all of one size. So a layer slightly larger than a block
// becomes two blocks of half the size, not two of full size. If a block has fewer lines than an item should use, the
// item uses all of them. Their loads are then equal, which beats a choice of one.
func (p plan) spread(lines uint64) Layout {
	blocks := (lines + MaxLines - 1) / MaxLines
	perBlock := (lines + blocks - 1) / blocks
	return makeLayout(p.cell, blocks, perBlock, uint64(p.hashes), min(uint64(p.linesPerItem), perBlock))
}

// Results are remembered because a plan takes a millisecond and a layout 20 microseconds, and a store of a million
// small filters asks for the same few again and again.
var (
	plans   memo[goal, plan]
	layouts memo[request, Layout]
)

// memo remembers results of a pure function: for each value of the low bits of a key's hash, the last one. Any number
// of goroutines may use it.
type memo[K memoKey, V any] struct {
	entries [256]atomic.Pointer[memoEntry[K, V]]
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
	last := &m.entries[key.hash()%uint64(len(m.entries))]
	if e := last.Load(); e != nil && e.key == key {
		return e.value
	}
	value := compute(key)
	last.Store(&memoEntry[K, V]{key, value})
	return value
}
