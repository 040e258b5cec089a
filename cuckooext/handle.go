package cuckooext

import (
	"context"
	"fmt"
	"math"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// Filter is a handle on the cuckoo filter under a key. It holds no resources and
// follows the key: when the key is deleted, renamed away, or another filter is renamed
// over it, the handle's next use is about what is there then. A missing or expired key
// is kv.ErrNotFound, one of another type kv.ErrWrongType.
type Filter struct {
	h     *handle
	level kv.Durability
}

type handle = scalableext.Handle[filter]

// noFilter is where a handle begins.
var noFilter = &filter{object: kv.EndedObject()}

// New returns a handle on a key. It reads nothing: the filter may be made later.
func New(db *kv.DB, key string) *Filter {
	return &Filter{h: scalableext.NewHandle(db, []byte(key), nil, noFilter)}
}

// With returns a handle on the same filter whose writes are made at another level of
// durability.
func (f *Filter) With(level kv.Durability) *Filter { return &Filter{h: f.h, level: level} }

// In returns a handle on the same key that reads and writes as part of a transaction,
// until that ends. Its level of durability is the transaction's. If that is of another
// store, every use of the handle returns kv.ErrOtherStore.
func (f *Filter) In(s kv.Scope) *Filter {
	return &Filter{h: f.h.In(s, noFilter), level: f.level}
}

// Reserve makes an empty filter under the key. It returns kv.ErrExists if the key
// holds anything, which is kv.ErrWrongType too if that is no such filter,
// ErrConfig for a Config out of range, and kv.ErrTooLarge for a filter above
// Options.MaxFilterBytes.
func (f *Filter) Reserve(c Config) error { return f.h.Reserve(f.level, c.spec) }

// ReserveStaged is Reserve as part of a writer's commit. The writer was begun with the
// filter's key.
func (f *Filter) ReserveStaged(w *kv.Writer, c Config) error { return f.h.ReserveStaged(w, c.spec) }

// OpenOrReserve makes the filter if there is none under the key, and otherwise checks
// that it was made with these parameters: if not, the error wraps ErrMismatch. A TTL
// counts from the filter's making and is not compared, nor is the hash unless the
// Config names one.
func (f *Filter) OpenOrReserve(c Config) error { return f.h.OpenOrReserve(f.level, c.spec, c.mismatch) }

// Drop removes the whole filter and reports whether there was one. It returns
// kv.ErrWrongType, and changes nothing, if the key holds another type.
func (f *Filter) Drop() (bool, error) { return f.h.Drop(f.level) }

// MayContain reports whether the item may be in the filter: false means that it was
// not added, or deleted as often. With an error it is true.
func (f *Filter) MayContain(item []byte) (bool, error) {
	h := f.h
	c := h.Current.Load()
	if !h.DB.Ready() || !c.object.Live() && !c.object.Usable() {
		return lookup(h, item)
	}
	hash := c.hash.Sum(item)
	if h.DB.Sampled(hash) {
		c.touch(h.DB, hash)
	}
	if present, known := c.resident(hash); known {
		return present, nil
	}
	return lookup(h, item)
}

// MayContainString is MayContain for a string.
func (f *Filter) MayContainString(item string) (bool, error) { return f.MayContain([]byte(item)) }

// touch counts a lookup for the cache.
func (f *filter) touch(db *kv.DB, hash uint64) {
	for i := range f.layers {
		l := &f.layers[i]
		db.Touch(f.object, l.table, blockOf(hash, l.blocks))
	}
}

func lookup(h *handle, item []byte) (bool, error) {
	n, err := count(h, item, 1)
	return n > 0 || err != nil, err
}

// count returns how many copies of an item there are, with enough 1 no more than
// whether there is one.
func count(h *handle, item []byte, enough int) (n int, err error) {
	err = h.ReadSteady(func(r kv.Reader) error {
		c, err := h.Find(r)
		if err != nil {
			return err
		}
		n, err = c.count(r, c.hash.Sum(item), enough)
		return err
	})
	return n, err
}

// Count returns how often the item is in the filter: how often it was added and not
// deleted, and a little more at times, as false positives count too. A layer holds
// twice the bucket size of copies at most.
func (f *Filter) Count(item []byte) (int, error) { return count(f.h, item, math.MaxInt) }

// CountString is Count for a string.
func (f *Filter) CountString(item string) (int, error) { return f.Count([]byte(item)) }

// Add adds an item, again if it is there. The errors are ErrFull and ErrCannotGrow
// if there is no room.
func (f *Filter) Add(item []byte) error {
	_, err := f.change(func(s *stager) (bool, error) { return true, s.add(s.c.hash.Sum(item)) })
	return err
}

// AddString is Add for a string.
func (f *Filter) AddString(item string) error { return f.Add([]byte(item)) }

// AddIfAbsent adds an item that is not there, and reports whether it did: false means
// that it was there, perhaps, and who did not add it must not delete it. The errors are those of
// Add.
func (f *Filter) AddIfAbsent(item []byte) (bool, error) {
	h := f.h
	if c := h.Current.Load(); h.DB.Ready() && (c.object.Live() || c.object.Usable()) {
		hash := c.hash.Sum(item)
		// Halves of two fingerprints must not keep an item from being added.
		before, even := c.versions(hash)
		present, _ := c.resident(hash)
		if h.DB.Sampled(hash) {
			c.touch(h.DB, hash)
		}
		if after, _ := c.versions(hash); present && even && before == after {
			return false, h.DB.Acknowledge(c.object, f.level)
		}
	}
	return f.change(func(s *stager) (bool, error) { return s.addIfAbsent(s.c.hash.Sum(item)) })
}

// AddIfAbsentString is AddIfAbsent for a string.
func (f *Filter) AddIfAbsentString(item string) (bool, error) { return f.AddIfAbsent([]byte(item)) }

// Delete deletes one copy of an item, and reports whether there was one. An item that
// was never added must not be deleted: at the false-positive rate that takes away the
// entry of another, which is not found any more.
func (f *Filter) Delete(item []byte) (bool, error) {
	return f.change(func(s *stager) (bool, error) { return s.remove(s.c.hash.Sum(item)) })
}

// DeleteString is Delete for a string.
func (f *Filter) DeleteString(item string) (bool, error) { return f.Delete([]byte(item)) }

// change makes a commit of one change; what says that there is none is an answer.
func (f *Filter) change(stage func(*stager) (bool, error)) (changed bool, err error) {
	err = f.h.WriteStaged(f.level, func(w *kv.Writer, c *filter) error {
		changed, err = stage(newStager(w, c))
		return err
	})
	return changed && err == nil, err
}

func (s *stager) addIfAbsent(h uint64) (bool, error) {
	if n, err := s.count(h); n > 0 || err != nil {
		return false, err
	}
	return true, s.add(h)
}

// entryBytes is about the most that an item takes of a commit: an operand of a few slots.
const entryBytes = operandBytes + 8*slotBytes

// AddMany adds items, each again if it is there, and returns how many there was room
// for; the error is that of the first for which there was none, after all were tried.
// Up to 4096 items are one commit, fewer with memtables below 8 MiB; longer batches
// are several. With another error n is the number of items of the commits that are done.
func (f *Filter) AddMany(items [][]byte) (n int, err error) {
	var full error
	for len(items) > 0 {
		chunk := items[:min(f.h.BatchSize(entryBytes), len(items))]
		items = items[len(chunk):]
		added := 0
		err := f.batch(func(s *stager) error {
			for _, item := range chunk {
				switch err := s.add(s.c.hash.Sum(item)); {
				case err == nil:
					added++
				case !scalableext.NoRoom(err):
					return err
				case full == nil:
					full = err
				}
			}
			return nil
		})
		if err != nil {
			return n, err
		}
		n += added
	}
	return n, full
}

// AddIfAbsentStaged adds those items that are not there as part of a writer's commit, and
// sets added[i] to whether it added items[i]; a repeat in the batch is there. The writer
// was begun with the filter's key. Items after the first that has no room are not
// staged; n is the number of those before it, and the error that of Add. added must be
// as long as items.
func (f *Filter) AddIfAbsentStaged(w *kv.Writer, items [][]byte, added []bool) (n int, err error) {
	if len(added) != len(items) {
		return 0, fmt.Errorf("cuckooext: %d answers for %d items: must be equal", len(added), len(items))
	}
	c, err := f.h.Staged(w)
	if err != nil {
		return 0, err
	}
	clear(added)
	s := newStager(w, c)
	for i, item := range items {
		if added[i], err = s.addIfAbsent(c.hash.Sum(item)); err != nil {
			added[i] = false
			return i, err
		}
	}
	return len(items), nil
}

// batch makes a commit of several changes.
func (f *Filter) batch(stage func(*stager) error) error {
	_, err := f.change(func(s *stager) (bool, error) { return true, stage(s) })
	return err
}

// MayContainMany sets present[i] to what MayContain says of items[i]. present must be
// as long as items. After an error all are true.
func (f *Filter) MayContainMany(items [][]byte, present []bool) error {
	if len(present) != len(items) {
		return fmt.Errorf("cuckooext: %d answers for %d items: must be equal", len(present), len(items))
	}
	err := f.h.ReadSteady(func(r kv.Reader) error {
		c, err := f.h.Find(r)
		if err != nil {
			return err
		}
		return askMany(f.h, c, r, items, present)
	})
	if err != nil {
		for i := range present {
			present[i] = true
		}
	}
	return err
}

// askMany answers what it can from resident blocks, and then reads the others in the
// order they are stored in.
func askMany(h *handle, c *filter, r kv.Reader, items [][]byte, present []bool) error {
	var cold []scalableext.Question
	for i, item := range items {
		if err := h.GivenUp(i); err != nil {
			return err
		}
		hash := c.hash.Sum(item)
		known := false
		if h.Tx == nil { // what is in memory is not what a transaction sees
			if i == 0 && h.DB.Sampled(hash) {
				c.touch(h.DB, hash)
			}
			present[i], known = c.resident(hash)
		}
		if !known {
			cold = append(cold, scalableext.Question{Hash: hash, I: i})
		}
	}
	scalableext.SortByBlock(cold)
	for i, q := range cold {
		if err := h.GivenUp(i); err != nil {
			return err
		}
		n, err := c.count(r, q.Hash, 1)
		if err != nil {
			return err
		}
		present[q.I] = n > 0
	}
	return nil
}

// Compact moves entries of the newest layer to where deletions left room in older ones, and
// takes it away if it is empty then; and so on with the one before, as far as that goes
// without moving others. If there is much to move it is several commits, of about 256 KiB each;
// in a transaction all of it is part of that. Where the compaction service runs the store does
// it by itself some time after many deletions.
func (f *Filter) Compact() error { return f.compact(context.Background()) }

// compact is Compact until a context ends.
func (f *Filter) compact(ctx context.Context) error {
	for anew := true; ; anew = false {
		if err := ctx.Err(); err != nil {
			return err
		}
		more := false
		err := f.h.WriteStaged(f.level, func(w *kv.Writer, c *filter) (err error) {
			if anew {
				w.SetCounter(c.layers[0].table, compactedCounter, 0)
			}
			more, err = compact(w, c.object, min(compactBudget, f.h.DB.MaxCommit()/2))
			return err
		})
		if err != nil || !more {
			return err
		}
	}
}
