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

// LayerCounters are all the counters of a layer.
type LayerCounters struct {
	Layer  Layer
	Values [format.NumCounters]uint64
}

// Record is a key and the value that it gets. A small commit may set a few, such as the header of a string.
type Record struct{ Key, Value []byte }

// bits returns how many bits are set by their positions.
func (c *SmallCommit) bits() (n int) {
	for i := range c.Blocks {
		if b := c.Blocks[i].Bits; !b.HasItems() && !b.HasRun() {
			n += b.Len()
		}
	}
	return n
}

// slots returns how many slots get values.
func (c *SmallCommit) slots() (n int) {
	for i := range c.Slots {
		n += len(c.Slots[i].Slots)
	}
	return n
}

// size returns an upper bound of what the commit takes in an index: in its data, and in the batch that build makes.
func (c *SmallCommit) size() int {
	n := (len(c.Blocks)+len(c.Slots))*(perPending+perBlock) + len(c.Counters)*perPending
	for i := range c.Blocks {
		n += c.Blocks[i].Bits.ChangeSize()
	}
	for i := range c.Slots {
		n += c.Slots[i].size()
	}
	for _, r := range c.Records {
		n += perPending + len(r.Key) + len(r.Value)
	}
	return n
}

// size returns an upper bound of what the slots take in an operand: up to 3 bytes of the gap before each, and 4 of the value.
func (b *BlockSlots) size() int { return 7 * len(b.Slots) }
