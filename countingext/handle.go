package countingext

import (
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// Filter is a handle on the counting Bloom filter under a key. It holds no resources, and follows the key: if the key
// is deleted, renamed or replaced, the next use of the handle sees what is there then. A missing or expired key is
// kv.ErrNotFound, a key of another type kv.ErrWrongType.
type Filter struct {
	h     *handle
	level kv.Durability
}

type handle = scalableext.Handle[filter]

// noFilter is the filter of a new handle.
var noFilter = &filter{object: kv.EndedObject()}

// New returns a handle on a key. It reads nothing: the filter may be made later.
func New(db *kv.DB, key string) *Filter {
	return &Filter{h: scalableext.NewHandle(db, []byte(key), nil, noFilter)}
}

// With returns a handle on the same filter that writes at another level of durability, see sievekv.Counting.
func (f *Filter) With(level kv.Durability) *Filter { return &Filter{h: f.h, level: level} }

// In returns a handle on the same key in a transaction or snapshot. If that is nil or of another store, every use is an error.
func (f *Filter) In(s kv.Scope) *Filter {
	return &Filter{h: f.h.In(s, noFilter), level: f.level}
}

// Reserve makes an empty filter, see sievekv.Counting.
func (f *Filter) Reserve(c Config) error { return f.h.Reserve(f.level, c.spec) }

// ReserveStaged is Reserve in a commit of w, which must have been begun with the key.
func (f *Filter) ReserveStaged(w *kv.Writer, c Config) error { return f.h.ReserveStaged(w, c.spec) }

// OpenOrReserve makes a missing filter, or compares, see sievekv.Counting.
func (f *Filter) OpenOrReserve(c Config) error { return f.h.OpenOrReserve(f.level, c.spec, c.mismatch) }

// Drop removes the whole filter, see sievekv.Counting.
func (f *Filter) Drop() (bool, error) { return f.h.Drop(f.level) }

// MayContain reports whether the item may be in the filter: false means that it was never added, or was deleted as
// often as it was added. With an error it is true.
func (f *Filter) MayContain(item []byte) (bool, error) {
	h := f.h
	c := h.Current.Load()
	hash := c.hash.Sum(item)
	if h.DB.Counted(hash) {
		if present, known := h.CountedInMemory(c, c.object, hash); known {
			return present, nil
		}
	} else if present, known := c.InMemory(hash); known {
		return present, nil
	}
	return lookup(h, item)
}

// Touch counts a lookup for the cache.
func (f *filter) Touch(db *kv.DB, hash uint64) {
	for i := range f.layers {
		l := &f.layers[i]
		blk, _ := l.layout.Block(hash)
		db.Touch(f.object, l.table, blk)
	}
}

func lookup(h *handle, item []byte) (bool, error) {
	n, err := count(h, item, 1)
	return n > 0 || err != nil, err
}

// count returns how often an item was added; if enough is 1, only whether it was.
func count(h *handle, item []byte, enough uint64) (n uint64, err error) {
	var found *kv.Object
	err = h.Look(func(r kv.Reader, c *filter) (err error) {
		found = c.object
		n, err = c.count(r, c.hash.Sum(item), enough)
		return err
	})
	if err == nil {
		h.CountRead(found, n > 0)
	}
	return n, err
}

// Count returns how often the item was added and not deleted: never too low below MaxCount, which means that the
// count is not known any more. It is too high with about the probability of a false positive, because other items use
// its counters too, and if deletions were kept. With an error it is 0. If several layers seem to have the item, Count
// is the sum, because the item may have been added to each; mostly all but one are false positives.
func (f *Filter) Count(item []byte) (int, error) {
	n, err := count(f.h, item, MaxCount)
	if err != nil {
		return 0, err
	}
	return int(n), nil
}

// Add adds an item once more, and reports whether it was absent; false means that it may have been present. If an
// absent item has no room, the error is ErrFull or wraps ErrCannotGrow.
func (f *Filter) Add(item []byte) (bool, error) {
	return f.add(item, nil)
}

// add is Add, but makes a missing filter as spec says.
func (f *Filter) add(item []byte, spec scalableext.Spec) (bool, error) {
	return f.change(spec, func(s *stager) (bool, error) { return s.add(s.c.hash.Sum(item)) })
}

// Delete deletes an item once, and reports whether it seemed to be present. Only delete items that were added:
// deleting an item that was never added can, at the false-positive rate, count down the counters of other items and
// cause false negatives.
func (f *Filter) Delete(item []byte) (bool, error) {
	return f.change(nil, func(s *stager) (bool, error) { return s.remove(s.c.hash.Sum(item)) })
}

// change makes a commit of one change.
func (f *Filter) change(spec scalableext.Spec, stage func(*stager) (bool, error)) (bool, error) {
	return f.h.Change(f.level, spec, func(w *kv.Writer, c *filter) (bool, error) { return stage(newStager(w, c)) })
}

// entryBytes is the most that an item takes of a commit: its own operand of up to 64 slots.
const entryBytes = 256 + 32 + 3*probe.MaxHashes

// AddMany adds each item once more, and sets added[i] to whether items[i] was absent. It returns how many of added
// are true. added may be nil; otherwise it must be as long as items. Up to 4096 items are one commit, fewer if
// memtables are below 8 MiB; more items are several commits. An error is an *scalableext.ItemError for the first item
// that was not added: all items before it were added, and none after it. After kv.ErrFailed the outcome of that item
// and of up to 4095 after it is unknown.
func (f *Filter) AddMany(items [][]byte, added []bool) (n int, err error) {
	return scalableext.ChangeMany(f.h, f.level, items, added, f.h.BatchSize(entryBytes), func(w *kv.Writer, items [][]byte, added []bool) (int, error) {
		return addStaged(f, w, items, added, (*stager).add)
	})
}

// AddStaged adds items as part of a writer's commit, and sets added[i] as AddMany does. The writer must have been
// begun with the filter's key. If an item has no room, n is the number of items before it; later items are not staged
// and their answers are false.
func (f *Filter) AddStaged(w *kv.Writer, items [][]byte, added []bool) (int, error) {
	return addStaged(f, w, items, added, (*stager).add)
}

// AddIfAbsentStaged is AddStaged for items that are not present. It sets added[i] to whether it added items[i]; a
// repeated item is added once.
func (f *Filter) AddIfAbsentStaged(w *kv.Writer, items [][]byte, added []bool) (int, error) {
	return addStaged(f, w, items, added, (*stager).addIfAbsent)
}

func addStaged(
	f *Filter, w *kv.Writer, items [][]byte, added []bool, add func(s *stager, h uint64) (bool, error),
) (int, error) {
	if err := scalableext.SameLength(len(items), added); err != nil {
		return 0, err
	}
	c, err := f.h.Staged(w)
	if err != nil {
		return 0, err
	}
	s, block := newStager(w, c), c.Block
	if s.mayFill(c.chain.Newest(), uint64(len(items))) {
		block = nil
	}
	return scalableext.StageMany(f.h, items, added, c.hash, block, func(h uint64) (bool, error) { return add(s, h) })
}

// DeleteMany deletes each item once, and sets deleted[i] to whether items[i] seemed to be present. It returns how
// many of deleted are true. deleted may be nil; otherwise it must be as long as items. Its commits and errors are
// like the commits and errors of AddMany. See Delete.
func (f *Filter) DeleteMany(items [][]byte, deleted []bool) (n int, err error) {
	return scalableext.ChangeMany(f.h, f.level, items, deleted, f.h.BatchSize(entryBytes), func(w *kv.Writer, items [][]byte, deleted []bool) (int, error) {
		return deleteStaged(f, w, items, deleted)
	})
}

// DeleteStaged is DeleteMany as part of a writer's commit. The writer must have been begun with the filter's key.
func (f *Filter) DeleteStaged(w *kv.Writer, items [][]byte, deleted []bool) error {
	if err := scalableext.SameLength(len(items), deleted); err != nil {
		return err
	}
	_, err := deleteStaged(f, w, items, deleted)
	return err
}

func deleteStaged(f *Filter, w *kv.Writer, items [][]byte, deleted []bool) (int, error) {
	c, err := f.h.Staged(w)
	if err != nil {
		return 0, err
	}
	return scalableext.StageMany(f.h, items, deleted, c.hash, c.Block, newStager(w, c).remove)
}

// MayContainMany sets present[i] to what MayContain returns for items[i]. present must be as long as items. After an
// error all are true.
func (f *Filter) MayContainMany(items [][]byte, present []bool) error {
	return f.h.MayContainMany(len(items), present, func(r kv.Reader, c *filter) error {
		return scalableext.LookMany(f.h, c, r, items, present, c.hash)
	})
}
