package scalableext

import (
	"cmp"
	"slices"

	"github.com/sievekv/sievekv/kv/hash"
)

// Question is one item of a batch.
type Question struct {
	Hash uint64
	I    int // its place in the batch
}

// Questions returns the items with their hashes.
func Questions[T any](items []T, f hash.Function, sum func(hash.Function, T) uint64) []Question {
	asked := make([]Question, len(items))
	for i, item := range items {
		asked[i] = Question{sum(f, item), i}
	}
	return asked
}

// SortByBlock puts items into the order of their blocks, which is that of the hashes where
// the highest bits of these choose the block, in every layer: blocks that are not resident are
// then read in the order they are stored in, and a writer reads each once however small the
// cache. Equal items keep their order among themselves.
func SortByBlock(asked []Question) {
	slices.SortStableFunc(asked, func(a, b Question) int { return cmp.Compare(a.Hash, b.Hash) })
}
