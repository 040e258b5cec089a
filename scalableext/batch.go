package scalableext

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/kv"
)

// BatchItem is one item of a batch.
type BatchItem struct {
	Hash  uint64
	Block uint64 // of the newest layer
	I     int    // index in the batch
}

// sortByBlock sorts items by their blocks, whose order is the same in every layer. So blocks that are not resident
// are read in the order in which they are stored, and each only once: a writer keeps the last block it has read, and a
// reader needs a cache with room for one block of each layer. Items of one block keep their order. It may return other
// memory than it was given.
func sortByBlock(items []BatchItem) []BatchItem {
	const digit, few = 8, 64 // bits, and items that are sorted faster otherwise
	highest := uint64(0)
	for i := range items {
		highest |= items[i].Block
	}
	passes := (bits.Len64(highest) + digit - 1) / digit
	if len(items) < few {
		slices.SortStableFunc(items, func(a, b BatchItem) int { return cmp.Compare(a.Block, b.Block) })
		return items
	}
	// A radix sort: a stable sort by each digit, the lowest first.
	spare := make([]BatchItem, len(items))
	for shift := 0; shift < passes*digit; shift += digit {
		var next [1 << digit]int // where the next item with a digit goes
		for i := range items {
			next[items[i].Block>>shift&(1<<digit-1)]++
		}
		sum := 0
		for i, n := range next {
			next[i], sum = sum, sum+n
		}
		for _, item := range items {
			d := item.Block >> shift & (1<<digit - 1)
			spare[next[d]] = item
			next[d]++
		}
		items, spare = spare, items
	}
	return items
}

// Hashes returns the hashes of items.
func Hashes(items [][]byte, f hash.Function) []uint64 {
	hashes := make([]uint64, len(items))
	for i, item := range items {
		hashes[i] = f.Sum(item)
	}
	return hashes
}

// Sorted returns hashes in the order of their blocks, see sortByBlock. The index of the first hash is 0.
func Sorted(hashes []uint64, block func(hash uint64) uint64) []BatchItem {
	batch := make([]BatchItem, len(hashes))
	for i, h := range hashes {
		batch[i] = BatchItem{h, block(h), i}
	}
	return sortByBlock(batch)
}

// Lookups has the methods of a filter that LookMany needs.
type Lookups interface {
	Block(hash uint64) uint64 // of the newest layer
	Touch(db *kv.DB, hash uint64)

	// InMemory answers from memory alone. If it does not decide, known is false.
	InMemory(hash uint64) (present, known bool)

	// Load answers, and reads blocks that are not resident.
	Load(r kv.Reader, hash uint64) (present bool, err error)
}

// LookMany sets present[i] to whether items[i] may be in a filter. First it answers from resident blocks, then it
// loads the other blocks in order.
func LookMany[F any](
	h *Handle[F], c Lookups, r kv.Reader, items [][]byte, present []bool, f hash.Function,
) error {
	var cold []BatchItem
	for i, item := range items {
		if err := h.GivenUp(i); err != nil {
			return err
		}
		itemHash, known := f.Sum(item), false
		if h.Tx == nil { // resident blocks lack what the transaction has staged
			if i == 0 && h.DB.Sampled(itemHash) {
				c.Touch(h.DB, itemHash)
			}
			present[i], known = c.InMemory(itemHash)
		}
		if !known {
			cold = append(cold, BatchItem{itemHash, c.Block(itemHash), i})
		}
	}
	return LoadMany(h, cold, present, func(hash uint64) (bool, error) { return c.Load(r, hash) })
}

// LoadMany sets the answers of items with load, in the order of their blocks.
func LoadMany[F any](h *Handle[F], items []BatchItem, present []bool, load func(hash uint64) (bool, error)) (err error) {
	return loadSorted(h, sortByBlock(items), present, load)
}

// loadSorted is LoadMany for items that are in order.
func loadSorted[F any](h *Handle[F], items []BatchItem, present []bool, load func(hash uint64) (bool, error)) (err error) {
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

// MayContainMany calls look to set present, which must have that many elements. After an error it sets all of them to
// true.
func (h *Handle[F]) MayContainMany(items int, present []bool, look func(kv.Reader, *F) error) error {
	if err := SameLength(items, present); err != nil {
		return err
	}
	var found *kv.Object
	err := h.Read(func(r kv.Reader) error {
		o, f, err := h.Find(r)
		if err != nil {
			return err
		}
		found = o
		return look(r, f)
	})
	if err != nil {
		for i := range present {
			present[i] = true
		}
		return err
	}
	h.countMany(found, present)
	return nil
}

// StageMany calls change with the hash of each item, and keeps its answers. If block is nil, it does so in the order
// given, and n is the number of items before the first that fails. Otherwise it does so in the order of the items'
// blocks, so that each block that is not resident is read only once, see sortByBlock.
func StageMany[F any](
	h *Handle[F], items [][]byte, answers []bool, f hash.Function,
	block func(hash uint64) uint64, change func(hash uint64) (bool, error),
) (n int, err error) {
	clear(answers)
	if block == nil {
		for i, item := range items {
			if err := h.GivenUp(i); err != nil {
				return i, err
			}
			if answers[i], err = change(f.Sum(item)); err != nil {
				return i, err
			}
		}
		return len(items), nil
	}
	batch := Sorted(Hashes(items, f), block)
	if err := loadSorted(h, batch, answers, change); err != nil {
		return 0, err
	}
	return len(items), nil
}

// ChangeMany changes items in commits, each of at most size items. stage stages as many of the items as fit into the
// commit, at least one, and returns their number.
func ChangeMany[F any](
	h *Handle[F], level kv.Durability, items [][]byte, answers []bool, size int,
	stage func(w *kv.Writer, items [][]byte, answers []bool) (int, error),
) (n int, err error) {
	return EachBatch(items, answers, size, func(items [][]byte, answers []bool) (int, error) {
		return h.WriteItems(level, func(w *kv.Writer) (int, error) { return stage(w, items, answers) })
	})
}
