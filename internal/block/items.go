package block

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"slices"

	"github.com/sievekv/sievekv/internal/probe"
)

// An operand of items has the hashes of items that are added to a Bloom filter, in place of the bits that they set. An
// item takes 4 to 8 bytes. Its bits take 9 at an error rate of 1 %, and 30 at 1e-6; but only 1 to 2 bytes if the items
// added at once to a block are many enough for a shorter bitmap. The bits follow from the hash and from the layout of
// the filter's layer, see package probe.

// itemsPerOperand is how many items of an operand count as one operand in Info.Operands, a measure of the time to merge
// the operands since a block was last folded. An item takes 22 ns, a quarter of an operand with one item
// (BenchmarkRead), and yet only eight count as one: batches into a filter larger than the cache read a block once for
// many items, and fewer folds write less.
const itemsPerOperand = 8

var errItems = errors.New("items cut short or out of range")

// AppendItemsOperand appends the operand "set the bits of these items" to dst and returns the extended slice. The
// items are given by their hashes, in any order. All must be in block blk of a layer with the given layout of bits. If
// one is not, no reader can decode the operand.
func AppendItemsOperand(dst []byte, layout *probe.Layout, blk uint64, hashes []uint64) []byte {
	dst = append(dst, kindItems, byte(layout.Lines), layout.Hashes, layout.LinesPerItem)
	dst = binary.AppendUvarint(dst, layout.Blocks)
	dst = binary.AppendUvarint(dst, blk)
	first, width := firstHash(layout, blk), itemWidth(layout)
	for _, h := range hashes {
		for rest, n := h-first, width; n > 0; n-- {
			dst = append(dst, byte(rest))
			rest >>= 8
		}
	}
	return dst
}

// AppendShorter appends an operand that sets the bits of these items: an operand of items, or of their bits if that is
// much shorter. Items are as for AppendItemsOperand. Scratch is memory for positions.
func AppendShorter(dst []byte, layout *probe.Layout, blk uint64, hashes []uint64, scratch *[]uint16) []byte {
	return appendShorter(dst, layout, blk, hashes, len(hashes)*int(layout.Hashes), scratch)
}

// appendShorter is AppendShorter for a caller that knows how many bits of the items the block does not have yet.
func appendShorter(dst []byte, layout *probe.Layout, blk uint64, hashes []uint64, ones int, scratch *[]uint16) []byte {
	if preferItems(layout, len(hashes), ones) {
		return AppendItemsOperand(dst, layout, blk, hashes)
	}
	*scratch = appendBits((*scratch)[:0], layout, hashes)
	return AppendBitsOperand(dst, *scratch)
}

// appendBits appends the positions of the bits that items set, ascending. Sorting many positions takes several times as
// long as setting them in a block and looking for them there.
func appendBits(positions []uint16, layout *probe.Layout, hashes []uint64) []uint16 {
	const many = 128
	if len(hashes)*int(layout.Hashes) < many {
		for _, h := range hashes {
			positions = layout.AppendProbes(positions, h)
		}
		slices.Sort(positions)
		return slices.Compact(positions)
	}
	var words [MaxWords]uint64
	for _, h := range hashes {
		layout.Set(words[:], h)
	}
	set := BitSet{words: words[:layout.Lines*LineWords]}
	return set.AppendTo(positions)
}

// preferItems reports whether items are stored as they are, and not as the bits that they set, if the block lacks the
// given number of these bits. The operand of items may be longer by half than an operand of positions, and by a quarter
// than a bitmap: it is made and applied in half the time.
func preferItems(layout *probe.Layout, items, ones int) bool {
	lines := int(layout.Lines)
	if items < lines {
		ones += items // most are alone in their lines, and a gap takes two bytes
	}
	return 4*itemsSize(layout, items) <= min(6*ones, 5*lines*lineBytes) // a position takes a byte
}

// ItemBytes returns how many bytes an item takes at most in an operand that AppendShorter appends, besides the
// operand's head. preferItems prefers positions, 2 bytes each at most, only if they are fewer than two thirds of the
// bytes of the items, and a bitmap only if it is shorter than the items.
func ItemBytes(layout *probe.Layout) int {
	return min(2*int(layout.Hashes), (4*itemWidth(layout)+2)/3)
}

// itemsSize returns the most bytes that an operand of this number of items takes.
func itemsSize(layout *probe.Layout, items int) int {
	return 4 + 2*(bits.Len64(layout.Blocks)+6)/7 + items*itemWidth(layout)
}

// firstHash returns the lowest hash of a block's items. Block blk of n has the hashes h with h*n/2^64 = blk, rounded
// down: the hashes from blk*2^64/n on, rounded up.
func firstHash(layout *probe.Layout, blk uint64) uint64 {
	h, remainder := bits.Div64(blk, 0, layout.Blocks)
	if remainder > 0 {
		h++
	}
	return h
}

// itemWidth returns how many bytes an item takes: enough for the greatest difference from the first hash of its block.
func itemWidth(layout *probe.Layout) int {
	return (bits.Len64(math.MaxUint64/layout.Blocks) + 7) / 8
}

// itemReader reads the items of an operand.
type itemReader struct {
	layout probe.Layout
	first  uint64
	width  int
	rest   []byte
}

// next returns the hash of the next item.
func (r *itemReader) next() (h uint64, ok bool) {
	if len(r.rest) == 0 {
		return 0, false
	}
	for i := r.width - 1; i >= 0; i-- {
		h = h<<8 | uint64(r.rest[i])
	}
	r.rest = r.rest[r.width:]
	return h + r.first, true
}

// setBits sets the bits of all items in words, which no other goroutine uses.
func (r itemReader) setBits(words []uint64) {
	for h, ok := r.next(); ok; h, ok = r.next() {
		r.layout.Set(words, h)
	}
}

// end returns the bit behind the last one that the items set.
func (r itemReader) end() (end int) {
	var probes [probe.MaxHashes]uint16
	for h, ok := r.next(); ok; h, ok = r.next() {
		for _, p := range r.layout.AppendProbes(probes[:0], h) {
			end = max(end, int(p)+1)
		}
	}
	return end
}

// parseItems takes an operand of items apart. Every item must be in the block that the operand names.
func (v *value) parseItems(r reader) error {
	lines, hashes, linesPerItem := r.byte(), r.byte(), r.byte()
	blocks, blk := r.uvarint(), r.uvarint()
	if r.bad || blk >= blocks {
		return errHeader
	}
	layout, err := probe.NewLayout(blocks, uint64(lines), uint64(hashes), uint64(linesPerItem))
	if err != nil {
		return err
	}
	v.family, v.layout, v.payload = FamilyBits, layoutItems, r.rest
	v.items = itemReader{layout, firstHash(&layout, blk), itemWidth(&layout), r.rest}
	if len(r.rest)%v.items.width != 0 {
		return errItems
	}
	v.operands = uint32(max(1, (len(r.rest)/v.items.width+itemsPerOperand-1)/itemsPerOperand))
	items := v.items
	for h, ok := items.next(); ok; h, ok = items.next() {
		if in, _ := layout.Block(h); in != blk {
			return errItems
		}
	}
	v.end = int(lines) * LineBits
	return nil
}
