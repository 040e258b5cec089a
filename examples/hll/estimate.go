package main

import (
	"math"
	"math/bits"
)

// A counter has 2^12 registers, each a bitmap of 64 bits (PCSA: Flajolet and Martin, "Probabilistic Counting
// Algorithms for Data Base Applications", 1985). The hash of an item picks a register and sets bit i of it with
// probability 2^-(i+1). Bits are only ever set, so that adding twice changes nothing, and the counter of a union is
// the union of the bits.
const (
	registerBits = 12
	numRegisters = 1 << registerBits
	maxRank      = 64 - registerBits // the highest bit of a register that is used

	// standardError is the relative standard error of the estimate: 1.04/sqrt(2^12).
	standardError = 1.04 / 64
)

// place returns the register of a hash and the bit it sets there.
func place(hash uint64) (register uint64, rank int) {
	return hash % numRegisters, bits.TrailingZeros64(hash>>registerBits | 1<<maxRank)
}

// estimate returns about how many different items set the bits of the registers, by the highest bit of each:
// HyperLogLog, with linear counting for few items (Flajolet, Fusy, Gandouet and Meunier, "HyperLogLog: the analysis
// of a near-optimal cardinality estimation algorithm", 2007). Where the two meet, at 2.5 items a register, it is too
// high, by up to 2 % (measured in 400 runs; below 0.3 % up to 2 and from 4 items a register). Heule, Nunkesser and
// Hall, "HyperLogLog in Practice", 2013, correct that by tables, Ertl, "New cardinality estimation algorithms for
// HyperLogLog sketches", 2017, by another formula.
func estimate(registers []uint64) float64 {
	m := float64(len(registers))
	alpha := 0.7213 / (1 + 1.079/m)
	sum, empty := 0.0, 0
	for _, r := range registers {
		sum += math.Ldexp(1, -bits.Len64(r))
		if r == 0 {
			empty++
		}
	}
	raw := alpha * m * m / sum
	if raw <= 2.5*m && empty > 0 {
		return m * math.Log(m/float64(empty))
	}
	return raw
}
