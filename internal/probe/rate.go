package probe

import "math"

// hashSpace is the number of hashes. A given item and another one have the same hash with a chance of 1/hashSpace.
const hashSpace = 1 << 64

// ExpectedRate returns the rate, 0 to 1, after a number of distinct items was added. It holds for layers of any size
// and includes the chance of equal hashes. The formula is in the package comment. A call takes 10 to 20 microseconds.
func (l *Layout) ExpectedRate(items uint64) float64 {
	if items == 0 {
		return 0
	}
	return l.expectedRate(float64(items))
}

// expectedRate is ExpectedRate for at least 1 item; the number need not be whole.
func (l *Layout) expectedRate(items float64) float64 {
	p := plan{hashes: int(l.Hashes), linesPerItem: int(l.LinesPerItem), cell: l.cell}
	return min(1, p.rate(items, float64(l.Blocks), float64(l.Lines))+items/hashSpace)
}

// rate returns the expected rate of a layer with the given number of items, at least 1. It does not count equal
// hashes.
//
// The loads of an item's lines are almost independent, and the rate is almost the product of the lines' own. What
// remains is the covariance c of the loads of two lines in one block. To first order it adds c times the product of
// the slopes. In a layer of many blocks c is positive, because some items add to both lines: this adds 0.3 % of the
// rate at 1e-4 and two lines, 2 % at 1e-6 and three. In a single block c is negative, because the number of items is
// fixed. There the first order can exceed the rate. So the exponential is used, which cannot; it is exact if every
// item more multiplies a line's rate by the same factor.
func (p plan) rate(items, blocks, lines float64) float64 {
	k, g := float64(p.hashes), float64(p.linesPerItem)
	load := lineLoad{items: items, chance: g / (blocks * lines), cells: float64(p.cell.perLine())}
	few := p.hashes / p.linesPerItem
	fewProbes, moreProbes := load.rates(k/g, few, few+1)
	var covariance float64
	if p.linesPerItem > 1 {
		covariance = items * load.chance * ((g-1)/(lines-1) - load.chance)
	}
	product, dependence, slopes := 1.0, 0.0, 0.0
	for j := range p.linesPerItem {
		line := fewProbes
		if j < p.hashes%p.linesPerItem {
			line = moreProbes
		}
		slope := line.slope / line.rate
		product *= line.rate
		dependence += covariance * slope * slopes
		slopes += slope
	}
	if dependence < 0 {
		return product * math.Exp(dependence)
	}
	return min(1, product*(1+dependence))
}

// lineLoad is the distribution of the number of items that use a given line. It is binomial. In a large layer that is
// as good as Poisson. In a layer of few lines it is narrower, and it has no spread at all if an item uses all lines.
type lineLoad struct {
	items  float64 // in the layer, at least 1
	chance float64 // the chance that an item uses the line, above 0 and at most 1
	cells  float64 // of the line
}

// lineRate is what a line contributes to the rate of a layer.
type lineRate struct {
	rate  float64 // chance that all probes of an absent item into the line hit set bits
	slope float64 // mean change of that chance with one item more in the line
}

// maxThrowsPerCell bounds the number of terms that lineLoad.rates adds up. With more throws for each cell of the line
// than that, the chance that a given cell is unset is below e^-64.
const maxThrowsPerCell = 64

// rates returns the contributions of a line, in which each of its items sets the given number of cells on average:
// once for an absent item that has few probes in it, and once for one that has more.
//
// The sum over loads starts at the most likely load, with weight 1, and walks outwards by the ratio of neighbouring
// terms. It is divided by the sum of the weights. That replaces factorials, whose logarithms have no digits left at
// 2^40 items. The slope is E[f(X+1)-f(X)] = E[f(X)(X-mean)]/variance, Stein's identity for Poisson.
func (d lineLoad) rates(throws float64, few, more int) (fewProbes, moreProbes lineRate) {
	mean := d.items * d.chance
	if mean*throws > maxThrowsPerCell*d.cells {
		return lineRate{rate: 1}, lineRate{rate: 1}
	}
	if d.chance == 1 {
		fill := fillAfter(mean*throws, d.cells)
		return lineRate{rate: fill.allSet(few)}, lineRate{rate: fill.allSet(more)}
	}
	s := loadSum{mean: mean, throws: throws, cells: d.cells, few: few, more: more}
	odds := d.chance / (1 - d.chance)
	mode := math.Floor((d.items + 1) * d.chance)
	for i, w := mode, 1.0; s.add(i, w); i++ {
		w *= (d.items - i) / (i + 1) * odds
	}
	for i, w := mode-1, mode/((d.items-mode+1)*odds); i >= 0 && s.add(i, w); i-- {
		w *= i / ((d.items - i + 1) * odds)
	}
	return s.result(mean * (1 - d.chance))
}

// loadSum adds up the terms of lineLoad.rates.
type loadSum struct {
	mean, throws, cells float64
	few, more           int

	weight              float64
	fewSum, moreSum     float64
	fewSlope, moreSlope float64
}

// add adds the term for load i, and reports true if that mattered. If neither the term's weight nor what it adds to
// the sums matters, terms further out can be left out too, since they fall at least geometrically.
func (s *loadSum) add(i, w float64) bool {
	if w == 0 || w < 1e-15*s.weight && w < 1e-10*s.moreSum {
		return false
	}
	fill := fillAfter(i*s.throws, s.cells)
	few, more := w*fill.allSet(s.few), w*fill.allSet(s.more)
	s.weight += w
	s.fewSum += few
	s.moreSum += more
	s.fewSlope += few * (i - s.mean)
	s.moreSlope += more * (i - s.mean)
	return true
}

func (s *loadSum) result(variance float64) (fewProbes, moreProbes lineRate) {
	return lineRate{rate: s.fewSum / s.weight, slope: s.fewSlope / s.weight / variance},
		lineRate{rate: s.moreSum / s.weight, slope: s.moreSlope / s.weight / variance}
}

// lineFill is the fraction of a line's cells that are set.
type lineFill struct {
	mean, variance float64
}

// fillAfter returns the fill of a line of b cells after a number of independent throws, which need not be whole.
func fillAfter(throws, b float64) lineFill {
	unset := math.Exp(throws * math.Log1p(-1/b))
	bothUnset := math.Exp(throws * math.Log1p(-2/b))
	return lineFill{
		mean:     1 - unset,
		variance: max(0, unset/b+bothUnset*(1-1/b)-unset*unset),
	}
}

// allSet returns the chance that k independent probes all hit set cells, to second order around the mean.
func (f lineFill) allSet(k int) float64 {
	if f.mean == 0 {
		return 0
	}
	n := float64(k)
	return min(1, math.Pow(f.mean, n)*(1+n*(n-1)/2*f.variance/(f.mean*f.mean)))
}
