package storage

import (
	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/format"
)

// Layer names a layer of an object.
type Layer struct{ Object, Number uint64 }

// SmallCommit is a commit that sets a few bits of one object or changes a few slots, and sets its layers' counters. None
// of the bits that are given by their positions is set already, in Pebble or by a pending commit: the writer has looked
// every bit up, and leaves out those that are set.
type SmallCommit struct {
	Blocks   []BlockBits
	Slots    []BlockSlots
	Counters []LayerCounters
	Records  []Record

	bits, blocks, items, layers, slots, slotLayers int // see measure
}

// BlockBits are at most MaxSmallBits bits in one block. If they are items, these are kept.
type BlockBits struct {
	Layer Layer
	Block uint64
	Bits  *block.BitSet
}

// BlockSlots are new values of slots of one block, in the order in which they were given: the last of a slot counts.
type BlockSlots struct {
	Layer  Layer
	Block  uint64
	Family block.Family
	Slots  []block.Slot
}

// BlockChanges are the pending changes of a block: bits that are set, and the values that slots get, oldest first.
type BlockChanges struct {
	Bits  []uint16
	Slots []block.Slot
}

// LayerCounters are all the counters of a layer.
type LayerCounters struct {
	Layer  Layer
	Values [format.NumCounters]uint64
}

// measure counts the bits, the blocks that have some, the items, the layers of both, the slots, and their layers. It returns an upper
// bound of what the commit adds to a batch, without items, entries of blocks with bits, and counters.
func (c *SmallCommit) measure() (size int) {
	const perBit = 4 // of an operand: see block.AppendBitsOperand
	c.bits, c.blocks, c.items, c.layers, c.slots, c.slotLayers = 0, 0, 0, 0, 0, 0
	for i := range c.Blocks {
		c.items += c.Blocks[i].items()
		if _, words := c.Blocks[i].runOf(); len(words) > 0 {
			continue // see runIndex.sizeOf
		}
		if b := c.Blocks[i].Bits; !b.HasItems() {
			c.bits += b.Len()
			c.blocks++
			size += b.Len() * perBit
		}
		if i == 0 || c.Blocks[i].Layer != c.Blocks[i-1].Layer {
			c.layers++
		}
	}
	for i := range c.Slots {
		c.slots += len(c.Slots[i].Slots)
		if i == 0 || c.Slots[i].Layer != c.Slots[i-1].Layer {
			c.slotLayers++
		}
		size += perSmall + len(c.Slots[i].Slots)*perSlot
	}
	for _, r := range c.Records {
		size += perSmall + len(r.Key) + len(r.Value)
	}
	return size
}

// perSmall is an upper bound of what an entry takes in a batch, with the key of a block or of counters, and lengths.
const perSmall = PerEntry + 48
