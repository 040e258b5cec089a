package probe

// PlanBits returns the bits per item that a large layer needs for exactly the given rate with k hashes, or with the
// best number of hashes if k is 0, and that number.
func PlanBits(rate float64, linesPerItem, k int) (bitsPerItem float64, hashes int) {
	return planCells(bitCell, rate, linesPerItem, k)
}

// PlanCounters is PlanBits for counters.
func PlanCounters(rate float64, linesPerItem, k int) (countersPerItem float64, hashes int) {
	return planCells(counterCell, rate, linesPerItem, k)
}

func planCells(c cell, rate float64, linesPerItem, k int) (cellsPerItem float64, hashes int) {
	g := goal{rate: rate, linesPerItem: linesPerItem, cell: c}
	p := g.plan()
	if k != 0 {
		p = g.planWith(k)
	}
	return p.cellsPerItem, p.hashes
}

// AppendDraws appends the position of each probe of an item in the order they are drawn.
func AppendDraws(dst []uint16, l *Layout, h uint64) []uint16 { return l.AppendProbes(dst, h) }

// Multipliers returns the multipliers of the derived words.
func Multipliers() [maxSteps]uint64 { return multipliers }
