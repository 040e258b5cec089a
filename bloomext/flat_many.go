package bloomext

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sievekv/sievekv/internal/radix"
	"github.com/sievekv/sievekv/kv"
)

// Many items of filters with the compatible or the foreign layout. An item is in several blocks. While the newest layer has
// room, the bits of many items are sorted and set block by block; of the items that have a bit that was not set, the first
// one sets it, and is new. Otherwise items are taken in the order given, as that decides which have room.

// commitBytes returns the most that an item takes of a commit if the newest layer has room for it.
func (l *flat) commitBytes() int {
	return blockBytes*int(min(uint64(l.hashes), l.table.Spec().Blocks)) + bitBytes*int(l.hashes)
}

// moreLayers is how many layers a filter may get in one commit. Each new one has room for as many items as the newest one, or
// for more.
const moreLayers = 64

// mostPerItem is commitBytes for any layer that the filter may get in a commit of fewItems: each has a hash more than the one
// before.
func (f *filter) mostPerItem() int {
	hashes := int(f.newest.flat.hashes)
	if f.chain.Params.Expansion > 0 {
		hashes += moreLayers
	}
	return (blockBytes + bitBytes) * hashes
}

// fewItems returns a number of items, at most n, that take at most moreLayers layers more.
func (f *filter) fewItems(n int) int {
	if c := f.newest.capacity; c < uint64(n) {
		return int(min(uint64(n), moreLayers*c))
	}
	return n
}

// pairsFor returns how many items surely fit into a number of bytes of a commit.
func (s *stager) pairsFor(room int) int {
	newest := s.c.layers[0].flat
	size := s.c.fewItems(room / s.c.mostPerItem()) // whatever layer each item is in
	size = max(size, s.room(min(maxBatch, room/newest.commitBytes())))
	if blocks := blockBytes * newest.table.Spec().Blocks; blocks < uint64(room) {
		size = max(size, s.room(min(maxBatch, (room-int(blocks))/(bitBytes*(int(newest.hashes)+2)))))
	}
	return min(size, maxBatch)
}

// stageFitting stages the longest prefix of the items that surely fits into the commit, and at least `least` of them.
// Without an error, n is their number.
func stageFitting(h *handle, w *kv.Writer, items [][]byte, added []bool, least int) (n int, err error) {
	c, err := h.Staged(w)
	if err != nil {
		return 0, err
	}
	s := &stager{w: w, c: c}
	clear(added)
	if h.Tx != nil {
		n := min(max(least, c.fewItems(h.BatchSize(c.mostPerItem()))), len(items))
		return stagePairs(h, s, items[:n], added, nil)
	}
	// What the bits take is known exactly only from the writer, which takes some time. At first each item is counted as if
	// no other were in its blocks.
	room := max(0, h.Room(w))
	left := room
	return stagePairs(h, s, items, added, func(i, most int) int {
		need := max(s.c.mostPerItem(), room/32)
		if left-s.spent-callerBytes*i < need {
			left = h.Room(w) + s.spent
		}
		free := left - s.spent - callerBytes*i
		if i >= least && free < need {
			return 0
		}
		return max(1, min(most, s.pairsFor(free-callerBytes*most)))
	})
}

// stagePairs stages items in their order, until one fails or they do not fit into the commit. It returns how many it
// staged. Fits, if set, returns how many of the next items, `most` at most, surely fit when i are staged; or 0 for the end.
func stagePairs(
	h *handle, s *stager, items [][]byte, added []bool, fits func(i, most int) int,
) (n int, err error) {
	m, _ := batchMemories.Get().(*batchMemory)
	defer batchMemories.Put(m)
	for i := 0; i < len(items); i += n {
		if err := h.GivenUp(i); err != nil {
			return i, err
		}
		n = min(len(items)-i, sortedItems, max(1, sortedPlaces/int(s.c.newest.flat.hashes)))
		if fits != nil {
			if n = fits(i, n); n == 0 {
				return i, nil
			}
		}
		if n = s.room(n); n < fewSorted {
			n = 1
			added[i], err = s.addPair(s.c.pair(items[i]))
		} else {
			m.pairs = m.pairs[:0]
			for _, item := range items[i:][:n] {
				m.pairs = append(m.pairs, s.c.pair(item))
			}
			err = s.addPairs(m, added[i:])
		}
		if err != nil {
			return i, err
		}
	}
	return len(items), nil
}

const (
	sortedBits   = 12
	sortedItems  = 1 << sortedBits // the most items whose places are sorted at once
	sortedPlaces = 1 << 16         // about the most places
	fewSorted    = 4               // fewer items are staged one by one
)

// batchMemory is memory for many items.
type batchMemory struct {
	pairs     []pair
	places    []uint64 // of the bits of items, each with the item's number
	spare     []uint64 // for sorting
	positions []uint16 // of the same bits in their blocks
	isNew     []bool   // whether a bit was not set
}

var batchMemories = sync.Pool{New: func() any { return new(batchMemory) }}

// addPairs stages the items of m.pairs, for which the newest layer has room, block by block. It sets added[i] of those that
// are new.
func (s *stager) addPairs(m *batchMemory, added []bool) error {
	newest := s.c.layers[0].flat
	m.places = slices.Grow(m.places[:0], len(m.pairs)*int(newest.hashes))
	for i, p := range m.pairs {
		known := false
		for _, l := range s.c.layers[1:] {
			var err error
			if known, err = s.hasPair(l.flat, p); err != nil {
				return err
			}
			if known {
				break
			}
		}
		for j := range uint64(newest.hashes) {
			if !known {
				m.places = append(m.places, newest.place(newest.number(p, j))<<sortedBits|uint64(i))
			}
		}
	}
	m.places, m.spare = radix.Sort(newest.leaveOutSet(m.places), m.spare, sortedBits)
	m.positions = slices.Grow(m.positions[:0], len(m.places))
	for _, place := range m.places {
		m.positions = append(m.positions, uint16(place>>sortedBits))
	}
	m.isNew = slices.Grow(m.isNew[:0], len(m.places))[:len(m.places)]
	var newItems, newOnes uint64
	defer func() { // also after an error: what is staged is counted
		if newItems == 0 {
			return
		}
		s.w.SetCounter(newest.table, itemsCounter, s.w.Counter(newest.table, itemsCounter)+newItems)
		s.w.SetCounter(newest.table, onesCounter, s.w.Counter(newest.table, onesCounter)+newOnes)
	}()
	for start, end := 0, 0; start < len(m.places); start = end {
		blk := m.places[start] >> (sortedBits + flatShift)
		for end = start + 1; end < len(m.places) && m.places[end]>>(sortedBits+flatShift) == blk; {
			end++
		}
		isNew := m.isNew[start:end]
		ones, err := s.w.SetNewBits(s.c.object, newest.table, blk, m.positions[start:end], isNew)
		newOnes += uint64(ones)
		if err != nil {
			return err
		}
		if ones > 0 {
			s.spent += blockBytes + bitBytes*ones
		}
		for j, set := range isNew {
			if i := m.places[start+j] % sortedItems; set && !added[i] {
				added[i] = true
				newItems++
			}
		}
	}
	return nil
}

// leaveOutSet returns the places, given with the numbers of items, whose bits are not set in blocks in memory. It does not
// branch by them: so the processor does not wait for the memory of one bit before it asks for the next.
func (l *flat) leaveOutSet(places []uint64) []uint64 {
	n := 0
	for _, place := range places {
		places[n] = place
		at := place >> sortedBits
		unset := uint64(1)
		if first := l.table.InMemory(at >> flatShift); first != nil {
			unset = ^atomic.LoadUint64(&l.table.Words(first)[at%flatBits/64]) >> (at & 63) & 1
		}
		n += int(unset)
	}
	return places[:n]
}

// askPairs answers items from resident blocks, and then the others.
func askPairs(h *handle, c *filter, r kv.Reader, items [][]byte, present []bool) error {
	s := c.object.Memory().Begin()
	usable := h.Tx == nil && s.Usable() // memory lacks what the transaction has staged
	for i, item := range items {
		if err := h.GivenUp(i); err != nil {
			return err
		}
		p := c.pair(item)
		if usable {
			if i%group == 0 && h.DB.Sampled(p.a) {
				c.touchPair(h.DB, p)
			}
			answer, known := c.pairInMemory(s, p)
			if present[i] = answer; known {
				continue
			}
		}
		var err error
		if present[i], err = c.loadPair(r, p); err != nil {
			return err
		}
	}
	return nil
}
