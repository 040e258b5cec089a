package countingext

import (
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/hash"
	"github.com/sievekv/sievekv/kv/probe"
	"github.com/sievekv/sievekv/scalableext"
)

// Filter is a handle on the counting Bloom filter under a key. It holds no resources and
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
		blk, _ := l.layout.Block(hash)
		db.Touch(f.object, l.table, blk)
	}
}

func lookup(h *handle, item []byte) (bool, error) {
	n, err := count(h, item, 1)
	return n > 0 || err != nil, err
}

// count returns how often an item was added, with enough 1 no more than whether it was.
func count(h *handle, item []byte, enough uint64) (n uint64, err error) {
	err = h.Look(func(r kv.Reader, c *filter) (err error) {
		n, err = c.count(r, c.hash.Sum(item), enough)
		return err
	})
	return n, err
}

// Count returns how often the item was added and not deleted: never less, and more at
// times, as its counters are others' too and deletions may have been kept. From
// MaxCount, 15, on it is not known: 15 means 15 or more. If the item seems to be in
// several layers it is the sum, as it may have been added to each; all but one are
// false positives more often than not.
func (f *Filter) Count(item []byte) (int, error) {
	n, err := count(f.h, item, MaxCount)
	return int(n), err
}

// CountString is Count for a string.
func (f *Filter) CountString(item string) (int, error) { return f.Count(scalableext.BytesOf(item)) }

// CountUint64 is Count for the 8 bytes of item in little-endian order.
func (f *Filter) CountUint64(item uint64) (int, error) {
	b := scalableext.LittleEndian(item)
	return f.Count(b[:])
}

// Add adds an item, once more if it is there, and reports whether it was absent; false
// means that it was there, perhaps. The errors are ErrFull and ErrCannotGrow, for an
// absent item where there is no room.
func (f *Filter) Add(item []byte) (bool, error) {
	return f.add(item, nil)
}

// add is Add to a filter that is made as spec describes it if there is none.
func (f *Filter) add(item []byte, spec scalableext.Spec) (bool, error) {
	return f.change(spec, func(s *stager) (bool, error) { return s.add(s.c.hash.Sum(item)) })
}

// AddString is Add for a string.
func (f *Filter) AddString(item string) (bool, error) { return f.Add(scalableext.BytesOf(item)) }

// AddUint64 is Add for the 8 bytes of item in little-endian order.
func (f *Filter) AddUint64(item uint64) (bool, error) {
	b := scalableext.LittleEndian(item)
	return f.Add(b[:])
}

// Delete deletes an item once, and reports whether it was there, perhaps. An item that
// was never added must not be deleted: at the false-positive rate that counts down
// counters of others, which are not found any more then.
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

// change makes a commit of one change.
func (f *Filter) change(spec scalableext.Spec, stage func(*stager) (bool, error)) (bool, error) {
	return f.h.Change(f.level, spec, func(w *kv.Writer, c *filter) (bool, error) { return stage(newStager(w, c)) })
}

// entryBytes is the most that an item takes of a commit: an operand of its own of up to 64
// slots.
const entryBytes = 256 + 32 + 3*probe.MaxHashes

// AddMany adds items, each once more if it is there, and sets added[i] to whether
// items[i] was absent. It returns how many were. added may be nil, and must be as long as
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
	return scalableext.ChangeMany(f.h, f.level, items, added, entryBytes, func(w *kv.Writer, items []T, added []bool) (int, error) {
		return addStaged(f, w, items, added, sum, (*stager).add)
	})
}

// AddStaged adds items as part of a writer's commit, and sets added[i] as AddMany does. The
// writer was begun with the filter's key. Items after the one that had no room are not staged,
// their answers are false, and n is the number of those before it.
func (f *Filter) AddStaged(w *kv.Writer, items [][]byte, added []bool) (int, error) {
	return addStaged(f, w, items, added, hash.Function.Sum, (*stager).add)
}

// AddIfAbsentStaged adds those items that are not there as part of a writer's commit, and
// sets added[i] to whether it added items[i]; a repeat in the batch is there. It is
// AddStaged otherwise.
func (f *Filter) AddIfAbsentStaged(w *kv.Writer, items [][]byte, added []bool) (int, error) {
	return addStaged(f, w, items, added, hash.Function.Sum, (*stager).addIfAbsent)
}

func addStaged[T any](
	f *Filter, w *kv.Writer, items []T, added []bool, sum func(hash.Function, T) uint64, add func(s *stager, h uint64) (bool, error),
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
	return scalableext.StageMany(f.h, items, added, c.hash, sum, block, func(h uint64) (bool, error) { return add(s, h) })
}

// DeleteMany deletes items, each once, and sets deleted[i] to whether items[i] was
// there, perhaps. It returns how many were. deleted may be nil, and must be as long as items
// otherwise. Commits and errors are as those of AddMany. See Delete.
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
		return deleteStaged(f, w, items, deleted, sum)
	})
}

// DeleteStaged is DeleteMany as part of a writer's commit. The writer was begun with
// the filter's key.
func (f *Filter) DeleteStaged(w *kv.Writer, items [][]byte, deleted []bool) error {
	if err := scalableext.SameLength(len(items), deleted); err != nil {
		return err
	}
	_, err := deleteStaged(f, w, items, deleted, hash.Function.Sum)
	return err
}

func deleteStaged[T any](f *Filter, w *kv.Writer, items []T, deleted []bool, sum func(hash.Function, T) uint64) (int, error) {
	c, err := f.h.Staged(w)
	if err != nil {
		return 0, err
	}
	return scalableext.StageMany(f.h, items, deleted, c.hash, sum, c.Block, newStager(w, c).remove)
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
