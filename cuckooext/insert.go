package cuckooext

import (
	"errors"

	"github.com/sievekv/sievekv/internal/block"
)

var (
	// errFull is returned if no room can be made for an item in its block.
	errFull = errors.New("cuckooext: block is full")

	// errDuplicates is returned instead if the item's buckets hold only its own fingerprint: none of these entries
	// can be moved away, and each further copy would need another layer.
	errDuplicates = errors.New("cuckooext: buckets are full of the item's own fingerprint")
)

// inserter inserts into blocks. It reuses the memory of its searches. One goroutine at a time may use it.
type inserter struct {
	g       *geometry // of the block
	seen    []uint64  // one bit for each bucket that was reached
	reached []hop     // in the order in which they were reached, so by the number of moves
}

// hop is a bucket that a search has reached, and the slot, in a bucket reached before, whose entry can move into it.
type hop struct {
	bucket uint16
	from   uint16 // index into reached
	slot   uint16
}

// insert adds the place's fingerprint to a block that no other goroutine uses. It appends to dst the slots that it
// changed, each once, with their new values. If both buckets are full, it makes room with the fewest possible moves
// of entries to their partner buckets, at most maxMoves (Fan, Andersen, Kaminsky and Mitzenmacher, "Cuckoo Filter:
// Practically Better Than Bloom", 2014, Algorithm 1, but breadth first and within the block). While insert changes
// its copy, every entry is in one of its buckets, or in both. A commit applies the changes in another order; versions
// tell lookups.
//
// The error is errFull or errDuplicates; then nothing has changed.
func (s *inserter) insert(words []uint64, p place, maxMoves int, dst []block.Slot) ([]block.Slot, error) {
	g := s.g
	if free := g.findEmpty(words, p); free >= 0 {
		return s.put(words, free, p.fp, dst), nil
	}
	if g.count(words, p) == g.most(p) {
		return dst, errDuplicates
	}
	last, free := s.search(words, p, maxMoves)
	if free < 0 {
		return dst, errFull
	}
	// From the end of the path: each entry is copied to the slot emptied before, and then overwritten.
	for h := last; ; h = s.reached[h.from] {
		if h.from == noHop {
			return s.put(words, free, p.fp, dst), nil
		}
		dst = s.put(words, free, g.slotAt(words, uint32(h.slot)), dst)
		free = int(h.slot)
	}
}

func (s *inserter) put(words []uint64, slot int, fp uint32, dst []block.Slot) []block.Slot {
	change := block.Slot{Index: uint16(slot), Value: fp}
	s.g.set(words, change)
	return append(dst, change)
}

// noHop is hop.from for the item's own buckets.
const noHop = 1<<16 - 1

// search finds the nearest bucket with an empty slot. It returns that bucket and the slot, or -1. It ends because it
// reaches each bucket only once.
func (s *inserter) search(words []uint64, p place, maxMoves int) (last hop, free int) {
	g := s.g
	if s.seen == nil { // most inserts need no search
		s.seen, s.reached = make([]uint64, (g.whole+63)/64), make([]hop, 0, g.buckets)
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

// reach records a bucket, and reports whether it was reached for the first time.
func (s *inserter) reach(h hop) bool {
	bit := uint64(1) << (h.bucket & 63)
	if s.seen[h.bucket>>6]&bit != 0 {
		return false
	}
	s.seen[h.bucket>>6] |= bit
	s.reached = append(s.reached, h)
	return true
}
