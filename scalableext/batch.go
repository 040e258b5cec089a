package scalableext

import (
	"cmp"
	"slices"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/hash"
)

// BatchItem is one item of a batch.
type BatchItem struct {
	Hash  uint64
	Block uint64 // of the newest layer
	I     int    // its place in the batch
}

// sortByBlock puts items into the order of their blocks, which is the same in every layer: blocks that are
// not resident are then read in the order they are stored in, and each once however small the
// cache. Items of one block keep their order among themselves.
func sortByBlock(items []BatchItem) {
	slices.SortFunc(items, func(a, b BatchItem) int {
		if a.Block != b.Block {
			return cmp.Compare(a.Block, b.Block)
		}
		return a.I - b.I
	})
}

// Lookups is what LookMany has to know of a filter.
type Lookups interface {
	Block(hash uint64) uint64 // of the newest layer
	Touch(db *kv.DB, hash uint64)

	// Resident answers from resident blocks alone; known is false if they do not tell.
	Resident(hash uint64) (present, known bool)

	// Load answers, and reads what is not resident.
	Load(r kv.Reader, hash uint64) (present bool, err error)
}

// LookMany sets present[i] to whether items[i] may be in a filter: first those that resident blocks tell, and then
// the others, in the order of their blocks.
func LookMany[F, T any](
	h *Handle[F], c Lookups, r kv.Reader, items []T, present []bool, f hash.Function, sum func(hash.Function, T) uint64,
) error {
	var cold []BatchItem
	for i, item := range items {
		if err := h.GivenUp(i); err != nil {
			return err
		}
		itemHash, known := sum(f, item), false
		if h.Tx == nil { // what is in memory is not what a transaction sees
			if i == 0 && h.DB.Sampled(itemHash) {
				c.Touch(h.DB, itemHash)
			}
			present[i], known = c.Resident(itemHash)
		}
		if !known {
			cold = append(cold, BatchItem{itemHash, c.Block(itemHash), i})
		}
	}
	return LoadMany(h, cold, present, func(hash uint64) (bool, error) { return c.Load(r, hash) })
}

// LoadMany sets the answers of items that load has to tell, in the order of their blocks.
func LoadMany[F any](h *Handle[F], items []BatchItem, present []bool, load func(hash uint64) (bool, error)) (err error) {
	sortByBlock(items)
	for i, item := range items {
		if err := h.GivenUp(i); err != nil {
			return err
		}
		if present[item.I], err = load(item.Hash); err != nil {
			return err
		}
	}
	return nil
}

// MayContainMany has look set present for so many items, and after an error sets all of it to true.
func (h *Handle[F]) MayContainMany(items int, present []bool, look func(kv.Reader, *F) error) error {
	err := SameLength(items, present)
	if err != nil {
		return err
	}
	if err = h.Look(look); err != nil {
		for i := range present {
			present[i] = true
		}
	}
	return err
}

// StageMany has change stage what is to be done with each item, by its hash, and keeps its answers: in the order given,
// where n is the number of items before the first that cannot be done, or, if block is not nil, in the order of
// the items' blocks, so that a block that is not resident is read once however small the cache.
func StageMany[F, T any](
	h *Handle[F], items []T, answers []bool, f hash.Function, sum func(hash.Function, T) uint64,
	block func(hash uint64) uint64, change func(hash uint64) (bool, error),
) (n int, err error) {
	clear(answers)
	if block == nil {
		for i, item := range items {
			if err := h.GivenUp(i); err != nil {
				return i, err
			}
			if answers[i], err = change(sum(f, item)); err != nil {
				return i, err
			}
		}
		return len(items), nil
	}
	batch := make([]BatchItem, len(items))
	for i, item := range items {
		itemHash := sum(f, item)
		batch[i] = BatchItem{itemHash, block(itemHash), i}
	}
	if err := LoadMany(h, batch, answers, change); err != nil {
		return 0, err
	}
	return len(items), nil
}

// ChangeMany makes commits of batches of items, each of which takes so many bytes of one at most. Stage stages a batch,
// and returns how many items are done.
func ChangeMany[F, T any](
	h *Handle[F], level kv.Durability, items []T, answers []bool, itemBytes int,
	stage func(w *kv.Writer, items []T, answers []bool) (int, error),
) (n int, err error) {
	return EachBatch(items, answers, h.BatchSize(itemBytes), func(items []T, answers []bool) (int, error) {
		return h.writeItems(level, func(w *kv.Writer) (int, error) { return stage(w, items, answers) })
	})
}
