package sievekv

import (
	"context"

	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/scalableext"
)

// Counting is a handle on the counting Bloom filter under a key. Items can be deleted, and are counted up to
// MaxCount; filters can be merged. It takes four times the space of a Bloom filter. A handle reads nothing until it
// is used, holds no resources, and may be used by any number of goroutines. It follows its key, and returns
// ErrNotFound and ErrWrongType, as Bloom does.
type Counting struct{ f countingext.Filter }

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

// Reserve makes an empty filter of a size; nil for c means the defaults. If the key exists, it returns ErrExists, which is
// ErrWrongType too if the key does not hold a counting filter. It returns ErrConfig for a value out of range, and ErrTooLarge for a filter larger than
// Options.MaxFilterBytes.
func (f *Counting) Reserve(s Size, c *CountingConfig) error {
	config, err := c.with(s)
	if err != nil {
		return err
	}
	return f.f.Reserve(config)
}

// OpenOrReserve makes the filter if the key is missing. Otherwise it checks that the filter was made with these
// parameters, and returns ErrMismatch if not. It does not compare the TTL, nor the hash unless the CountingConfig
// names one. The other errors are ErrWrongType for a key of another type, ErrConfig and ErrTooLarge.
func (f *Counting) OpenOrReserve(s Size, c *CountingConfig) error {
	config, err := c.with(s)
	if err != nil {
		return err
	}
	return f.f.OpenOrReserve(config)
}

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
func (f *Counting) MayContainString(item string) (bool, error) {
	return f.f.MayContain(scalableext.BytesOf(item))
}

// MayContainMany sets present[i] to what MayContain returns for items[i]. present must be as long as items, otherwise
// it returns an error. After an error all of present are true.
func (f *Counting) MayContainMany(items [][]byte, present []bool) error {
	return f.f.MayContainMany(items, present)
}

// MayContainManyString is MayContainMany for strings.
func (f *Counting) MayContainManyString(items []string, present []bool) error {
	return f.f.MayContainMany(scalableext.BytesOfAll(items), present)
}

// Add adds an item once more, and reports whether it is new; false means that it may have been present. If a new item
// has no room, the error is ErrFull or ErrCannotGrow. With an error isNew is false. From the 15th copy on, an item cannot
// be deleted any more: its counters stay at 15.
func (f *Counting) Add(item []byte) (isNew bool, err error) { return f.f.Add(item) }

// AddString is Add for a string.
func (f *Counting) AddString(item string) (isNew bool, err error) {
	return f.f.Add(scalableext.BytesOf(item))
}

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
	return f.f.AddMany(scalableext.BytesOfAll(items), isNew)
}

// Count returns how often the item was added and not deleted: never too low below MaxCount, which means that the
// count is not known any more. It is too high with about the probability of a false positive. With an error, such as
// ErrNotFound for a missing filter, it is 0.
func (f *Counting) Count(item []byte) (int, error) { return f.f.Count(item) }

// CountString is Count for a string.
func (f *Counting) CountString(item string) (int, error) { return f.f.Count(scalableext.BytesOf(item)) }

// Delete deletes an item once, and reports whether it seemed to be present. Only delete items that were added, and at
// most as often: deleting an item that was never added can remove another one and cause false negatives.
//
// If counting down could remove another item, Delete leaves the item's counters as they are: found is true, and
// lookups still find the item. CountingInfo.DeletesKept counts such deletions.
func (f *Counting) Delete(item []byte) (found bool, err error) { return f.f.Delete(item) }

// DeleteString is Delete for a string.
func (f *Counting) DeleteString(item string) (found bool, err error) {
	return f.f.Delete(scalableext.BytesOf(item))
}

// DeleteMany deletes each item once, and sets found[i] to what Delete returns for items[i]. It returns how many
// seemed to be present. found may be nil if the answers are not wanted; otherwise it must be as long as items. Its
// commits are like the commits of AddMany. An error is an *ItemError: the items before it are deleted, and none after it.
// After ErrFailed the outcome of that item and of up to 4095 after it is unknown.
func (f *Counting) DeleteMany(items [][]byte, found []bool) (n int, err error) {
	return f.f.DeleteMany(items, found)
}

// DeleteManyString is DeleteMany for strings.
func (f *Counting) DeleteManyString(items []string, found []bool) (n int, err error) {
	return f.f.DeleteMany(scalableext.BytesOfAll(items), found)
}

// Merge adds the contents of the sources to the filter in one commit: the sum of their counters, at most 15 each.
// Afterwards an item is in the filter as often as in all of them together, up to 15. Each filter counts once, even if
// it is given several times.
//
// If the filter is missing, Merge makes it with the parameters of the sources, and without an expiry. A missing
// source is ErrNotFound, and a nil one is an error. The filter may be one of the sources, if it exists. All filters
// must be in one store and have equal parameters, with one Group; otherwise the error is ErrUnequal. If the union
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
