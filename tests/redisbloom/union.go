package redisbloom

import (
	"fmt"
	"math"
	"math/bits"
)

// RedisBloom has no BF.MERGE. This file foretells sievekv's, for filters with RedisBloom's layout.

// Differs names the first parameter that two filters do not share, with both values, if they cannot be united.
func (b *Bloom) Differs(other *Bloom) (what string, have, others any) {
	p, q := b.filters[0], other.filters[0]
	rate := func(b *Bloom) float64 {
		if b.options&optNonScaling != 0 {
			return b.filters[0].rate
		}
		return b.filters[0].rate / tightening
	}
	expansion := func(b *Bloom) uint32 {
		if b.options&optNonScaling != 0 {
			return 0
		}
		return b.expansion
	}
	switch {
	case p.capacity != q.capacity:
		return "capacity", p.capacity, q.capacity
	case rate(b) != rate(other):
		return "error rate", rate(b), rate(other)
	case expansion(b) != expansion(other):
		return "expansion", expansion(b), expansion(other)
	case b.expansion != other.expansion:
		return "layout of layer 0", b.shape(), other.shape()
	}
	return "", nil, nil
}

func (b *Bloom) shape() string {
	f := b.filters[0]
	return fmt.Sprintf("%d bits with %d hashes, for %d items at %g, expansion %d, options %d", f.bits, f.hashes, f.capacity, f.rate, b.expansion, b.options)
}

// Unite returns the union of filters that do not differ: each sub-filter has the bits of all. Its number of items is
// the number of a filter with as many bits set, or else an estimate. The error says that the rate would be too high.
func Unite(filters ...*Bloom) (*Bloom, error) {
	longest := filters[0]
	for _, f := range filters {
		if len(f.filters) > len(longest.filters) {
			longest = f
		}
	}
	union := longest.Clone()
	union.items = 0
	for i, to := range union.filters {
		var equal *bloomFilter
		for _, f := range filters {
			if i < len(f.filters) {
				for j, b := range f.filters[i].array {
					to.array[j] |= b
				}
			}
		}
		for _, f := range filters {
			if i < len(f.filters) && equal == nil && f.filters[i].ones() == to.ones() {
				equal = f.filters[i]
			}
		}
		if equal != nil {
			to.items, to.estimated = equal.items, equal.estimated
		} else {
			to.items, to.estimated = to.distinct(), true
			rate := math.Pow(float64(to.ones())/float64(to.bits), float64(to.hashes))
			if rate > to.rate {
				return nil, Error(fmt.Sprintf("ERR the union would exceed the error rate: layer %d would have %.3g, is made for %.3g", i, rate, to.rate))
			}
		}
		union.items += to.items
	}
	return union, nil
}

func (f *bloomFilter) ones() (n uint64) {
	for _, b := range f.array {
		n += uint64(bits.OnesCount8(b))
	}
	return n
}

// distinct estimates how many items set as many bits.
func (f *bloomFilter) distinct() uint64 {
	n := float64(f.bits)
	return uint64(math.Round(-n / float64(f.hashes) * math.Log1p(-min(float64(f.ones()), n-0.5)/n)))
}
