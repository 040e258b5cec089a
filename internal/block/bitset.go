package block

import (
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/sievekv/sievekv/internal/probe"
)

// BitSet is a set of bits of one block, such as those that a writer has staged. The zero value is empty. A set may have
// items in place of bits (HasItems). Expand has to be called then before Has, Add, Remove and AppendTo.
type BitSet struct {
	count     int
	positions []uint16 // ascending, while there are few
	words     []uint64 // instead of positions, once there are many

	items  []uint64 // instead of both, hashes of items that set the bits
	layout *probe.Layout

	run   []uint64 // instead of all, words of the block, see AddWord
	first int      // number of the first of them
}

// MaxFew is the number of bits above which a whole block of bits, 8 KiB, takes hardly more memory than their positions
// and the operand made of them.
const MaxFew = 2048

// Len returns the number of bits.
func (s *BitSet) Len() int { return s.count }

// HasItems reports whether the set has items in place of bits.
func (s *BitSet) HasItems() bool { return len(s.items) > 0 }

// AddTo sets the bits in a draft of the block. Scratch is memory for positions.
func (s *BitSet) AddTo(d *probe.Draft, scratch *[]uint16) {
	if s.HasItems() {
		s.layout.Prepare(d, s.items)
	}
	for _, h := range s.items {
		s.layout.Add(d, h)
	}
	*scratch = s.AppendTo((*scratch)[:0])
	d.SetBits(*scratch)
}

// AddItems adds the bits of n items: the items of hashes for which added is true. They set `ones` bits that neither the
// block nor the set has. Hashes and layout are as for AppendItemsOperand; the set keeps the layout. AddItems does
// nothing and returns false if the set has bits one by one, or if the bits of the items would take less memory than the
// items.
func (s *BitSet) AddItems(layout *probe.Layout, hashes []uint64, added []bool, n, ones int) bool {
	if s.count > 0 && !s.HasItems() || len(s.run) > 0 {
		return false
	}
	if items := len(s.items) + n; items >= int(layout.Lines) && !preferItems(layout, items, s.count+ones) {
		return false
	}
	s.items = slices.Grow(s.items, n)
	for i, h := range hashes {
		if added[i] {
			s.items = append(s.items, h)
		}
	}
	s.layout = layout
	s.count += ones
	return true
}

// Growth returns how many bytes longer the operand may be after Expand.
func (s *BitSet) Growth() int {
	if !s.HasItems() {
		return 0
	}
	return max(0, 2+min(2*s.count, int(s.layout.Lines)*lineBytes)-len(s.items)*itemWidth(s.layout))
}

// IsSet reports whether a bit of a block is set. Other goroutines may change the block meanwhile, as Patch does.
func IsSet(words []uint64, p uint16) bool { return atomic.LoadUint64(&words[p>>6])>>(p&63)&1 != 0 }

// Expand replaces the items, if there are any, by the bits that they set and the block does not have. Words are the
// block's. Other goroutines may read the block meanwhile, but none may change it.
func (s *BitSet) Expand(words []uint64) {
	if !s.HasItems() {
		return
	}
	items := s.items
	s.count, s.items = 0, s.items[:0]
	var probes [probe.MaxHashes]uint16
	for _, h := range items {
		for _, p := range s.layout.AppendProbes(probes[:0], h) {
			if !IsSet(words, p) {
				s.Add(p)
			}
		}
	}
}

// AppendOperand appends the operand that sets the bits to dst and returns the extended slice. The bits are of block blk
// of a layer. Scratch is memory for positions.
func (s *BitSet) AppendOperand(dst []byte, blk uint64, scratch *[]uint16) []byte {
	if s.HasItems() {
		return appendShorter(dst, s.layout, blk, s.items, s.count, scratch)
	}
	if len(s.run) > 0 {
		return AppendRunOperand(dst, s.first, s.run)
	}
	*scratch = s.AppendTo((*scratch)[:0])
	return AppendBitsOperand(dst, *scratch)
}

// Has reports whether a bit is in the set.
func (s *BitSet) Has(p uint16) bool {
	if i := int(p>>6) - s.first; i >= 0 && i < len(s.run) {
		return s.run[i]>>(p&63)&1 != 0
	}
	if s.words != nil {
		return s.words[p>>6]>>(p&63)&1 != 0
	}
	_, found := slices.BinarySearch(s.positions, p)
	return found
}

// Add adds a bit and reports whether it was not in the set.
func (s *BitSet) Add(p uint16) bool {
	s.expandRun()
	if s.words == nil {
		if n := len(s.positions); s.count < MaxFew && (n == 0 || s.positions[n-1] < p) { // as when they are added in order
			s.positions = append(s.positions, p)
			s.count++
			return true
		}
		i, found := slices.BinarySearch(s.positions, p)
		if found {
			return false
		}
		if s.count < MaxFew {
			s.positions = slices.Insert(s.positions, i, p)
			s.count++
			return true
		}
		s.spread()
	}
	if s.words[p>>6]>>(p&63)&1 != 0 {
		return false
	}
	s.words[p>>6] |= 1 << (p & 63)
	s.count++
	return true
}

// spread moves the positions to words.
func (s *BitSet) spread() {
	s.words = make([]uint64, MaxWords)
	s.Set(s.words)
	s.positions = nil
}

// Remove removes a bit that is in the set.
func (s *BitSet) Remove(p uint16) {
	s.expandRun()
	s.count--
	if s.words != nil {
		s.words[p>>6] &^= 1 << (p & 63)
		return
	}
	i, _ := slices.BinarySearch(s.positions, p)
	s.positions = slices.Delete(s.positions, i, i+1)
}

// AppendTo appends the positions of the bits, ascending.
func (s *BitSet) AppendTo(dst []uint16) []uint16 {
	dst = append(dst, s.positions...)
	return AppendWordBits(AppendWordBits(dst, s.first, s.run), 0, s.words)
}

// AppendWordBits appends the positions of the bits of words. The first word has the given number.
func AppendWordBits(dst []uint16, first int, words []uint64) []uint16 {
	for i, word := range words {
		for ; word != 0; word &= word - 1 {
			dst = append(dst, uint16((first+i)<<6|bits.TrailingZeros64(word)))
		}
	}
	return dst
}

// Set sets the bits in a block that no other goroutine uses.
func (s *BitSet) Set(words []uint64) {
	for _, h := range s.items {
		s.layout.Set(words, h)
	}
	SetBits(words, s.positions)
	for i, word := range s.run {
		words[s.first+i] |= word
	}
	if s.words != nil {
		for i := range words {
			words[i] |= s.words[i]
		}
	}
}

// Reset empties the set. It keeps memory for up to most positions or items.
func (s *BitSet) Reset(most int) {
	s.count, s.words, s.positions, s.items, s.layout, s.run, s.first = 0, nil, s.positions[:0], s.items[:0], nil, s.run[:0], 0
	if cap(s.positions)+cap(s.items)+cap(s.run) > most {
		s.positions, s.items, s.run = nil, nil, nil
	}
}
