package cuckooext

import (
	"context"
	"math"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// Filter is a handle on the cuckoo filter under a key. It holds no resources, and follows the key: if the key is
// deleted, renamed or replaced, the next use of the handle sees what is there then. A missing or expired key is
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

// With returns a handle on the same filter that writes at another level of durability, see sievekv.Cuckoo.
func (f *Filter) With(level kv.Durability) *Filter { return &Filter{h: f.h, level: level} }

// In returns a handle on the same key in a transaction or snapshot. If that is nil or of another store, every use is an error.
func (f *Filter) In(s kv.Scope) *Filter {
	return &Filter{h: f.h.In(s, noFilter), level: f.level}
}

// Reserve makes an empty filter, see sievekv.Cuckoo.
func (f *Filter) Reserve(c Config) error { return f.h.Reserve(f.level, c.spec) }

// ReserveStaged is Reserve in a commit of w, which must have been begun with the key.
func (f *Filter) ReserveStaged(w *kv.Writer, c Config) error { return f.h.ReserveStaged(w, c.spec) }

// OpenOrReserve makes a missing filter, or compares, see sievekv.Cuckoo.
func (f *Filter) OpenOrReserve(c Config) error { return f.h.OpenOrReserve(f.level, c.spec, c.mismatch) }

// Drop removes the whole filter, see sievekv.Cuckoo.
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
		db.Touch(f.object, l.table, l.block(hash))
	}
}

func lookup(h *handle, item []byte) (bool, error) {
	n, err := count(h, item, 1)
	return n > 0 || err != nil, err
}

// count returns the number of copies of an item; if enough is 1, only whether there is one.
func count(h *handle, item []byte, enough int) (n int, err error) {
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

// Count returns how often the item was added and not deleted. It is too high with about the probability of a false
// positive. With an error it is 0. A layer holds at most twice the bucket size of copies, or half of that for the few
// items whose two buckets are the same.
func (f *Filter) Count(item []byte) (int, error) {
	n, err := count(f.h, item, math.MaxInt)
	if err != nil {
		return 0, err
	}
	return n, nil
}

// Add adds one more copy of an item, and reports whether it was absent; false means that it may have been present. If
// there is no room, the error is ErrFull or ErrCannotGrow.
func (f *Filter) Add(item []byte) (bool, error) {
	return f.adding(nil, func(s *stager) (bool, error) { return s.addAgain(s.c.hash.Sum(item)) })
}

// AddIfAbsent adds an item unless it may be present, and reports whether it did. If it did not, the item may be absent
// and only look like another one. So only a caller that has added the item may delete it later. The errors are those
// of Add.
func (f *Filter) AddIfAbsent(item []byte) (bool, error) { return f.addIfAbsent(item, nil) }

// addIfAbsent is AddIfAbsent, but makes a missing filter as spec says.
func (f *Filter) addIfAbsent(item []byte, spec scalableext.Spec) (bool, error) {
	h := f.h
	c := h.Current.Load()
	if s := c.object.Memory().BeginSlots(); s.Usable() {
		hash := c.hash.Sum(item)
		present, _ := c.inMemory(&s, hash)
		present = present && (!c.compatible || int64(len(c.layers)) < maxLayers(h.DB)) // see stager.mayAdd
		if h.DB.Sampled(hash) {
			c.Touch(h.DB, hash)
		}
		// Halves of two fingerprints must not look like the item's and keep it from being added, nor may the item be of the key
		// that the filter was renamed to.
		if present && s.Valid() {
			h.CountKnown(c.object, hash)
			return false, h.DB.Acknowledge(c.object, f.level)
		}
	}
	return f.adding(spec, func(s *stager) (bool, error) { return s.addIfAbsent(s.c.hash.Sum(item)) })
}

// Delete deletes one copy of an item, and reports whether there was one. Only delete items that were added: deleting
// an item that was never added can, at the false-positive rate, remove the entry of another item and cause false
// negatives.
func (f *Filter) Delete(item []byte) (bool, error) {
	return f.change(nil, func(s *stager) (bool, error) { return s.remove(s.c.hash.Sum(item)) })
}

// change makes a commit of one change.
func (f *Filter) change(spec scalableext.Spec, stage func(*stager) (bool, error)) (bool, error) {
	return f.h.Change(f.level, spec, func(w *kv.Writer, c *filter) (bool, error) { return stage(newStager(w, c)) })
}

// adding is change for a change that adds items.
func (f *Filter) adding(spec scalableext.Spec, stage func(*stager) (bool, error)) (bool, error) {
	return f.change(spec, func(s *stager) (bool, error) {
		if err := s.mayAdd(); err != nil {
			return false, err
		}
		return stage(s)
	})
}

// addAgain stages one more copy of an item, and reports whether it was absent.
func (s *stager) addAgain(h uint64) (bool, error) {
	layers := s.c.layers[1:] // add itself looks at the newest layer
	if s.c.compatible {
		layers = s.c.layers
	}
	present, err := s.mayContainIn(layers, h)
	if err != nil {
		return false, err
	}
	s.met = present
	err = s.add(h)
	if err == nil {
		s.c.object.Uses().Add(!s.met)
	}
	return !s.met && err == nil, err
}

// addAnyway stages one more copy of an item without a look for others.
func (s *stager) addAnyway(h uint64) (bool, error) {
	err := s.add(h)
	if err == nil {
		s.c.object.Uses().Add(true)
	}
	return err == nil, err
}

func (s *stager) addIfAbsent(h uint64) (bool, error) {
	present, err := s.mayContainIn(s.c.layers, h)
	if err != nil {
		return false, err
	}
	if present {
		s.c.object.Uses().Add(false)
		return false, nil
	}
	return s.addAnyway(h)
}

// entryBytes is roughly the most that an item takes of a commit: an operand of a few slots.
const entryBytes = operandBytes + 8*slotBytes

// AddMany adds one more copy of each item, and sets added[i] to whether items[i] was absent and is added. It returns
// how many of added are true. added may be nil; otherwise it must be as long as items. Up to 4096 items are one
// commit, fewer if memtables are below 8 MiB; more items are several commits.
//
// AddMany tries all items: if some have no room, the error is an *scalableext.ItemError for the first of them. Any
// other error ends it: the items of earlier commits are added, and the ItemError is for the first item of the others.
// After kv.ErrFailed the outcome of that commit is unknown.
func (f *Filter) AddMany(items [][]byte, added []bool) (n int, err error) {
	var full error
	start := 0
	n, err = scalableext.EachBatch(items, added, f.h.BatchSize(entryBytes), func(items [][]byte, added []bool) (int, error) {
		done := len(items)
		_, err := f.adding(nil, func(s *stager) (_ bool, err error) {
			enough := s.enough(f.h)
			for i, item := range items {
				if i > 0 && enough() {
					done = i
					break
				}
				switch added[i], err = s.addAgain(s.c.hash.Sum(item)); {
				case err == nil:
				case !scalableext.NoRoom(err):
					return false, err
				default:
					added[i] = false
					if full == nil {
						full = &scalableext.ItemError{Item: start + i, Err: err}
					}
				}
			}
			return true, nil
		})
		if err != nil {
			return 0, err
		}
		start += done
		return done, nil
	})
	if err == nil {
		err = full
	}
	return n, err
}

// DeleteMany deletes one copy of each item, and sets deleted[i] to whether items[i] seemed to be present. It returns
// how many of deleted are true. deleted may be nil; otherwise it must be as long as items. Its commits are like those
// of AddMany. An error is an *scalableext.ItemError for the first item that was not tried. See Delete.
func (f *Filter) DeleteMany(items [][]byte, deleted []bool) (n int, err error) {
	return scalableext.ChangeMany(f.h, f.level, items, deleted, f.h.BatchSize(entryBytes), func(w *kv.Writer, items [][]byte, deleted []bool) (int, error) {
		c, err := f.h.Staged(w)
		if err != nil {
			return 0, err
		}
		return scalableext.StageMany(f.h, items, deleted, c.hash, nil, newStager(w, c).remove)
	})
}

// AddIfAbsentStaged adds the items that are not present as part of a writer's commit, and sets added[i] to whether it
// added items[i]; a repeated item is added once. The writer must have been begun with the filter's key. If an item
// has no room, n is the number of items before it, later items are not staged, and the error is the same as of Add. added
// must be as long as items.
func (f *Filter) AddIfAbsentStaged(w *kv.Writer, items [][]byte, added []bool) (n int, err error) {
	if err := scalableext.SameLength(len(items), added); err != nil {
		return 0, err
	}
	c, err := f.h.Staged(w)
	if err != nil {
		return 0, err
	}
	s := newStager(w, c)
	if err := s.mayAdd(); err != nil {
		return 0, err
	}
	return scalableext.StageMany(f.h, items, added, c.hash, nil, s.addIfAbsent)
}

// MayContainMany sets present[i] to what MayContain returns for items[i]. present must be as long as items. After an
// error all are true.
func (f *Filter) MayContainMany(items [][]byte, present []bool) error {
	return f.h.MayContainMany(len(items), present, func(r kv.Reader, c *filter) error {
		return scalableext.LookMany(f.h, c, r, items, present, c.hash)
	})
}

// Compact moves entries of the newest layer into room that deletions have left in older layers, and removes the
// newest layer if it becomes empty. Then it goes on with the next layer, as long as entries find room without moving
// others. If there is much to move, it makes several commits of about 256 KiB each; in a transaction it is part of
// that. If the compaction service runs, the store does this by itself some time after many deletions.
func (f *Filter) Compact() error { return f.compact(context.Background()) }

// compact is Compact, but stops when a context ends.
func (f *Filter) compact(ctx context.Context) error {
	at := cursor{layer: math.MaxInt}
	for anew := true; ; anew = false {
		if err := ctx.Err(); err != nil {
			return err
		}
		more, err := f.h.Change(f.level, nil, func(w *kv.Writer, c *filter) (bool, error) {
			if c.compatible {
				return newStager(w, c).compactFrom(&at, max(leastBudget, min(compactBudget, f.h.DB.MaxCommit()/2)), true)
			}
			if anew {
				w.SetCounter(c.layers[0].table, compactedCounter, 0)
			}
			return compact(w, c.object, min(compactBudget, f.h.DB.MaxCommit()/2))
		})
		if err != nil || !more {
			return err
		}
	}
}
