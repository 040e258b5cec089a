package sievekv

import (
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/scalableext"
)

// Cuckoo is a handle on the cuckoo filter under a key. Items can be deleted, and copies are counted. A handle reads
// nothing until it is used, holds no resources, and may be used by any number of goroutines. It follows its key, and
// returns ErrNotFound and ErrWrongType, as Bloom does.
type Cuckoo struct{ f cuckooext.Filter }

// CuckooInfo describes a cuckoo filter. It has, among others, the Items in it, the Capacity, the present
// false-positive rate (ExpectedRate), its size in bytes, and when it expires. See [cuckooext.Info].
type CuckooInfo = cuckooext.Info

// With returns a handle on the same filter whose writes have another level of durability: Always, EverySec or
// NoSync, or 0 for Options.Durability. With another value every write returns ErrOptions.
func (f *Cuckoo) With(level Durability) *Cuckoo { return &Cuckoo{*f.f.With(level)} }

// Reserve makes an empty filter of a size; nil for c means the defaults. If the key exists, it returns ErrExists, which is
// ErrWrongType too if the key does not hold a cuckoo filter. It returns ErrConfig for a value out of range, and ErrTooLarge for a filter larger than
// Options.MaxFilterBytes.
func (f *Cuckoo) Reserve(s Size, c *CuckooConfig) error {
	config, err := c.with(s)
	if err != nil {
		return err
	}
	return f.f.Reserve(config)
}

// OpenOrReserve makes the filter if the key is missing. Otherwise it checks that the filter was made with these
// parameters, and returns ErrMismatch if not. It does not compare the TTL, nor the hash unless the CuckooConfig names
// one. The other errors are ErrWrongType for a key of another type, ErrConfig and ErrTooLarge.
func (f *Cuckoo) OpenOrReserve(s Size, c *CuckooConfig) error {
	config, err := c.with(s)
	if err != nil {
		return err
	}
	return f.f.OpenOrReserve(config)
}

// Drop removes the whole filter, and reports whether there was one. If the key holds another type, it changes nothing
// and returns ErrWrongType.
func (f *Cuckoo) Drop() (bool, error) { return f.f.Drop() }

// Info returns facts about the filter: how full it is, its present error rate, its size. It reads no blocks.
func (f *Cuckoo) Info() (CuckooInfo, error) { return f.f.Info() }

// MayContain reports whether the item may be present: false means that it was never added, or was deleted as often as
// it was added (or that another item was deleted which was never added, see Delete). With an error, such as
// ErrNotFound for a missing filter, it is true, because nothing is known of the item.
func (f *Cuckoo) MayContain(item []byte) (bool, error) { return f.f.MayContain(item) }

// MayContainString is MayContain for a string.
func (f *Cuckoo) MayContainString(item string) (bool, error) {
	return f.f.MayContain(scalableext.BytesOf(item))
}

// MayContainMany sets present[i] to what MayContain returns for items[i]. present must be as long as items, otherwise
// it returns an error. After an error all of present are true.
func (f *Cuckoo) MayContainMany(items [][]byte, present []bool) error {
	return f.f.MayContainMany(items, present)
}

// MayContainManyString is MayContainMany for strings.
func (f *Cuckoo) MayContainManyString(items []string, present []bool) error {
	return f.f.MayContainMany(scalableext.BytesOfAll(items), present)
}

// Add adds one more copy of an item, and reports whether it is new; false means that it may have been present. If
// there is no room, the error is ErrFull or ErrCannotGrow. It is also ErrFull if a layer has as many copies of the
// item as it can have: twice the bucket size, 8 by default; half of that for the few items whose two buckets are the
// same. With an error isNew is false.
func (f *Cuckoo) Add(item []byte) (isNew bool, err error) { return f.f.Add(item) }

// AddString is Add for a string.
func (f *Cuckoo) AddString(item string) (isNew bool, err error) {
	return f.f.Add(scalableext.BytesOf(item))
}

// AddMany adds items, and sets isNew[i] to what Add returns for items[i]; of equal items only the first can be new.
// It returns how many are new. isNew may be nil if the answers are not wanted; otherwise it must be as long as items,
// or nothing is added. Up to 4096 items are one commit, fewer if Options.MemTableSize is below 8 MiB; more items are
// several commits. AddMany tries all items: if some have no room, the error is an *ItemError for the first of them.
// Any other error ends it: the items before that one are added, except those without room, and none after it. After
// ErrFailed the outcome of that item and of up to 4095 after it is unknown.
func (f *Cuckoo) AddMany(items [][]byte, isNew []bool) (n int, err error) {
	return f.f.AddMany(items, isNew)
}

// AddManyString is AddMany for strings.
func (f *Cuckoo) AddManyString(items []string, isNew []bool) (n int, err error) {
	return f.f.AddMany(scalableext.BytesOfAll(items), isNew)
}

// AddIfAbsent adds an item unless it may be present, and reports whether it did. If it did not, the item may be absent
// and only look like another one. So only a caller that has added the item may delete it later. The errors are those
// of Add.
func (f *Cuckoo) AddIfAbsent(item []byte) (added bool, err error) { return f.f.AddIfAbsent(item) }

// AddIfAbsentString is AddIfAbsent for a string.
func (f *Cuckoo) AddIfAbsentString(item string) (added bool, err error) {
	return f.f.AddIfAbsent(scalableext.BytesOf(item))
}

// Count returns how often the item was added and not deleted. It is too high with about the probability of a false
// positive. With an error, such as ErrNotFound for a missing filter, it is 0.
func (f *Cuckoo) Count(item []byte) (int, error) { return f.f.Count(item) }

// CountString is Count for a string.
func (f *Cuckoo) CountString(item string) (int, error) { return f.f.Count(scalableext.BytesOf(item)) }

// Delete deletes an item once, and reports whether it seemed to be present. Only delete items that were added, and at
// most as often: deleting an item that was never added can remove another one and cause false negatives.
func (f *Cuckoo) Delete(item []byte) (found bool, err error) { return f.f.Delete(item) }

// DeleteString is Delete for a string.
func (f *Cuckoo) DeleteString(item string) (found bool, err error) {
	return f.f.Delete(scalableext.BytesOf(item))
}

// DeleteMany deletes each item once, and sets found[i] to what Delete returns for items[i]. It returns how many
// seemed to be present. found may be nil if the answers are not wanted; otherwise it must be as long as items. Its
// commits are like the commits of AddMany. An error is an *ItemError: the items before it are deleted, and none after it.
// After ErrFailed the outcome of that item and of up to 4095 after it is unknown.
func (f *Cuckoo) DeleteMany(items [][]byte, found []bool) (n int, err error) {
	return f.f.DeleteMany(items, found)
}

// DeleteManyString is DeleteMany for strings.
func (f *Cuckoo) DeleteManyString(items []string, found []bool) (n int, err error) {
	return f.f.DeleteMany(scalableext.BytesOfAll(items), found)
}

// Compact moves entries into room that deletions have left in older layers, and removes layers that become empty.
// Lookups take less time if there are fewer layers. The store does this by itself some time after many deletions.
func (f *Cuckoo) Compact() error { return f.f.Compact() }
