package probe

import (
	"math"
	"math/bits"
)

// FillRate computes the rate that a layer really has, from the words of its blocks. The formulas of this package give
// the mean over all sets of the same number of items; the rate of one layer differs from it by the luck of its items.
type FillRate struct {
	layout Layout
	sum    float64 // of the blocks' rates

	// powers[n] has the chances that all probes into a line with n set cells hit set cells: for the number of probes
	// that an item has in each of its last lines, and for one more.
	powers [lineBits + 1][2]float64
}

// NewFillRate begins with a layer without blocks.
func (l *Layout) NewFillRate() *FillRate {
	f := &FillRate{layout: *l}
	few := float64(l.Hashes / l.LinesPerItem)
	for n := range l.cell.perLine() + 1 {
		fill := float64(n) / float64(l.cell.perLine())
		f.powers[n] = [2]float64{math.Pow(fill, few), math.Pow(fill, few+1)}
	}
	return f
}

// Add adds a block of the layer. A block that is not added counts as empty.
func (f *FillRate) Add(words []uint64) { f.sum += f.block(words) }

// Rate returns the rate, 0 to 1, of the blocks that were added. Items is the number of items in the layer, for the
// chance that their hashes equal an absent item's.
func (f *FillRate) Rate(items float64) float64 {
	return min(1, f.sum/float64(f.layout.Blocks)+items/hashSpace)
}

// block returns the chance that an absent item of a block hits set cells only. That is the mean, over all ways to
// choose its lines, of the product of the chances in each. Chosen[m] has the sum over all ways to choose, among the lines
// gone through so far, different ones for the members of the set m of the item's lines.
func (f *FillRate) block(words []uint64) float64 {
	chosen, ways := [1 << MaxLinesPerItem]float64{1}, 1.0
	g := int(f.layout.LinesPerItem)
	for i := range int(f.layout.Lines) {
		powers := &f.powers[f.layout.cell.set((*Line)(words[i*lineWords:]))]
		for m := 1<<g - 1; m > 0; m-- { // a set before the sets that it is made of: each line is chosen once
			for j := range g {
				if m>>j&1 != 0 {
					chosen[m] += chosen[m&^(1<<j)] * powers[f.layout.more(j)]
				}
			}
		}
	}
	for j := range g {
		ways *= float64(int(f.layout.Lines) - j)
	}
	return chosen[1<<g-1] / ways
}

// more returns 1 if an item has a probe more in its line j than in its last one, else 0.
func (l *Layout) more(j int) int {
	if j < int(l.Hashes%l.LinesPerItem) {
		return 1
	}
	return 0
}

// set returns how many cells of a line are not 0.
func (c cell) set(line *Line) (n int) {
	for _, word := range line {
		if c == counterCell {
			word |= word >> 2
			word = (word | word>>1) & 0x1111_1111_1111_1111
		}
		n += bits.OnesCount64(word)
	}
	return n
}
