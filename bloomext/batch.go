package bloomext

import (
	"slices"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/hash"
	"github.com/sievekv/sievekv/kv/probe"
	"github.com/sievekv/sievekv/scalableext"
)

// entryBytes is the most that an item takes of a commit: an operand of its own of up to 64
// positions.
const entryBytes = 256 + 32 + 2*probe.MaxHashes

// group is the number of lookups whose memory is asked for at once.
const group = 64

// AddMany adds items and sets added[i] to whether items[i] is new; a repeat in
// the batch is not. It returns how many are new. added may be nil, and must be as long as
// items otherwise. Up to 4096 items are one commit, fewer with memtables below 8 MiB; longer
// batches are several. An error is an *scalableext.ItemError that tells the first item that was
// not added: those before it are, and no others.
func (f *Filter) AddMany(items [][]byte, added []bool) (n int, err error) {
	return addMany(f, items, added, hash.Function.Sum)
}

// AddManyString is AddMany for strings.
func (f *Filter) AddManyString(items []string, added []bool) (n int, err error) {
	return addMany(f, items, added, hash.Function.SumString)
}

// AddManyUint64 is AddMany for the 8 bytes of each item in little-endian order.
func (f *Filter) AddManyUint64(items []uint64, added []bool) (n int, err error) {
	return addMany(f, items, added, hash.Function.SumUint64)
}

func addMany[T any](f *Filter, items []T, added []bool, sum func(hash.Function, T) uint64) (n int, err error) {
	return scalableext.EachBatch(items, added, f.h.BatchSize(entryBytes), func(items []T, added []bool) (int, error) {
		return f.h.WriteItems(f.level, func(w *kv.Writer) (int, error) { return stageMany(f.h, w, items, added, sum) })
	})
}

// AddStaged adds items as part of a writer's commit, and sets added[i] as AddMany does. The
// writer was begun with the filter's key. Items after the one that had no room are not staged,
// their answers are false, and n is the number of those before it.
func (f *Filter) AddStaged(w *kv.Writer, items [][]byte, added []bool) (n int, err error) {
	if err := scalableext.SameLength(len(items), added); err != nil {
		return 0, err
	}
	return stageMany(f.h, w, items, added, hash.Function.Sum)
}

// stageMany stages items in the order of their blocks, so that a block that is
// not resident is read once however small the cache; equal items keep their
// order among themselves. Where the filter may fill up it is the order given
// that counts.
func stageMany[T any](h *handle, w *kv.Writer, items []T, added []bool, sum func(hash.Function, T) uint64) (int, error) {
	c, err := h.Staged(w)
	if err != nil {
		return 0, err
	}
	newest := c.chain.Newest()
	clear(added)
	s := stager{w, c}
	inOrder := s.mayFill(newest, uint64(len(items)))
	if inOrder || len(items) == 1 || newest.layout.Blocks == 1 {
		for i, item := range items {
			if err := h.GivenUp(i); err != nil {
				return i, err
			}
			if added[i], err = s.add(sum(c.hash, item)); err != nil {
				return i, err
			}
		}
		return len(items), nil
	}
	asked := make([]question, len(items))
	for i, item := range items {
		hash := sum(c.hash, item)
		blk, _ := newest.layout.Block(hash)
		asked[i] = question{hash: hash, blk: blk, i: i}
	}
	slices.SortFunc(asked, question.compare)
	for i, q := range asked {
		if err := h.GivenUp(i); err != nil {
			return 0, err
		}
		if added[q.i], err = s.add(q.hash); err != nil {
			return 0, err
		}
	}
	return len(items), nil
}

// question is one item of a batch.
type question struct {
	hash, blk uint64
	i         int // its place in the batch
}

func (q question) compare(r question) int {
	switch {
	case q.blk != r.blk:
		if q.blk < r.blk {
			return -1
		}
		return 1
	default:
		return q.i - r.i
	}
}

// MayContainMany sets present[i] to whether items[i] may have been added. present
// must be as long as items. All answers are as of one moment with respect to
// deleting, renaming and replacing the filter. With an error all are true.
func (f *Filter) MayContainMany(items [][]byte, present []bool) error {
	return mayContainMany(f, items, present, hash.Function.Sum)
}

// MayContainManyString is MayContainMany for strings.
func (f *Filter) MayContainManyString(items []string, present []bool) error {
	return mayContainMany(f, items, present, hash.Function.SumString)
}

// MayContainManyUint64 is MayContainMany for the 8 bytes of each item in
// little-endian order.
func (f *Filter) MayContainManyUint64(items []uint64, present []bool) error {
	return mayContainMany(f, items, present, hash.Function.SumUint64)
}

func mayContainMany[T any](f *Filter, items []T, present []bool, sum func(hash.Function, T) uint64) error {
	if err := scalableext.SameLength(len(items), present); err != nil {
		return err
	}
	err := f.h.Read(func(r kv.Reader) error {
		c, err := f.h.Find(r)
		if err != nil {
			return err
		}
		return askMany(f.h, c, r, items, present, sum)
	})
	if err != nil {
		for i := range present {
			present[i] = true
		}
	}
	return err
}

// askMany answers groups of items from resident blocks, having asked for the
// memory of all of a group before it looks at the first, and then reads each
// block that is missing once, in the order they are stored in.
func askMany[T any](h *handle, c *filter, r kv.Reader, items []T, present []bool, sum func(hash.Function, T) uint64) error {
	var cold []question
	var hashes [group]uint64
	for start := 0; start < len(items); start += group {
		if err := h.GivenUp(start); err != nil {
			return err
		}
		part := items[start:min(start+group, len(items))]
		for i, item := range part {
			hashes[i] = sum(c.hash, item)
		}
		if h.Tx == nil && h.DB.Sampled(hashes[0]) {
			c.touch(h.DB, hashes[0])
		}
		if h.Tx == nil {
			c.touchMemory(hashes[:len(part)])
		}
		for i := range part {
			// What is in memory is not what a transaction sees.
			answer, known := false, false
			if h.Tx == nil {
				answer, known = c.resident(hashes[i])
			}
			present[start+i] = answer
			if !known && !answer {
				blk, _ := c.chain.Newest().layout.Block(hashes[i])
				cold = append(cold, question{hash: hashes[i], blk: blk, i: start + i})
			}
		}
	}
	if len(cold) == 0 {
		return nil
	}
	slices.SortFunc(cold, question.compare)
	kept := make([]loaded, len(c.layers))
	for i, q := range cold {
		if err := h.GivenUp(i); err != nil {
			return err
		}
		answer, err := c.load(r, q.hash, kept)
		if err != nil {
			return err
		}
		present[q.i] = answer
	}
	return nil
}

// touchMemory loads a word of each item's line in the newest layer, so that the
// loads wait for memory side by side.
func (f *filter) touchMemory(hashes []uint64) {
	l := &f.layers[0]
	var sum uint64
	for _, hash := range hashes {
		blk, rest := l.layout.Block(hash)
		if first := l.table.Resident(blk); first != nil {
			sum += l.layout.Touch(first, rest)
		}
	}
	keepAlive(sum)
}

// keepAlive makes the compiler believe that a value is used.
//
//go:noinline
func keepAlive(uint64) {}
