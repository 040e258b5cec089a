package storage

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/format"
)

// slotIndex has the values that pending commits give slots of blocks, by block. Later values of a slot count.
type slotIndex struct {
	blocks []pendingBlock
	slots  []pendingSlot
	last   []int32 // of each bucket of blocks, the last block, counted from 1; 0 for none. Nil while there are no blocks
	layers []slotLayer
}

type slotLayer struct {
	layer  Layer
	family block.Family
}

type pendingBlock struct {
	place  uint64 // index of the layer<<format.BlockBits | block
	last   int32  // its last slot, counted from 1
	before int32  // the block before in its bucket, counted from 1; 0 for none
}

type pendingSlot struct {
	value  uint32
	before int32 // the slot of the same block before, counted from 1; 0 for none
	index  uint16
}

const (
	slotBucketBits = 12
	slotBuckets    = 1 << slotBucketBits

	// perSlot is an upper bound of what a slot takes in an operand: up to 3 bytes of the gap, and 4 of the value.
	perSlot = 7

	// keptSlots is the most slots that an empty index keeps memory for.
	keptSlots = 2 * manyPendingSlots
)

func slotBucket(place uint64) uint64 { return place * 0x9e3779b97f4a7c15 >> (64 - slotBucketBits) }

// layerOf returns the index of a layer, -1 if the slotIndex does not have it.
func (x *slotIndex) layerOf(l Layer) int {
	return slices.IndexFunc(x.layers, func(s slotLayer) bool { return s.layer == l })
}

// find returns the index of a block, counted from 1; 0 if there is none.
func (x *slotIndex) find(place uint64) int32 {
	if x.last == nil {
		return 0
	}
	i := x.last[slotBucket(place)]
	for i > 0 && x.blocks[i-1].place != place {
		i = x.blocks[i-1].before
	}
	return i
}

// add adds the new values of slots of a block.
func (x *slotIndex) add(b *BlockSlots) {
	n := x.layerOf(b.Layer)
	if n < 0 {
		n = len(x.layers)
		x.layers = append(x.layers, slotLayer{b.Layer, b.Family})
	}
	if x.last == nil {
		x.last = make([]int32, slotBuckets)
	}
	place := uint64(n)<<format.BlockBits | b.Block
	i := x.find(place)
	if i == 0 {
		last := &x.last[slotBucket(place)]
		x.blocks = append(x.blocks, pendingBlock{place: place, before: *last})
		i = int32(len(x.blocks))
		*last = i
	}
	of := &x.blocks[i-1]
	for _, s := range b.Slots {
		x.slots = append(x.slots, pendingSlot{value: s.Value, before: of.last, index: s.Index})
		of.last = int32(len(x.slots))
	}
}

// appendSlots appends the pending values of slots of a block, oldest first.
func (x *slotIndex) appendSlots(slots []block.Slot, l Layer, blk uint64) []block.Slot {
	n := x.layerOf(l)
	if n < 0 {
		return slots
	}
	start := len(slots)
	if i := x.find(uint64(n)<<format.BlockBits | blk); i > 0 {
		for j := x.blocks[i-1].last; j > 0; j = x.slots[j-1].before {
			slots = append(slots, block.Slot{Index: x.slots[j-1].index, Value: x.slots[j-1].value})
		}
	}
	slices.Reverse(slots[start:])
	return slots
}

func (x *slotIndex) reset() {
	if len(x.blocks) == 0 {
		return
	}
	if cap(x.slots) > keptSlots {
		*x = slotIndex{}
		return
	}
	clear(x.last)
	x.blocks, x.slots, x.layers = x.blocks[:0], x.slots[:0], x.layers[:0]
}

// slotScratch sorts the slots of a block, and keeps one value of each.
type slotScratch struct {
	given  [block.Bits / 4 / 64]uint64 // a bit for each slot that has a value; all 0 between two blocks
	values [block.Bits / 4]uint32
	sorted []block.Slot
	order  []int32
}

// lastOfEach returns the last value of each slot of a block, in the order of the slots.
func (s *slotScratch) lastOfEach(x *slotIndex, b *pendingBlock) []block.Slot {
	for j := b.last; j > 0; j = x.slots[j-1].before {
		of := &x.slots[j-1]
		if word, bit := &s.given[of.index>>6], uint64(1)<<(of.index&63); *word&bit == 0 {
			*word |= bit
			s.values[of.index] = of.value
		}
	}
	s.sorted = s.sorted[:0]
	for k := range s.given {
		for w := s.given[k]; w != 0; w &= w - 1 {
			i := k<<6 | bits.TrailingZeros64(w)
			s.sorted = append(s.sorted, block.Slot{Index: uint16(i), Value: s.values[i]})
		}
		s.given[k] = 0
	}
	return s.sorted
}

// buildSlots adds the values of slots to a batch, one operand for each block, in the order of the blocks.
func (s *flushScratch) buildSlots(batch *Batch, from *slotIndex) {
	order := s.slots.order[:0]
	for i := range from.blocks {
		order = append(order, int32(i))
	}
	slices.SortFunc(order, func(i, j int32) int { return cmp.Compare(from.blocks[i].place, from.blocks[j].place) })
	for _, i := range order {
		b := &from.blocks[i]
		l := &from.layers[b.place>>format.BlockBits]
		key := format.AppendBlockKey(s.record[:0], l.layer.Object, l.layer.Number, b.place&(format.MaxBlocks-1))
		n := len(key)
		s.record = block.AppendSlotsOperand(key, l.family, s.slots.lastOfEach(from, b))
		must(batch.Merge(s.record[:n], s.record[n:], nil))
	}
	s.slots.order = order
}
