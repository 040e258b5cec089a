// Package lastchange remembers which commit changed each block of a layer last, so that a snapshot can tell whether a block
// in memory is still as it was.
package lastchange

import "sync/atomic"

// Numbers has the number of the last commit that may have changed each block. Blocks share numbers. Any goroutine may
// use it.
type Numbers struct {
	all   atomic.Uint64   // of all blocks
	parts []atomic.Uint64 // of blocks that share a place; there is a power of two of them
}

// maxParts is how many numbers a layer has at most.
const maxParts = 512

// New returns numbers for so many blocks, all 0.
func New(blocks uint64) Numbers {
	return Numbers{parts: make([]atomic.Uint64, Places(blocks, maxParts))}
}

// Places returns how many places so many blocks share: a power of two, at most the given one.
func Places(blocks, most uint64) uint64 {
	n := uint64(1)
	for n < most && n < blocks {
		n *= 2
	}
	return n
}

func (n *Numbers) part(blk uint64) *atomic.Uint64 { return &n.parts[blk&uint64(len(n.parts)-1)] }

// Changed notes that the commit with this number changes a block. It is called before the block is changed in memory.
func (n *Numbers) Changed(blk, number uint64) { raise(n.part(blk), number) }

// ChangedAll is Changed for every block.
func (n *Numbers) ChangedAll(number uint64) { raise(&n.all, number) }

// After reports whether a commit after the one with this number may have changed a block. A caller that has read the
// block in memory, and is told no then, has read it as that commit left it.
func (n *Numbers) After(blk, number uint64) bool {
	return max(n.all.Load(), n.part(blk).Load()) > number
}

// Bytes returns the memory that the numbers take.
func (n *Numbers) Bytes() int64 { return int64(len(n.parts)) * 8 }

// raise sets a to v if v is larger.
func raise(a *atomic.Uint64, v uint64) {
	for {
		old := a.Load()
		if old >= v || a.CompareAndSwap(old, v) {
			return
		}
	}
}
