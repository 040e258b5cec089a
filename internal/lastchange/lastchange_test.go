package lastchange_test

import (
	"testing"

	"github.com/sievekv/sievekv/internal/lastchange"
)

// A block counts as changed after every commit before the last one that changed it, or all blocks. Others that share
// its place may count as changed too.
func TestNumbers(t *testing.T) {
	for _, blocks := range []uint64{1, 2, 3, 512, 513, 1 << 30} {
		n := lastchange.New(blocks, 512)
		at := func(blk uint64) int { return n.Place(3, blk) }
		last := blocks - 1
		want := func(blk, number uint64, after bool) {
			t.Helper()
			if n.After(at(blk), number) != after {
				t.Errorf("of %d blocks, block %d changed after commit %d: %v, want %v", blocks, blk, number, !after, after)
			}
		}
		want(last, 0, false)
		n.Changed(at(last), 7)
		n.Changed(at(last), 5) // of another block at the same place
		want(last, 6, true)
		want(last, 7, false)
		if got := n.Last(at(last)); got != 7 {
			t.Errorf("of %d blocks, the last was changed by commit %d, want 7", blocks, got)
		}
		if blocks > 1 {
			want(last-1, 0, false)
		}
		n.ChangedAll(9)
		n.ChangedAll(8)
		want(0, 8, true)
		want(last, 9, false)
		if got := n.Bytes(); got > 512*8 {
			t.Errorf("the numbers of %d blocks take %d bytes, want at most 4096", blocks, got)
		}
	}
}

// While a commit changes blocks of a place, they count as changed, and a lookup can tell. Afterwards it can tell that they
// were changed, unless the commit failed.
func TestNumbers_changing(t *testing.T) {
	for _, number := range []uint64{0, 8} {
		n := lastchange.New(64, 64)
		n.Changed(1, 7)
		before := n.At(1)
		if !n.Begin(1) || n.Begin(1) {
			t.Error("the caller has to end what was begun twice, or never")
		}
		if !n.After(1, 100) || n.At(1)%2 != 1 {
			t.Error("a block that is changing counts as unchanged")
		}
		if n.Changed(1, number); n.At(1)%2 != 1 {
			t.Error("a change in memory ends what was begun")
		}
		n.End(1, number)
		if after := n.At(1); after%2 != 0 || (after == before) != (number == 0) || n.After(1, max(7, number)) {
			t.Errorf("commit %d: it was %d, is %d", number, before, after)
		}
	}
}

// Blocks of equal number in several layers have different places.
func TestNumbers_layers(t *testing.T) {
	n, places := lastchange.New(1<<20, 64), make(map[int]bool)
	for layer := range uint64(32) {
		places[n.Place(layer, 5)] = true
	}
	if len(places) != 32 {
		t.Errorf("32 layers have %d places", len(places))
	}
}
