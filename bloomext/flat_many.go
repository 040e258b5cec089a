package bloomext

import (
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/hash"
	"github.com/sievekv/sievekv/scalableext"
)

// Many items of filters with the compatible or the foreign layout. An item is in several blocks, so the items are taken in
// the order given, and not block by block.

// sumPair returns the hashes of an item.
func sumPair[T any](f *filter, item T, sum func(hash.Function, T) uint64) pair {
	if s := f.newest.flat.scheme; s != schemeCompatible {
		var number [8]byte
		return s.pair(bytesOf(item, &number))
	}
	a := sum(f.hash, item)
	return pair{a: a, b: sum(hash.NewMurmur64A(a), item)}
}

// bytesOf returns the bytes of an item: a []byte, a string, or a uint64, whose bytes go to number.
func bytesOf[T any](item T, number *[8]byte) []byte {
	switch item := any(item).(type) {
	case []byte:
		return item
	case string:
		return scalableext.BytesOf(item)
	case uint64:
		*number = scalableext.LittleEndian(item)
	}
	return number[:]
}

// commitBytes returns the most that an item takes of a commit if the newest layer has room for it.
func (l *flat) commitBytes() int {
	return blockBytes*int(min(uint64(l.hashes), l.table.Spec().Blocks)) + bitBytes*int(l.hashes)
}

// mostPerItem is commitBytes for any layer that the filter may get: each has one hash more than the one before.
func (f *filter) mostPerItem() int {
	hashes := int(f.newest.flat.hashes)
	if f.chain.Params.Expansion > 0 {
		hashes += scalableext.MaxLayers - len(f.layers)
	}
	return (blockBytes + bitBytes) * hashes
}

// pairsFor returns how many items surely fit into so many bytes of a commit.
func (s *stager) pairsFor(room int) int {
	newest := s.c.layers[0].flat
	size := room / s.c.mostPerItem() // whatever layer each item is in
	size = max(size, s.room(min(maxBatch, room/newest.commitBytes())))
	if blocks := blockBytes * newest.table.Spec().Blocks; blocks < uint64(room) {
		size = max(size, s.room(min(maxBatch, (room-int(blocks))/(bitBytes*(int(newest.hashes)+2)))))
	}
	return min(size, maxBatch)
}

// stageFitting stages as many of the items, from the first on, as surely fit into the commit, but at least so many.
// Without an error, n is their number.
func stageFitting[T any](h *handle, w *kv.Writer, items []T, added []bool, least int, sum func(hash.Function, T) uint64) (n int, err error) {
	c, err := h.Staged(w)
	if err != nil {
		return 0, err
	}
	s := &stager{w: w, c: c}
	clear(added)
	if h.Tx != nil {
		n := min(max(least, h.BatchSize(c.mostPerItem())), len(items))
		return stagePairs(h, s, items[:n], added, sum, nil)
	}
	// What the bits take is known exactly only from the writer, which takes some time. At first each item is counted as if
	// no other were in its blocks.
	room := max(0, h.Room(w))
	left := room
	return stagePairs(h, s, items, added, sum, func(i int) bool {
		need := max(s.c.mostPerItem(), room/32)
		if left-s.spent-callerBytes*i < need {
			left = h.Room(w) + s.spent
		}
		return i >= least && left-s.spent-callerBytes*i < need
	})
}

// stagePairs stages items in their order, until one fails or enough says so. It returns how many it staged.
func stagePairs[T any](
	h *handle, s *stager, items []T, added []bool, sum func(hash.Function, T) uint64, enough func(i int) bool,
) (n int, err error) {
	for i, item := range items {
		if err := h.GivenUp(i); err != nil {
			return i, err
		}
		if enough != nil && enough(i) {
			return i, nil
		}
		if added[i], err = s.addPair(sumPair(s.c, item, sum)); err != nil {
			return i, err
		}
	}
	return len(items), nil
}

// askPairs answers items from resident blocks, and then the others.
func askPairs[T any](h *handle, c *filter, r kv.Reader, items []T, present []bool, sum func(hash.Function, T) uint64) error {
	for i, item := range items {
		if err := h.GivenUp(i); err != nil {
			return err
		}
		p := sumPair(c, item, sum)
		if h.Tx == nil { // resident blocks lack what the transaction has staged
			if i%group == 0 && h.DB.Sampled(p.a) {
				c.touchPair(h.DB, p)
			}
			answer, known := c.residentPair(p)
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
