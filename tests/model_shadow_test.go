package tests_test

import (
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/scalableext"
)

const modelSeed = 42

var modelHash = hash.NewKeyed(hash.SecretOf(modelSeed))

// shadow is a Bloom filter beside the store: the same hashes and growth over plain memory, so that it has the same
// false positives, and every reply can be foretold.
type shadow struct {
	params scalableext.Params
	layers []*shadowLayer // oldest first
}

type shadowLayer struct {
	layout          probe.Layout
	bits            map[uint64]bool // by block<<16 | position
	rate            float64
	items, capacity uint64
	estimated       bool // items is an estimate
}

func newShadow(capacity uint64, rate float64, expansion uint32) *shadow {
	s := &shadow{params: scalableext.Params{
		Capacity: capacity, ErrorRate: min(rate, 0.25), Expansion: expansion, Hash: modelHash,
	}}
	if !s.grow() {
		panic("a filter without a layer")
	}
	return s
}

func (s *shadow) grow() bool {
	capacity, rate, err := s.params.Layer(len(s.layers))
	if err != nil {
		return false
	}
	layout, err := probe.Size(capacity, rate)
	if err != nil {
		return false
	}
	s.layers = append(s.layers, &shadowLayer{
		layout: layout, bits: make(map[uint64]bool), rate: rate, capacity: capacity,
	})
	return true
}

// bitsOf returns the bits of an item in a layer.
func (l *shadowLayer) bitsOf(hash uint64) []uint64 {
	blk, _ := l.layout.Block(hash)
	var list []uint64
	for _, p := range l.layout.AppendPositions(nil, hash) {
		list = append(list, blk<<16|uint64(p))
	}
	return list
}

func (s *shadow) has(item string) bool {
	hash := modelHash.Sum([]byte(item))
	return slices.ContainsFunc(s.layers, func(l *shadowLayer) bool {
		return !slices.ContainsFunc(l.bitsOf(hash), func(bit uint64) bool { return !l.bits[bit] })
	})
}

// add returns what BF.ADD answers.
func (s *shadow) add(item string) reply.Reply {
	if s.has(item) {
		return reply.Bool(false)
	}
	newest := s.layers[len(s.layers)-1]
	if newest.items >= newest.capacity || uint64(len(newest.bits)) >= newest.layout.FullSet(newest.capacity) {
		if s.params.Expansion == 0 {
			return reply.Error("ERR non scaling filter is full")
		}
		if !s.grow() {
			return reply.Error("ERR problem inserting into filter")
		}
		newest = s.layers[len(s.layers)-1]
	}
	for _, bit := range newest.bitsOf(modelHash.Sum([]byte(item))) {
		newest.bits[bit] = true
	}
	newest.items++
	return reply.Bool(true)
}

func (s *shadow) items() (n uint64) {
	for _, l := range s.layers {
		n += l.items
	}
	return n
}

func (s *shadow) copy() *shadow {
	c := &shadow{params: s.params}
	for _, l := range s.layers {
		own := *l
		own.bits = maps.Clone(l.bits)
		c.layers = append(c.layers, &own)
	}
	return c
}

// unite returns the union of filters, given with their names, or what BF.MERGE answers instead.
func unite(names []string, parts []*shadow) (*shadow, reply.Reply) {
	longest := parts[0]
	for i, p := range parts[1:] {
		if what, have, other := parts[0].differs(p); what != "" {
			return nil, reply.Errorf("ERR filters differ, and cannot be merged: %s of %q is %v, of %q %v",
				what, names[0], have, names[i+1], other)
		}
		if len(p.layers) > len(longest.layers) {
			longest = p
		}
	}
	union := longest.copy()
	for i, l := range union.layers {
		for _, p := range parts {
			if i < len(p.layers) {
				maps.Copy(l.bits, p.layers[i].bits)
			}
		}
		same := slices.IndexFunc(parts, func(p *shadow) bool { return i < len(p.layers) && len(p.layers[i].bits) == len(l.bits) })
		if same >= 0 { // its counts hold
			l.items, l.estimated = parts[same].layers[i].items, parts[same].layers[i].estimated
			continue
		}
		l.items, l.estimated = l.distinct(), true
		if rate := unionRate(&l.layout, maps.Keys(l.bits), 1); rate > l.rate {
			return nil, reply.Errorf(
				"ERR the union would exceed the error rate: layer %d would have %.3g, is made for %.3g",
				i, rate, l.rate)
		}
	}
	return union, reply.OK
}

// unionRate returns the rate by which a union is refused: the higher one of those by the number of cells that are set and
// by their places, given by block<<16 | position. Cells have a width in bits.
func unionRate(l *probe.Layout, set iter.Seq[uint64], width int) float64 {
	blocks, n := make(map[uint64][]uint64), uint64(0)
	for at := range set {
		words := blocks[at>>16]
		if words == nil {
			words = make([]uint64, l.BlockWords())
			blocks[at>>16] = words
		}
		bit := int(at&0xffff) * width
		words[bit/64] |= 1 << (bit % 64)
		n++
	}
	places := l.NewFillRate()
	for _, blk := range slices.Sorted(maps.Keys(blocks)) {
		places.Add(blocks[blk])
	}
	return max(l.SetRate(n), places.Rate(l.DistinctItems(n)))
}

// differs names the first parameter that two filters do not share, with both values.
func (s *shadow) differs(other *shadow) (what string, have, others any) {
	p, q := s.params, other.params
	switch {
	case p.Capacity != q.Capacity:
		return "capacity", p.Capacity, q.Capacity
	case p.ErrorRate != q.ErrorRate:
		return "error rate", p.ErrorRate, q.ErrorRate
	case p.Expansion != q.Expansion:
		return "expansion", p.Expansion, q.Expansion
	}
	return "", nil, nil
}

// distinct estimates the number of items by how many bits they have set. Each of an item's lines has 512 bits, and kj
// throws leave (1-1/512)^kj of them alone: so an item sets a share of all bits, and n of them leave (1-share)^n alone.
func (l *shadowLayer) distinct() uint64 {
	m, k, g := float64(l.layout.Bits()), int(l.layout.Hashes), int(l.layout.LinesPerItem)
	set := 0.0
	for j := range g {
		set += 512 * (1 - math.Pow(511./512, float64((k+g-1-j)/g)))
	}
	return uint64(math.Round(math.Log(1-min(float64(len(l.bits)), m-1)/m) / math.Log1p(-set/m)))
}

// addAll returns what BF.MADD answers.
func addAll(s *shadow, items []string) reply.Reply {
	var list []reply.Reply
	for _, item := range items {
		r := s.add(item)
		list = append(list, r)
		if r.IsError() && s.params.Expansion == 0 {
			break
		}
	}
	return reply.Array(list...)
}
