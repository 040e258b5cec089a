// Package radix sorts numbers.
package radix

import "slices"

const (
	digit = 8   // bits
	few   = 128 // numbers below which another sort is faster
)

// Sort sorts keys in ascending order. Keys that differ in their lowest bits alone, the given number of them, must be in
// order already. Spare is memory that Sort may use, and other such memory for the next call: sorted is in keys or in spare.
func Sort(keys, spare []uint64, lowest int) (sorted, other []uint64) {
	if len(keys) < few {
		slices.Sort(keys)
		return keys, spare
	}
	differ := uint64(0) // bits in which not all keys are equal
	for _, key := range keys {
		differ |= key ^ keys[0]
	}
	spare = slices.Grow(spare[:0], len(keys))[:len(keys)]
	// A stable sort by each digit, the lowest first.
	for shift := lowest; differ>>shift != 0; shift += digit {
		if differ>>shift&(1<<digit-1) == 0 {
			continue
		}
		var next [1 << digit]int // where the next key with a digit goes
		for _, key := range keys {
			next[key>>shift&(1<<digit-1)]++
		}
		sum := 0
		for i, n := range next {
			next[i], sum = sum, sum+n
		}
		for _, key := range keys {
			d := key >> shift & (1<<digit - 1)
			spare[next[d]] = key
			next[d]++
		}
		keys, spare = spare, keys
	}
	return keys, spare
}
