package lastchange_test

import (
	"testing"

	"github.com/sievekv/sievekv/kv/lastchange"
)

// A block counts as changed after every commit before the last one that changed it, or all blocks. Others that share
// its number may count as changed too.
func TestNumbers(t *testing.T) {
	for _, blocks := range []uint64{1, 2, 3, 512, 513, 1 << 30} {
		n := lastchange.New(blocks)
		last := blocks - 1
		want := func(blk, number uint64, after bool) {
			t.Helper()
			if n.After(blk, number) != after {
				t.Errorf("of %d blocks, block %d changed after commit %d: %v, want %v", blocks, blk, number, !after, after)
			}
		}
		want(last, 0, false)
		n.Changed(last, 7)
		n.Changed(last, 5) // commits to other blocks with the same number may come in any order
		want(last, 6, true)
		want(last, 7, false)
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
