package probe

import "math"

// fullDeviations is by how many standard deviations the cells set in a full layer are above their mean. That few of
// 3,000,000 layers are full before they were given their capacity of distinct items.
const fullDeviations = 5

// ExpectedSet returns the mean and the standard deviation of the number of set bits, or of counters above 0, after a
// number of random items. Both are exact for uniform hashes.
//
// With c cells, let a be the chance that an item sets a given one. Items are independent, so that after n of them it is
// unset with the chance (1-a)^n, and the mean is c(1-(1-a)^n): for a layer of one line and k probes that is the classic
// c(1-(1-1/c)^kn). The variance is the sum, over all pairs of cells, of the chance that both are unset less the square of
// the former. With b for the chance that an item sets both, which depends on whether they are in one line, one block or
// two, that is (1-2a+b)^n - (1-a)^2n.
func (l *Layout) ExpectedSet(items float64) (mean, deviation float64) {
	s := l.sets()
	unset := items * math.Log1p(-s.one) // logarithm of the chance for a given cell
	p := math.Exp(unset)
	excess := func(pairs, both float64) float64 {
		if pairs == 0 {
			return 0
		}
		return pairs * p * p * math.Expm1(items*math.Log1p((both-s.one*s.one)/((1-s.one)*(1-s.one))))
	}
	perBlock := s.perLine * s.lines
	variance := s.cells*p*(1-p) + excess(s.cells*(s.perLine-1), s.sameLine) +
		excess(s.cells*(perBlock-s.perLine), s.sameBlock) + excess(s.cells*(s.cells-perBlock), 0)
	return s.cells * -math.Expm1(unset), math.Sqrt(max(0, variance))
}

// DistinctItems estimates how many random items set a number of cells: the inverse of the mean of ExpectedSet (for one
// line that of Swamidass and Baldi, 2007). Of a layer without an unset cell it is the estimate for one that has one
// left, as nothing but "many" can be told.
//
// The estimate's standard error is the deviation of ExpectedSet divided by the mean change of the set cells with one
// item more: 1.4 % for 1,000 items at a rate of 0.25, 0.8 % at 0.01, and a tenth as much for a hundred times the items.
func (l *Layout) DistinctItems(set uint64) float64 {
	s := l.sets()
	share := min(float64(set), s.cells-1) / s.cells
	return math.Log1p(-share) / math.Log1p(-s.one)
}

// SetRate returns the chance, 0 to 1, that an item never added tests as present in a layer with a number of set bits, or
// counters above 0: that which ExpectedRate returns for as many random items as set so many.
func (l *Layout) SetRate(set uint64) float64 {
	switch {
	case set == 0:
		return 0
	case set >= l.Cells():
		return 1
	}
	return l.expectedRate(max(1, l.DistinctItems(set)))
}

// FullSet returns how many set bits, or counters above 0, make a layer full: five standard deviations more than are
// expected of as many distinct items as it has capacity, so that those have room. (A count of the items that were new
// does not tell when a layer is full. An item that sets no bit is not counted, and at high rates there are many.)
func (l *Layout) FullSet(capacity uint64) uint64 {
	mean, deviation := l.ExpectedSet(float64(capacity))
	return uint64(math.Ceil(mean + fullDeviations*deviation))
}

// FullRate returns the expected rate of a layer that was given distinct items until it was full: until as many were new
// as it has capacity, or FullSet(capacity) cells were set.
func (l *Layout) FullRate(capacity uint64) float64 {
	most := min(l.TriedItems(capacity), l.DistinctItems(l.FullSet(capacity)))
	return l.expectedRate(max(float64(capacity), most))
}

// TriedItems returns how many distinct items are expected to be added until so many were new, at least as many: the
// others seemed known and set nothing. It is infinite for more than ever seem new.
func (l *Layout) TriedItems(added uint64) float64 {
	n := float64(added)
	for range 8 {
		// An item seems known with the chance that the rate is at the time. Simpson's rule is exact for a cubic and a
		// few percent too high for low rates, which are higher powers of the number of items.
		rate := l.expectedRate(max(1, n))
		if rate == 1 {
			return math.Inf(1)
		}
		known := n * (4*l.expectedRate(max(1, n/2)) + rate) / 6
		step := (float64(added) + known - n) / (1 - rate) // Newton's
		n += step
		if !(math.Abs(step) > 1e-4*n) {
			break
		}
	}
	return n
}

// sets says with what chances an item sets cells.
type sets struct {
	cells, perLine, lines float64 // of the layer, of a line; lines of a block

	one       float64 // a given cell
	sameLine  float64 // both of two given ones, in one line
	sameBlock float64 // in two lines of a block
}

func (l *Layout) sets() sets {
	b := float64(l.cell.perLine())
	s := sets{cells: float64(l.Cells()), perLine: b, lines: float64(l.Lines)}
	all := s.cells / b // lines of the layer
	few, g := l.Hashes/l.LinesPerItem, l.LinesPerItem
	sum, squares := 0.0, 0.0
	for j := range g {
		k := float64(few)
		if j < l.Hashes%g {
			k++
		}
		hit := -math.Expm1(k * math.Log1p(-1/b)) // the chance that one of k probes hits a given cell of their line
		// Of two cells: 1 - 2(1-1/b)^k + (1-2/b)^k, without the loss of digits.
		both := hit*hit - math.Exp(k*math.Log1p(-2/b))*math.Expm1(k*math.Log1p(1/(b*(b-2))))
		sum += hit
		squares += hit * hit
		s.sameLine += both / all
	}
	s.one = sum / all
	if l.Lines > 1 {
		s.sameBlock = (sum*sum - squares) / (s.lines - 1) / all
	}
	return s
}
