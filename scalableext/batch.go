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
	I     int    // index in the batch
}

// sortByBlock sorts items by their blocks, whose order is the same in every layer. So blocks that are not resident
// are read in the order in which they are stored, and each only once, however small the cache. Items of one block
// keep their order.
func sortByBlock(items []BatchItem) {
	slices.SortFunc(items, func(a, b BatchItem) int {
		if a.Block != b.Block {
			return cmp.Compare(a.Block, b.Block)
		}
		return a.I - b.I
	})
}

// Lookups has the methods of a filter that LookMany needs.
type Lookups interface {
	Block(hash uint64) uint64 // of the newest layer
	Touch(db *kv.DB, hash uint64)

	// Resident answers from resident blocks alone. If they do not decide, known is false.
	Resident(hash uint64) (present, known bool)

	// Load answers, and reads blocks that are not resident.
	Load(r kv.Reader, hash uint64) (present bool, err error)
}

// LookMany sets present[i] to whether items[i] may be in a filter. First it answers from resident blocks, then it
// loads the other blocks in order.
func LookMany[F, T any](
	h *Handle[F], c Lookups, r kv.Reader, items []T, present []bool, f hash.Function, sum func(hash.Function, T) uint64,
) error {
	var cold []BatchItem
	for i, item := range items {
		if err := h.GivenUp(i); err != nil {
			return err
		}
		itemHash, known := sum(f, item), false
		if h.Tx == nil { // resident blocks lack what the transaction has staged
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

// LoadMany sets the answers of items with load, in the order of their blocks.
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

// MayContainMany calls look to set present, which must have so many elements. After an error it sets all of them to
// true.
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

// StageMany calls change with the hash of each item, and keeps its answers. If block is nil, it does so in the order
// given, and n is the number of items before the first that fails. Otherwise it does so in the order of the items'
// blocks, so that each block that is not resident is read only once, however small the cache.
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

// ChangeMany changes items in commits, each for a batch of items. itemBytes is the most that an item takes of a
// commit. stage stages a batch, and returns how many items it did.
func ChangeMany[F, T any](
	h *Handle[F], level kv.Durability, items []T, answers []bool, itemBytes int,
	stage func(w *kv.Writer, items []T, answers []bool) (int, error),
) (n int, err error) {
	return EachBatch(items, answers, h.BatchSize(itemBytes), func(items []T, answers []bool) (int, error) {
		return h.writeItems(level, func(w *kv.Writer) (int, error) { return stage(w, items, answers) })
	})
}
