package cuckooext

import (
	"context"
	"math"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/hash"
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
	if !h.DB.Ready() || !c.object.Live() {
		return lookup(h, item)
	}
	hash := c.hash.Sum(item)
	if h.DB.Sampled(hash) {
		c.Touch(h.DB, hash)
	}
	if present, known := c.Resident(hash); known {
		return present, nil
	}
	return lookup(h, item)
}

// MayContainString is MayContain for a string.
func (f *Filter) MayContainString(item string) (bool, error) {
	return f.MayContain(scalableext.BytesOf(item))
}

// MayContainUint64 is MayContain for the 8 bytes of item in little-endian order.
func (f *Filter) MayContainUint64(item uint64) (bool, error) {
	b := scalableext.LittleEndian(item)
	return f.MayContain(b[:])
}

// Touch counts a lookup for the cache.
func (f *filter) Touch(db *kv.DB, hash uint64) {
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
	err = h.Look(func(r kv.Reader, c *filter) (err error) {
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
func (f *Filter) CountString(item string) (int, error) { return f.Count(scalableext.BytesOf(item)) }

// CountUint64 is Count for the 8 bytes of item in little-endian order.
func (f *Filter) CountUint64(item uint64) (int, error) {
	b := scalableext.LittleEndian(item)
	return f.Count(b[:])
}

// Add adds an item, once more if it is there, and reports whether it was absent; false
// means that it was there, perhaps. The errors are ErrFull and ErrCannotGrow if there is no
// room.
func (f *Filter) Add(item []byte) (bool, error) {
	return f.change(nil, func(s *stager) (bool, error) { return s.addAgain(s.c.hash.Sum(item)) })
}

// AddString is Add for a string.
func (f *Filter) AddString(item string) (bool, error) { return f.Add(scalableext.BytesOf(item)) }

// AddUint64 is Add for the 8 bytes of item in little-endian order.
func (f *Filter) AddUint64(item uint64) (bool, error) {
	b := scalableext.LittleEndian(item)
	return f.Add(b[:])
}

// AddIfAbsent adds an item that is not there, and reports whether it did: false means
// that it was there, perhaps, and who did not add it must not delete it. The errors are those of
// Add.
func (f *Filter) AddIfAbsent(item []byte) (bool, error) { return f.addIfAbsent(item, nil) }

// addIfAbsent is AddIfAbsent to a filter that is made as spec describes it if there is none.
func (f *Filter) addIfAbsent(item []byte, spec scalableext.Spec) (bool, error) {
	h := f.h
	if c := h.Current.Load(); h.DB.Ready() && c.object.Live() {
		hash := c.hash.Sum(item)
		// Halves of two fingerprints must not keep an item from being added.
		before, even := c.versions(hash)
		present, _ := c.Resident(hash)
		if h.DB.Sampled(hash) {
			c.Touch(h.DB, hash)
		}
		if after, _ := c.versions(hash); present && even && before == after {
			return false, h.DB.Acknowledge(c.object, f.level)
		}
	}
	return f.change(spec, func(s *stager) (bool, error) { return s.addIfAbsent(s.c.hash.Sum(item)) })
}

// AddIfAbsentString is AddIfAbsent for a string.
func (f *Filter) AddIfAbsentString(item string) (bool, error) {
	return f.AddIfAbsent(scalableext.BytesOf(item))
}

// AddIfAbsentUint64 is AddIfAbsent for the 8 bytes of item in little-endian order.
func (f *Filter) AddIfAbsentUint64(item uint64) (bool, error) {
	b := scalableext.LittleEndian(item)
	return f.AddIfAbsent(b[:])
}

// Delete deletes one copy of an item, and reports whether there was one. An item that
// was never added must not be deleted: at the false-positive rate that takes away the
// entry of another, which is not found any more.
func (f *Filter) Delete(item []byte) (bool, error) {
	return f.change(nil, func(s *stager) (bool, error) { return s.remove(s.c.hash.Sum(item)) })
}

// DeleteString is Delete for a string.
func (f *Filter) DeleteString(item string) (bool, error) { return f.Delete(scalableext.BytesOf(item)) }

// DeleteUint64 is Delete for the 8 bytes of item in little-endian order.
func (f *Filter) DeleteUint64(item uint64) (bool, error) {
	b := scalableext.LittleEndian(item)
	return f.Delete(b[:])
}

// change makes a commit of one change; what says that there is none is an answer.
func (f *Filter) change(spec scalableext.Spec, stage func(*stager) (bool, error)) (bool, error) {
	return f.h.Change(f.level, spec, func(w *kv.Writer, c *filter) (bool, error) { return stage(newStager(w, c)) })
}

// addAgain stages the adding of an item, and reports whether it was absent.
func (s *stager) addAgain(h uint64) (bool, error) {
	present, err := s.mayContainIn(s.c.layers[1:], h)
	if err != nil {
		return false, err
	}
	s.met = present // add looks at the block of the newest layer anyway
	err = s.add(h)
	return !s.met && err == nil, err
}

func (s *stager) addIfAbsent(h uint64) (bool, error) {
	if present, err := s.mayContainIn(s.c.layers, h); present || err != nil {
		return false, err
	}
	err := s.add(h)
	return err == nil, err
}

// entryBytes is about the most that an item takes of a commit: an operand of a few slots.
const entryBytes = operandBytes + 8*slotBytes

// AddMany adds items, each once more if it is there, and sets added[i] to whether items[i]
// was absent, and added. It returns how many were. added may be nil, and must be as long as
// items otherwise. Up to 4096 items are one commit, fewer with memtables below 8 MiB; longer
// batches are several. All items are tried: if there is no room for some, the error is an
// *scalableext.ItemError of the first of them. After another error the items of the commits
// that were done are added, and it tells the first of the others.
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
	var full error
	start := 0
	n, err = scalableext.EachBatch(items, added, f.h.BatchSize(entryBytes), func(items []T, added []bool) (int, error) {
		err := f.batch(nil, func(s *stager) (err error) {
			for i, item := range items {
				switch added[i], err = s.addAgain(sum(s.c.hash, item)); {
				case err == nil:
				case !scalableext.NoRoom(err):
					return err
				default:
					added[i] = false
					if full == nil {
						full = &scalableext.ItemError{Item: start + i, Err: err}
					}
				}
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		start += len(items)
		return len(items), nil
	})
	if err == nil {
		err = full
	}
	return n, err
}

// DeleteMany deletes one copy of each item, and sets deleted[i] to whether items[i] was there,
// perhaps. It returns how many were. deleted may be nil, and must be as long as items otherwise.
// Commits are as those of AddMany; an error is an *scalableext.ItemError that tells the first
// item that was not looked for. See Delete.
func (f *Filter) DeleteMany(items [][]byte, deleted []bool) (n int, err error) {
	return deleteMany(f, items, deleted, hash.Function.Sum)
}

// DeleteManyString is DeleteMany for strings.
func (f *Filter) DeleteManyString(items []string, deleted []bool) (n int, err error) {
	return deleteMany(f, items, deleted, hash.Function.SumString)
}

// DeleteManyUint64 is DeleteMany for the 8 bytes of each item in little-endian order.
func (f *Filter) DeleteManyUint64(items []uint64, deleted []bool) (n int, err error) {
	return deleteMany(f, items, deleted, hash.Function.SumUint64)
}

func deleteMany[T any](f *Filter, items []T, deleted []bool, sum func(hash.Function, T) uint64) (n int, err error) {
	return scalableext.ChangeMany(f.h, f.level, items, deleted, entryBytes, func(w *kv.Writer, items []T, deleted []bool) (int, error) {
		c, err := f.h.Staged(w)
		if err != nil {
			return 0, err
		}
		return scalableext.StageMany(f.h, items, deleted, c.hash, sum, nil, newStager(w, c).remove)
	})
}

// AddIfAbsentStaged adds those items that are not there as part of a writer's commit, and
// sets added[i] to whether it added items[i]; a repeat in the batch is there. The writer
// was begun with the filter's key. Items after the first that has no room are not
// staged; n is the number of those before it, and the error that of Add. added must be
// as long as items.
func (f *Filter) AddIfAbsentStaged(w *kv.Writer, items [][]byte, added []bool) (n int, err error) {
	if err := scalableext.SameLength(len(items), added); err != nil {
		return 0, err
	}
	c, err := f.h.Staged(w)
	if err != nil {
		return 0, err
	}
	return scalableext.StageMany(f.h, items, added, c.hash, hash.Function.Sum, nil, newStager(w, c).addIfAbsent)
}

// batch makes a commit of several changes.
func (f *Filter) batch(spec scalableext.Spec, stage func(*stager) error) error {
	_, err := f.change(spec, func(s *stager) (bool, error) { return true, stage(s) })
	return err
}

// MayContainMany sets present[i] to what MayContain says of items[i]. present must be
// as long as items. After an error all are true.
func (f *Filter) MayContainMany(items [][]byte, present []bool) error {
	return mayContainMany(f, items, present, hash.Function.Sum)
}

// MayContainManyString is MayContainMany for strings.
func (f *Filter) MayContainManyString(items []string, present []bool) error {
	return mayContainMany(f, items, present, hash.Function.SumString)
}

// MayContainManyUint64 is MayContainMany for the 8 bytes of each item in little-endian order.
func (f *Filter) MayContainManyUint64(items []uint64, present []bool) error {
	return mayContainMany(f, items, present, hash.Function.SumUint64)
}

func mayContainMany[T any](f *Filter, items []T, present []bool, sum func(hash.Function, T) uint64) error {
	return f.h.MayContainMany(len(items), present, func(r kv.Reader, c *filter) error {
		return scalableext.LookMany(f.h, c, r, items, present, c.hash, sum)
	})
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
		more, err := f.h.Change(f.level, nil, func(w *kv.Writer, c *filter) (bool, error) {
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
