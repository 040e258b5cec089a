package sievekv

import (
	"context"

	"github.com/sievekv/sievekv/countingext"
)

// Counting is a handle on the counting Bloom filter under a key. Items can be deleted, and are counted up to
// MaxCount; filters can be merged. It takes four times the space of a Bloom filter. A handle reads nothing until it
// is used, holds no resources, and may be used by any number of goroutines. It follows its key, and returns
// ErrNotFound and ErrWrongType, as Bloom does.
type Counting struct{ f countingext.Filter }

// CountingConfig says how a new counting filter is made:
//
//   - Capacity: the number of items expected to be present at the same time, 1 to 2^40; an item counts as often as it is added;
//   - ErrorRate: the highest false-positive rate, below 1; above 0.25 means 0.25. It must be at least 1.8e-19 times
//     the Capacity, or 1.3e-19 times if the filter does not grow;
//   - Expansion: the factor between the capacities of a layer and the next, 1 to 32768; 0 means 2;
//   - NonScaling: the filter does not grow; Expansion must then be 0;
//   - Hash: HashKeyed or HashXXH64; 0 means HashKeyed;
//   - TTL: the time to live from the filter's creation, at least a millisecond; 0 means for ever;
//   - Counters, 1 to 2^44, and Hashes, 1 to 64, set the filter's size directly. Such a filter does not grow,
//     ErrorRate must be 0, and Capacity may be.
//
// Its method Planned tells, without a store, how large the filter is when it holds so many items. See [countingext.Config].
type CountingConfig = countingext.Config

// CountingInfo describes a counting filter. It has, among others, the Items in it, the Capacity, the share of its
// counters above 0 (Fill), the present false-positive rate (ExpectedRate), its size in bytes, and when it expires.
// See [countingext.Info].
type CountingInfo = countingext.Info

// MaxCount, 15, is the highest answer of Counting.Count. It means that the count is not known any more: there may be
// more copies, or fewer if copies were deleted after the item's counters had reached 15.
const MaxCount = countingext.MaxCount

// With returns a handle on the same filter whose writes have another level of durability: Always, EverySec or
// NoSync, or 0 for Options.Durability. With another value every write returns ErrOptions.
func (f *Counting) With(level Durability) *Counting { return &Counting{*f.f.With(level)} }

// In returns a handle on the same key that reads and writes as part of a transaction, or reads a snapshot, until that
// ends. It is for existing handles; Tx.Counting and Snapshot.Counting make new ones. Writes have the transaction's
// level of durability. If the transaction is of another store, every use of the handle returns ErrOtherStore; a nil s
// is an error too.
func (f *Counting) In(s Scope) *Counting { return &Counting{*f.f.In(s)} }

// Reserve makes an empty filter. If the key exists, it returns ErrExists, which is ErrWrongType too if the key does
// not hold a counting filter. It returns ErrConfig for a value out of range, and ErrTooLarge for a filter larger than
// Options.MaxFilterBytes.
func (f *Counting) Reserve(c CountingConfig) error { return f.f.Reserve(c) }

// OpenOrReserve makes the filter if the key is missing. Otherwise it checks that the filter was made with these
// parameters, and returns ErrMismatch if not. It does not compare the TTL, nor the hash unless the CountingConfig
// names one. The other errors are ErrWrongType for a key of another type, ErrConfig and ErrTooLarge.
func (f *Counting) OpenOrReserve(c CountingConfig) error { return f.f.OpenOrReserve(c) }

// Drop removes the whole filter, and reports whether there was one. If the key holds another type, it changes nothing
// and returns ErrWrongType.
func (f *Counting) Drop() (bool, error) { return f.f.Drop() }

// Info returns facts about the filter: how full it is, its present error rate, its size. It reads no blocks.
func (f *Counting) Info() (CountingInfo, error) { return f.f.Info() }

// MayContain reports whether the item may be present: false means that it was never added, or was deleted as often as
// it was added (or that another item was deleted which was never added, see Delete). With an error, such as
// ErrNotFound for a missing filter, it is true, because nothing is known of the item.
func (f *Counting) MayContain(item []byte) (bool, error) { return f.f.MayContain(item) }

// MayContainString is MayContain for a string.
func (f *Counting) MayContainString(item string) (bool, error) { return f.f.MayContainString(item) }

// MayContainUint64 is MayContain for the 8 bytes of item in little-endian order.
func (f *Counting) MayContainUint64(item uint64) (bool, error) { return f.f.MayContainUint64(item) }

// MayContainMany sets present[i] to what MayContain returns for items[i]. present must be as long as items, otherwise
// it returns an error. After an error all of present are true.
func (f *Counting) MayContainMany(items [][]byte, present []bool) error {
	return f.f.MayContainMany(items, present)
}

// MayContainManyString is MayContainMany for strings.
func (f *Counting) MayContainManyString(items []string, present []bool) error {
	return f.f.MayContainManyString(items, present)
}

// MayContainManyUint64 is MayContainMany for the 8 bytes of each item in little-endian order.
func (f *Counting) MayContainManyUint64(items []uint64, present []bool) error {
	return f.f.MayContainManyUint64(items, present)
}

// Add adds an item once more, and reports whether it is new; false means that it may have been present. If a new item
// has no room, the error is ErrFull or ErrCannotGrow. With an error isNew is false. From the 15th copy on, an item cannot
// be deleted any more: its counters stay at 15.
func (f *Counting) Add(item []byte) (isNew bool, err error) { return f.f.Add(item) }

// AddString is Add for a string.
func (f *Counting) AddString(item string) (isNew bool, err error) { return f.f.AddString(item) }

// AddUint64 is Add for the 8 bytes of item in little-endian order.
func (f *Counting) AddUint64(item uint64) (isNew bool, err error) { return f.f.AddUint64(item) }

// AddMany adds items, and sets isNew[i] to what Add returns for items[i]; of equal items only the first can be new.
// It returns how many are new. isNew may be nil if the answers are not wanted; otherwise it must be as long as items,
// or nothing is added. Up to 4096 items are one commit, fewer if Options.MemTableSize is below 8 MiB; more items are
// several commits. If an item cannot be added, the error is an *ItemError: the items before it are added, and none
// after it. After ErrFailed the outcome of that item and of up to 4095 after it is unknown.
func (f *Counting) AddMany(items [][]byte, isNew []bool) (n int, err error) {
	return f.f.AddMany(items, isNew)
}

// AddManyString is AddMany for strings.
func (f *Counting) AddManyString(items []string, isNew []bool) (n int, err error) {
	return f.f.AddManyString(items, isNew)
}

// AddManyUint64 is AddMany for the 8 bytes of each item in little-endian order.
func (f *Counting) AddManyUint64(items []uint64, isNew []bool) (n int, err error) {
	return f.f.AddManyUint64(items, isNew)
}

// Count returns how often the item was added and not deleted: never too low below MaxCount, which means that the
// count is not known any more. It is too high with about the probability of a false positive. With an error, such as
// ErrNotFound for a missing filter, it is 0.
func (f *Counting) Count(item []byte) (int, error) { return f.f.Count(item) }

// CountString is Count for a string.
func (f *Counting) CountString(item string) (int, error) { return f.f.CountString(item) }

// CountUint64 is Count for the 8 bytes of item in little-endian order.
func (f *Counting) CountUint64(item uint64) (int, error) { return f.f.CountUint64(item) }

// Delete deletes an item once, and reports whether it seemed to be present. Only delete items that were added, and at
// most as often: deleting an item that was never added can remove another one and cause false negatives.
//
// If counting down could remove another item, Delete leaves the item's counters as they are: found is true, and
// lookups still find the item. CountingInfo.DeletesKept counts such deletions.
func (f *Counting) Delete(item []byte) (found bool, err error) { return f.f.Delete(item) }

// DeleteString is Delete for a string.
func (f *Counting) DeleteString(item string) (found bool, err error) { return f.f.DeleteString(item) }

// DeleteUint64 is Delete for the 8 bytes of item in little-endian order.
func (f *Counting) DeleteUint64(item uint64) (found bool, err error) { return f.f.DeleteUint64(item) }

// DeleteMany deletes each item once, and sets found[i] to what Delete returns for items[i]. It returns how many
// seemed to be present. found may be nil if the answers are not wanted; otherwise it must be as long as items. Its
// commits are like those of AddMany. An error is an *ItemError: the items before it are deleted, and none after it.
// After ErrFailed the outcome of that item and of up to 4095 after it is unknown.
func (f *Counting) DeleteMany(items [][]byte, found []bool) (n int, err error) {
	return f.f.DeleteMany(items, found)
}

// DeleteManyString is DeleteMany for strings.
func (f *Counting) DeleteManyString(items []string, found []bool) (n int, err error) {
	return f.f.DeleteManyString(items, found)
}

// DeleteManyUint64 is DeleteMany for the 8 bytes of each item in little-endian order.
func (f *Counting) DeleteManyUint64(items []uint64, found []bool) (n int, err error) {
	return f.f.DeleteManyUint64(items, found)
}

// Merge adds the contents of the sources to the filter in one commit: the sum of their counters, at most 15 each.
// Afterwards an item is in the filter as often as in all of them together, up to 15. Each filter counts once, even if
// it is given several times.
//
// If the filter is missing, Merge makes it with the parameters of the sources, and without an expiry. A missing
// source is ErrNotFound, and a nil one is an error. The filter may be one of the sources, if it exists. All filters
// must be in one store and have equal parameters, with one Group in their Config; otherwise the error is ErrUnequal. If the union
// would have a higher error rate than they were made for, the error is ErrRate, and nothing changes. Merge reads and writes
// all blocks of the filters; meanwhile other writes to them wait.
func (f *Counting) Merge(ctx context.Context, sources ...*Counting) error {
	list := make([]*countingext.Filter, len(sources))
	for i, s := range sources {
		if s != nil {
			list[i] = &s.f
		}
	}
	return f.f.Merge(ctx, list...)
}
