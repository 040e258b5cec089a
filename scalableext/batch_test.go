package scalableext_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/scalableext"
)

// Sorted sorts by block. Items of one block keep their order, few items and many.
func TestSorted(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for _, blocks := range []uint64{1, 2, 255, 256, 257, 70_000, 1 << 33} {
		for _, n := range []int{0, 1, 100, 255, 256, 3000} {
			items := make([]uint64, n)
			var want []scalableext.BatchItem
			for i := range items {
				items[i] = random.Uint64N(blocks) << 8
				want = append(want, scalableext.BatchItem{Hash: items[i], Block: items[i] >> 8, I: i})
			}
			slices.SortStableFunc(want, func(a, b scalableext.BatchItem) int { return cmp.Compare(a.Block, b.Block) })
			got := scalableext.Sorted(items, func(hash uint64) uint64 { return hash >> 8 })
			if !slices.Equal(got, want) {
				t.Errorf("%d items of %d blocks are not sorted, or not stable", n, blocks)
			}
		}
	}
}

// EachBatch goes on behind what a commit has done, counts the answers of what was done, and says which item failed.
func TestEachBatch(t *testing.T) {
	failed := errors.New("failed")
	for _, tt := range []struct {
		items, size int
		done        []int // by each commit
		fails       bool  // the last commit does, after those it has done
		n, item     int   // answers that are true, and the item that failed
	}{
		{0, 4, nil, false, 0, 0},
		{10, 4, []int{4, 4, 2}, false, 5, 0},
		{10, 100, []int{3, 6, 1}, false, 5, 0},
		{10, 4, []int{1, 4, 3, 2}, false, 5, 0},
		{10, 4, []int{3, 1}, true, 2, 4},
		{10, 4, []int{0}, true, 0, 0},
	} {
		for _, withAnswers := range []bool{true, false} {
			t.Run(fmt.Sprint(tt, withAnswers), func(t *testing.T) {
				items := make([]int, tt.items)
				for i := range items {
					items[i] = i
				}
				var answers []bool
				if withAnswers {
					answers = make([]bool, tt.items)
				}
				at, calls := 0, 0
				n, err := scalableext.EachBatch(items, answers, tt.size, func(items []int, answers []bool) (int, error) {
					if len(items) != min(tt.size, tt.items-at) || len(answers) != len(items) || items[0] != at {
						t.Fatalf("a commit gets %d items from %d on, and %d answers", len(items), items[0], len(answers))
					}
					for i := range answers {
						answers[i] = items[i]%2 == 0 // also behind what is done
					}
					done := tt.done[calls]
					at, calls = at+done, calls+1
					if calls == len(tt.done) && tt.fails {
						return done, failed
					}
					return done, nil
				})
				var item *scalableext.ItemError
				switch {
				case n != tt.n || calls != len(tt.done):
					t.Errorf("%d answers are true after %d commits, want %d after %d", n, calls, tt.n, len(tt.done))
				case tt.fails != errors.As(err, &item), tt.fails && (item.Item != tt.item || !errors.Is(err, failed)):
					t.Errorf("the error is %v", err)
				}
				for i, yes := range answers {
					if yes != (i%2 == 0 && (!tt.fails || i < tt.item)) {
						t.Errorf("answer %d is %v", i, yes)
					}
				}
			})
		}
	}
}
