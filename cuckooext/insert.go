package cuckooext

import (
	"errors"

	"github.com/sievekv/sievekv/kv/block"
)

var (
	// errFull is returned for an item for which no room can be made in its block.
	errFull = errors.New("cuckooext: block is full")

	// errDuplicates is returned instead if the item's buckets hold nothing but its
	// own fingerprint: no entry there can be moved away, and every further copy
	// would need a layer of its own.
	errDuplicates = errors.New("cuckooext: buckets are full of the item's own fingerprint")
)

// inserter inserts into blocks of one geometry. It keeps the memory of its searches
// and is used by one goroutine at a time.
type inserter struct {
	g       *geometry
	seen    []uint64 // the buckets reached, a bit each
	reached []hop    // in the order of reaching, so by the number of moves
}

// hop is a bucket reached in a search and the slot, of a bucket reached before it,
// whose entry can be moved into it.
type hop struct {
	bucket uint16
	from   uint16 // index into reached
	slot   uint16
}

func newInserter(g *geometry) *inserter {
	return &inserter{g: g}
}

// insert adds the place's fingerprint to a block that nobody else is using, and
// appends to dst the slots it changed with what is in them now, each once. If both
// buckets are full, it makes room by the fewest moves of entries to their partner
// buckets that there are (Fan, Andersen, Kaminsky and Mitzenmacher, "Cuckoo Filter:
// Practically Better Than Bloom", 2014, Algorithm 1, but breadth first and within
// the block), maxMoves at most. The changes are in an order in which every entry is
// always in one of its buckets, or in both.
//
// The error is errFull or errDuplicates; nothing has been changed then.
func (s *inserter) insert(words *blockWords, p place, maxMoves int, dst []block.Slot) ([]block.Slot, error) {
	g := s.g
	if free := g.findEmpty(words, p); free >= 0 {
		return s.put(words, free, p.fp, dst), nil
	}
	if g.countIn(words, p.i1, p.fp)+g.countIn(words, p.i2, p.fp) == int(2*g.bucketSize) {
		return dst, errDuplicates
	}
	last, free := s.search(words, p, maxMoves)
	if free < 0 {
		return dst, errFull
	}
	// From the end of the path: each entry is copied to the slot that was emptied
	// before it is overwritten.
	for h := last; ; h = s.reached[h.from] {
		if h.from == noHop {
			return s.put(words, free, p.fp, dst), nil
		}
		dst = s.put(words, free, g.slotAt(words, uint32(h.slot)), dst)
		free = int(h.slot)
	}
}

func (s *inserter) put(words *blockWords, slot int, fp uint32, dst []block.Slot) []block.Slot {
	change := block.Slot{Index: uint16(slot), Value: fp}
	s.g.set(words, change)
	return append(dst, change)
}

// noHop is the from of the item's own buckets.
const noHop = 1<<16 - 1

// search looks for the nearest bucket with an empty slot. It returns that bucket and
// the slot, or -1. Each bucket is reached once, so it ends.
func (s *inserter) search(words *blockWords, p place, maxMoves int) (last hop, free int) {
	g := s.g
	if s.seen == nil { // most inserts find room without a search
		s.seen, s.reached = make([]uint64, (g.buckets+63)/64), make([]hop, 0, g.buckets)
	}
	clear(s.seen)
	s.reached = s.reached[:0]
	s.reach(hop{bucket: uint16(p.i1), from: noHop})
	s.reach(hop{bucket: uint16(p.i2), from: noHop})
	moves, end := 0, 0
	for from := 0; from < len(s.reached); from++ {
		if from == end {
			if moves == maxMoves {
				break
			}
			moves, end = moves+1, len(s.reached)
		}
		bucket := uint32(s.reached[from].bucket)
		for slot := bucket * g.bucketSize; slot < (bucket+1)*g.bucketSize; slot++ {
			other := g.partner(bucket, g.slotAt(words, slot))
			h := hop{bucket: uint16(other), from: uint16(from), slot: uint16(slot)}
			if !s.reach(h) {
				continue
			}
			if free := g.findIn(words, other, 0); free >= 0 {
				return h, free
			}
		}
	}
	return hop{}, -1
}

// reach notes a bucket, unless it was reached before.
func (s *inserter) reach(h hop) bool {
	bit := uint64(1) << (h.bucket & 63)
	if s.seen[h.bucket>>6]&bit != 0 {
		return false
	}
	s.seen[h.bucket>>6] |= bit
	s.reached = append(s.reached, h)
	return true
}

// remove takes one copy of the place's fingerprint out of a block that nobody else
// is using. It returns the slot emptied, or false if there is none.
func (g *geometry) remove(words *blockWords, p place) (block.Slot, bool) {
	slot := g.find(words, p)
	if slot < 0 {
		return block.Slot{}, false
	}
	change := block.Slot{Index: uint16(slot)}
	g.set(words, change)
	return change, true
}
