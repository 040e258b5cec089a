package storage

import (
	"slices"

	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/format"
	"github.com/sievekv/sievekv/kv/probe"
)

// itemIndex has the hashes of items that pending commits add to Bloom filters. The highest bits of a hash choose the
// item's block (probe.Layout.Block). So the items are kept in buckets by these bits: a lookup that reads a block goes
// through a bucket or two, and a flush, which needs the items in order, only sorts each bucket.
type itemIndex struct {
	hashes []uint64
	before []int32 // of each item, the one before in its bucket, counted from 1; 0 for none
	layers []itemLayer
	size   int // see sizeWith
}

// itemLayer are the items of a layer.
type itemLayer struct {
	layer  Layer
	layout probe.Layout
	count  int
	last   [itemBuckets]int32 // of each bucket, the last item, counted from 1; 0 for none
}

const (
	itemBuckets = 1 << bucketBits
	bucketBits  = 10
)

func bucketOf(hash uint64) uint64 { return hash >> (64 - bucketBits) }

// find returns the items of a layer, nil if there are none.
func (x *itemIndex) find(l Layer) *itemLayer {
	for i := range x.layers {
		if x.layers[i].layer == l {
			return &x.layers[i]
		}
	}
	return nil
}

// items returns the number of items.
func (b *BlockBits) items() int {
	hashes, _ := b.Bits.Items()
	return len(hashes)
}

// add adds the items of a block.
func (x *itemIndex) add(b *BlockBits) {
	hashes, layout := b.Bits.Items()
	to := x.find(b.Layer)
	if to == nil {
		n := len(x.layers)
		x.layers = slices.Grow(x.layers, 1)[:n+1]
		to = &x.layers[n]
		to.layer, to.layout, to.count = b.Layer, *layout, 0
		clear(to.last[:])
	}
	for _, h := range hashes {
		last := &to.last[bucketOf(h)]
		x.hashes, x.before = append(x.hashes, h), append(x.before, *last)
		*last = int32(len(x.hashes))
	}
	to.count += len(hashes)
}

// keptItems is the most items that an empty index keeps memory for.
const keptItems = 2 * manyPendingItems

// reset removes all items.
func (x *itemIndex) reset() {
	x.hashes, x.before, x.layers, x.size = x.hashes[:0], x.before[:0], x.layers[:0], 0
	if cap(x.hashes) > keptItems {
		x.hashes, x.before = nil, nil
	}
}

// appendBits appends the positions of the bits that the items of a block set.
func (x *itemIndex) appendBits(positions []uint16, l Layer, blk uint64) []uint16 {
	from := x.find(l)
	if from == nil || blk >= from.layout.Blocks { // a lookup may still have a larger layer of the same number
		return positions
	}
	first := blk * itemBuckets / from.layout.Blocks
	end := min((blk+1)*itemBuckets/from.layout.Blocks+1, itemBuckets)
	for _, last := range from.last[first:end] {
		for i := last; i > 0; i = x.before[i-1] {
			if of, _ := from.layout.Block(x.hashes[i-1]); of == blk {
				positions = from.layout.AppendProbes(positions, x.hashes[i-1])
			}
		}
	}
	return positions
}

// sizeWith returns an upper bound of what the items take in a batch, as CommitSize counts it, with those of a commit.
func (x *itemIndex) sizeWith(c *SmallCommit) int {
	size := x.size
	for i := 0; i < len(c.Blocks); {
		layer, items := c.Blocks[i].Layer, 0 // of a run of blocks; if a layer has several, they count too much
		var layout *probe.Layout
		for ; i < len(c.Blocks) && c.Blocks[i].Layer == layer; i++ {
			if b := c.Blocks[i].Bits; b.HasItems() {
				var hashes []uint64
				hashes, layout = b.Items()
				items += len(hashes)
			}
		}
		if items > 0 {
			before := 0
			if of := x.find(layer); of != nil {
				before = of.count
			}
			size += itemsSize(layout, before+items) - itemsSize(layout, before)
		}
	}
	return size
}

// itemsSize returns an upper bound of what so many items of a layer take in a batch: one operand for each block.
func itemsSize(layout *probe.Layout, items int) int {
	const perBlock = PerEntry + 64 // key, lengths, and the operand without its items
	perItem := max(8, 4*int(layout.Hashes))
	return int(min(uint64(items), layout.Blocks))*perBlock + items*perItem
}

// buildItems adds items to a batch, one operand for each block.
func (s *flushScratch) buildItems(batch *Batch, from *itemIndex) {
	for i := range from.layers {
		l := &from.layers[i]
		s.hashes = s.hashes[:0]
		for _, last := range l.last[:] {
			start := len(s.hashes)
			for n := last; n > 0; n = from.before[n-1] {
				s.hashes = append(s.hashes, from.hashes[n-1])
			}
			slices.Sort(s.hashes[start:])
		}
		for start := 0; start < len(s.hashes); {
			blk, _ := l.layout.Block(s.hashes[start])
			end := start + 1
			for ; end < len(s.hashes); end++ {
				if of, _ := l.layout.Block(s.hashes[end]); of != blk {
					break
				}
			}
			key := format.AppendBlockKey(s.record[:0], l.layer.Object, l.layer.Number, blk)
			n := len(key)
			s.record = block.AppendShorter(key, &l.layout, blk, s.hashes[start:end], &s.positions)
			must(batch.Merge(s.record[:n], s.record[n:], nil))
			start = end
		}
	}
	if cap(s.hashes) > keptItems {
		s.hashes = nil
	}
}
