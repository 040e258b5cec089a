// Package lastchange remembers which commit changed each block of an object last. So a snapshot can tell whether a block in
// memory is still as it was, and a lookup of several blocks whether they were all as one commit left them.
package lastchange

import "sync/atomic"

// Numbers has, for each block, the number of the last commit that may have changed it, and whether one is changing it now.
// Blocks share places. Any goroutine may read; one commit at a time changes the blocks of an object.
type Numbers struct {
	all   atomic.Uint64   // the number of the last commit that changed all blocks
	parts []atomic.Uint64 // by place: twice the number, plus 1 while a commit changes blocks of the place
}

// New returns numbers for the given number of blocks, all 0, with at most the given number of places, a power of two.
func New(blocks, places uint64) Numbers {
	n := uint64(1)
	for n < places && n < blocks {
		n *= 2
	}
	return Numbers{parts: make([]atomic.Uint64, n)}
}

// Place returns the place of a block of a layer. Blocks of equal number in several layers have different places, as far as
// there are enough.
func (n *Numbers) Place(layer, blk uint64) int {
	return int((blk + 11*layer) & uint64(len(n.parts)-1))
}

// At returns what tells whether a block of the place has changed between two calls, or is changing: then it is odd. It only
// grows, except that it goes back by 1 if the commit that is changing blocks fails.
func (n *Numbers) At(place int) uint64 { return n.parts[place].Load() }

// Begin notes that a commit is about to change blocks of the place, before anybody can see any of it. It reports
// whether the caller must call End: false if Begin was called before.
func (n *Numbers) Begin(place int) bool { return n.parts[place].Or(1)&1 == 0 }

// End notes that the commit has changed the blocks everywhere. The number is 0 if it failed.
func (n *Numbers) End(place int, number uint64) { n.set(place, number, 0) }

// Changed notes that the commit with this number changes a block of the place. It is called before the block is changed in
// memory, also between Begin and End.
func (n *Numbers) Changed(place int, number uint64) { n.set(place, number, 1) }

// set raises the number of a place, and keeps its last bits that are in keep.
func (n *Numbers) set(place int, number, keep uint64) {
	for p := &n.parts[place]; ; {
		old := p.Load()
		next := max(old>>1, number)<<1 | old&keep
		if old == next || p.CompareAndSwap(old, next) {
			return
		}
	}
}

// ChangedAll is Changed for every block, of an object that no lookup has found yet.
func (n *Numbers) ChangedAll(number uint64) { n.all.Store(max(n.all.Load(), number)) }

// After reports whether a commit after the one with this number may have changed a block of the place, or is changing it. A
// caller that has read the block in memory, and is told no then, has read it as that commit left it.
func (n *Numbers) After(place int, number uint64) bool {
	at := n.At(place)
	return at&1 != 0 || max(n.all.Load(), at>>1) > number
}

// Last returns the number of the last commit that may have changed a block of the place.
func (n *Numbers) Last(place int) uint64 { return max(n.all.Load(), n.At(place)>>1) }

// Bytes returns the memory that the numbers take.
func (n *Numbers) Bytes() int64 { return int64(len(n.parts)) * 8 }
