package probe

import "math"

// ExpectedSet returns the mean and an upper estimate of the standard deviation of the
// set bits, or counters above 0, after a number of random items: m(1 - (1-1/m)^(kn))
// for k*n throws into m cells. The throws of an item crowd into its lines, which makes
// the mean a little less and the deviation more; both are allowed for.
func (l *Layout) ExpectedSet(items float64) (mean, deviation float64) {
	m := float64(l.Cells())
	throws := items * float64(l.Hashes)
	mean = m * -math.Expm1(throws*math.Log1p(-1/m))
	perLine := float64(l.Hashes) / float64(l.LinesPerItem)
	crowding := throws * perLine / (2 * float64(l.cell.perLine())) // cells an item's probes share in a line
	return mean - crowding/2, crowding/2 + math.Sqrt(mean*perLine)
}

// DistinctItems estimates how many random items set a number of cells: the inverse
// of ExpectedSet, found by bisection below a bound that leaves crowding aside,
// n = -m/k ln(1 - set/m) (Swamidass and Baldi 2007), and allows for it.
func (l *Layout) DistinctItems(set uint64) float64 {
	m := float64(l.Cells())
	if float64(set) >= m {
		set = uint64(m) - 1 // a layer without a zero tells nothing but "many"
	}
	low, high := 0.0, -1.1*m/float64(l.Hashes)*math.Log1p(-float64(set)/m)
	for range 60 {
		n := (low + high) / 2
		if mean, _ := l.ExpectedSet(n); mean < float64(set) {
			low = n
		} else {
			high = n
		}
	}
	return high
}
