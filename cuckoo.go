package sievekv

import "github.com/sievekv/sievekv/cuckooext"

// Cuckoo is a handle on the cuckoo filter under a key. Items can be deleted, and copies are counted. A handle reads
// nothing until it is used, holds no resources, and may be used by any number of goroutines. It follows its key, and
// returns ErrNotFound and ErrWrongType, as Bloom does.
type Cuckoo struct{ f cuckooext.Filter }

// CuckooConfig says how a new cuckoo filter is made:
//
//   - Capacity: the number of items expected, including copies, 1 to 2^40;
//   - ErrorRate: the highest false-positive rate, below 1. It must be at least 1.7e-9, or 4.1e-10 if the filter does not
//     grow, and 5.4e-20 more for each item of the capacity. With 0, fingerprints have 12 bits, and the filter has up to 32 layers with a rate of 0.0018 each;
//   - Expansion: the factor between the sizes of a layer and the next, 1 to 32768, rounded up to a power of two; 0 means 2;
//   - NonScaling: the filter does not grow; Expansion must then be 0;
//   - BucketSize: the slots of a bucket, 1 to 255; 0 means 4, and with an ErrorRate the best of 2 to 4;
//   - MaxIterations: the most entries moved to make room for one, 1 to 65535; 0 means 20;
//   - Hash: HashKeyed or HashXXH64; 0 means HashKeyed;
//   - Layout: LayoutNative or LayoutCompatible; 0 means LayoutNative;
//   - TTL: the time to live from the filter's creation, at least a millisecond; 0 means for ever.
//
// A filter with LayoutCompatible is RedisBloom's, byte for byte. It has other defaults, see [cuckooext.Config].
//
// Its method Planned tells, without a store, how large the filter is when it holds so many items. See [cuckooext.Config].
type CuckooConfig = cuckooext.Config

// CuckooInfo describes a cuckoo filter. It has, among others, the Items in it, the Capacity, the present
// false-positive rate (ExpectedRate), its size in bytes, and when it expires. See [cuckooext.Info].
type CuckooInfo = cuckooext.Info

// With returns a handle on the same filter whose writes have another level of durability: Always, EverySec or
// NoSync, or 0 for Options.Durability. With another value every write returns ErrOptions.
func (f *Cuckoo) With(level Durability) *Cuckoo { return &Cuckoo{*f.f.With(level)} }

// In returns a handle on the same key that reads and writes as part of a transaction, or reads a snapshot, until that
// ends. It is for existing handles; Tx.Cuckoo and Snapshot.Cuckoo make new ones. Writes have the transaction's level
// of durability. If the transaction is of another store, every use of the handle returns ErrOtherStore; a nil s is an
// error too.
func (f *Cuckoo) In(s Scope) *Cuckoo { return &Cuckoo{*f.f.In(s)} }

// Reserve makes an empty filter. If the key exists, it returns ErrExists, which is ErrWrongType too if the key does
// not hold a cuckoo filter. It returns ErrConfig for a value out of range, and ErrTooLarge for a filter larger than
// Options.MaxFilterBytes.
func (f *Cuckoo) Reserve(c CuckooConfig) error { return f.f.Reserve(c) }

// OpenOrReserve makes the filter if the key is missing. Otherwise it checks that the filter was made with these
// parameters, and returns ErrMismatch if not. It does not compare the TTL, nor the hash unless the CuckooConfig names
// one. The other errors are ErrWrongType for a key of another type, ErrConfig and ErrTooLarge.
func (f *Cuckoo) OpenOrReserve(c CuckooConfig) error { return f.f.OpenOrReserve(c) }

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
func (f *Cuckoo) MayContainString(item string) (bool, error) { return f.f.MayContainString(item) }

// MayContainUint64 is MayContain for the 8 bytes of item in little-endian order.
func (f *Cuckoo) MayContainUint64(item uint64) (bool, error) { return f.f.MayContainUint64(item) }

// MayContainMany sets present[i] to what MayContain returns for items[i]. present must be as long as items, otherwise
// it returns an error. After an error all of present are true.
func (f *Cuckoo) MayContainMany(items [][]byte, present []bool) error {
	return f.f.MayContainMany(items, present)
}

// MayContainManyString is MayContainMany for strings.
func (f *Cuckoo) MayContainManyString(items []string, present []bool) error {
	return f.f.MayContainManyString(items, present)
}

// MayContainManyUint64 is MayContainMany for the 8 bytes of each item in little-endian order.
func (f *Cuckoo) MayContainManyUint64(items []uint64, present []bool) error {
	return f.f.MayContainManyUint64(items, present)
}

// Add adds one more copy of an item, and reports whether it is new; false means that it may have been present. If
// there is no room, the error is ErrFull or ErrCannotGrow. It is also ErrFull if a layer has as many copies of the
// item as it can have: twice the bucket size, 8 by default; half of that for the few items whose two buckets are the
// same. With an error isNew is false.
func (f *Cuckoo) Add(item []byte) (isNew bool, err error) { return f.f.Add(item) }

// AddString is Add for a string.
func (f *Cuckoo) AddString(item string) (isNew bool, err error) { return f.f.AddString(item) }

// AddUint64 is Add for the 8 bytes of item in little-endian order.
func (f *Cuckoo) AddUint64(item uint64) (isNew bool, err error) { return f.f.AddUint64(item) }

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
	return f.f.AddManyString(items, isNew)
}

// AddManyUint64 is AddMany for the 8 bytes of each item in little-endian order.
func (f *Cuckoo) AddManyUint64(items []uint64, isNew []bool) (n int, err error) {
	return f.f.AddManyUint64(items, isNew)
}

// AddIfAbsent adds an item unless it may be present, and reports whether it did. If it did not, the item may be absent
// and only look like another one. So only a caller that has added the item may delete it later. The errors are those
// of Add.
func (f *Cuckoo) AddIfAbsent(item []byte) (added bool, err error) { return f.f.AddIfAbsent(item) }

// AddIfAbsentString is AddIfAbsent for a string.
func (f *Cuckoo) AddIfAbsentString(item string) (added bool, err error) {
	return f.f.AddIfAbsentString(item)
}

// AddIfAbsentUint64 is AddIfAbsent for the 8 bytes of item in little-endian order.
func (f *Cuckoo) AddIfAbsentUint64(item uint64) (added bool, err error) {
	return f.f.AddIfAbsentUint64(item)
}

// Count returns how often the item was added and not deleted. It is too high with about the probability of a false
// positive. With an error, such as ErrNotFound for a missing filter, it is 0.
func (f *Cuckoo) Count(item []byte) (int, error) { return f.f.Count(item) }

// CountString is Count for a string.
func (f *Cuckoo) CountString(item string) (int, error) { return f.f.CountString(item) }

// CountUint64 is Count for the 8 bytes of item in little-endian order.
func (f *Cuckoo) CountUint64(item uint64) (int, error) { return f.f.CountUint64(item) }

// Delete deletes an item once, and reports whether it seemed to be present. Only delete items that were added, and at
// most as often: deleting an item that was never added can remove another one and cause false negatives.
func (f *Cuckoo) Delete(item []byte) (found bool, err error) { return f.f.Delete(item) }

// DeleteString is Delete for a string.
func (f *Cuckoo) DeleteString(item string) (found bool, err error) { return f.f.DeleteString(item) }

// DeleteUint64 is Delete for the 8 bytes of item in little-endian order.
func (f *Cuckoo) DeleteUint64(item uint64) (found bool, err error) { return f.f.DeleteUint64(item) }

// DeleteMany deletes each item once, and sets found[i] to what Delete returns for items[i]. It returns how many
// seemed to be present. found may be nil if the answers are not wanted; otherwise it must be as long as items. Its
// commits are like those of AddMany. An error is an *ItemError: the items before it are deleted, and none after it.
// After ErrFailed the outcome of that item and of up to 4095 after it is unknown.
func (f *Cuckoo) DeleteMany(items [][]byte, found []bool) (n int, err error) {
	return f.f.DeleteMany(items, found)
}

// DeleteManyString is DeleteMany for strings.
func (f *Cuckoo) DeleteManyString(items []string, found []bool) (n int, err error) {
	return f.f.DeleteManyString(items, found)
}

// DeleteManyUint64 is DeleteMany for the 8 bytes of each item in little-endian order.
func (f *Cuckoo) DeleteManyUint64(items []uint64, found []bool) (n int, err error) {
	return f.f.DeleteManyUint64(items, found)
}

// Compact moves entries into room that deletions have left in older layers, and removes layers that become empty.
// Lookups take less time if there are fewer layers. The store does this by itself some time after many deletions.
func (f *Cuckoo) Compact() error { return f.f.Compact() }
