package sievekv

import "github.com/sievekv/sievekv/cuckooext"

// Cuckoo is a handle on the cuckoo filter under a key: items can be deleted, and copies are
// counted. It reads nothing until it is used, holds no resources, and is safe for any number of
// goroutines. It follows its key, and returns ErrNotFound and ErrWrongType, as Bloom does.
type Cuckoo struct{ f cuckooext.Filter }

// CuckooConfig says what a new cuckoo filter is for:
//
//   - Capacity: the items expected, copies included, 1 to 2^40;
//   - ErrorRate: the highest false-positive rate, above 0 and below 1; with 0 fingerprints have 12 bits, and up to 32 layers
//     have a rate of 0.0018 each;
//   - Expansion: the size of each further layer as a multiple of the one before, 1 to 32768, rounded up to a power of two; 0
//     for 2;
//   - NonScaling: the filter does not grow; Expansion must be 0 then;
//   - BucketSize: the slots of a bucket, 1 to 255; 0 for 4;
//   - MaxIterations: the most entries moved to make room for one, 1 to 65535; 0 for 20;
//   - Hash: HashKeyed, or HashXXH64; 0 for HashKeyed;
//   - TTL: how long the filter lives from when it is made, at least a millisecond; 0 for ever.
//
// Its method Planned tells, without a store, how large the filter is when it holds so many items. See cuckooext.Config.
type CuckooConfig = cuckooext.Config

// CuckooInfo describes a cuckoo filter: among others the Items it has, its Capacity, the false-positive rate now
// (ExpectedRate), its size in bytes, and when it expires. See cuckooext.Info.
type CuckooInfo = cuckooext.Info

// With returns a handle on the same filter whose writes are reported as done at another level of durability.
func (f *Cuckoo) With(level Durability) *Cuckoo { return &Cuckoo{*f.f.With(level)} }

// In returns a handle on the same key that reads and writes as part of a transaction, or reads
// a snapshot, until that ends. It is for handles that exist: Tx.Cuckoo and Snapshot.Cuckoo make new ones.
// Its writes are part of the transaction, whatever its level of durability. If the transaction is nil, or of another store
// (ErrOtherStore), every use of the handle returns an error.
func (f *Cuckoo) In(s Scope) *Cuckoo { return &Cuckoo{*f.f.In(s)} }

// Reserve makes an empty filter. It returns ErrExists if the key holds anything, and ErrWrongType
// too if that is no cuckoo filter; ErrConfig for a value out of range; and ErrTooLarge for a filter
// larger than Options.MaxFilterBytes.
func (f *Cuckoo) Reserve(c CuckooConfig) error { return f.f.Reserve(c) }

// OpenOrReserve makes the filter if nothing is under the key, and otherwise checks that the filter
// there was made with these parameters: it returns ErrMismatch if not. A TTL counts from when the
// filter was made, and is not compared; nor is the hash if the CuckooConfig names none. The other
// errors are those of Reserve.
func (f *Cuckoo) OpenOrReserve(c CuckooConfig) error { return f.f.OpenOrReserve(c) }

// Drop removes the whole filter, and reports whether there was one. It returns ErrWrongType, and
// changes nothing, if the key holds another type.
func (f *Cuckoo) Drop() (bool, error) { return f.f.Drop() }

// Info returns facts about the filter: how full it is, its error rate now, its size. It reads no blocks.
func (f *Cuckoo) Info() (CuckooInfo, error) { return f.f.Info() }

// MayContain reports whether the item may be there: false means that it was not added, or was
// deleted as often. With an error, such as ErrNotFound for a missing filter, it is true, as nothing is known of the item.
func (f *Cuckoo) MayContain(item []byte) (bool, error) { return f.f.MayContain(item) }

// MayContainString is MayContain for a string.
func (f *Cuckoo) MayContainString(item string) (bool, error) { return f.f.MayContainString(item) }

// MayContainUint64 is MayContain for the 8 bytes of item in little-endian order.
func (f *Cuckoo) MayContainUint64(item uint64) (bool, error) { return f.f.MayContainUint64(item) }

// MayContainMany sets present[i] to what MayContain says of items[i]. present must be as long as
// items: otherwise it returns an error. After an error all of present are true.
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

// Add adds an item, once more if it is there, and reports whether it is new; false means that it
// was there, perhaps. The errors are ErrFull and ErrCannotGrow if there is no room, and ErrFull
// for an item that is there as often as it can be: twice the bucket size in a layer, 8 times by default. With an error isNew
// is false.
func (f *Cuckoo) Add(item []byte) (isNew bool, err error) { return f.f.Add(item) }

// AddString is Add for a string.
func (f *Cuckoo) AddString(item string) (isNew bool, err error) { return f.f.AddString(item) }

// AddUint64 is Add for the 8 bytes of item in little-endian order.
func (f *Cuckoo) AddUint64(item uint64) (isNew bool, err error) { return f.f.AddUint64(item) }

// AddMany adds items, and sets isNew[i] to what Add says of items[i]; of equal items only the first
// can be new. It returns how many are new. isNew may be nil if the answers are not wanted; otherwise it must be as
// long as items, or nothing is added. Up to 4096 items are one commit, fewer with an Options.MemTableSize below 8 MiB; more
// items are several. All items are tried: if there is no room for
// some, the error is an *ItemError of the first of them. After any other error the items
// before that one are added, but for those without room, and no others.
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

// AddIfAbsent adds an item that is not there, and reports whether it did: false means that it was
// there, perhaps, and a caller that did not add it must not delete it. The errors are those of Add.
func (f *Cuckoo) AddIfAbsent(item []byte) (added bool, err error) { return f.f.AddIfAbsent(item) }

// AddIfAbsentString is AddIfAbsent for a string.
func (f *Cuckoo) AddIfAbsentString(item string) (added bool, err error) {
	return f.f.AddIfAbsentString(item)
}

// AddIfAbsentUint64 is AddIfAbsent for the 8 bytes of item in little-endian order.
func (f *Cuckoo) AddIfAbsentUint64(item uint64) (added bool, err error) {
	return f.f.AddIfAbsentUint64(item)
}

// Count returns how often the item is in the filter: how often it was added and not deleted, or
// more, rarely, as false positives count too.
func (f *Cuckoo) Count(item []byte) (int, error) { return f.f.Count(item) }

// CountString is Count for a string.
func (f *Cuckoo) CountString(item string) (int, error) { return f.f.CountString(item) }

// CountUint64 is Count for the 8 bytes of item in little-endian order.
func (f *Cuckoo) CountUint64(item uint64) (int, error) { return f.f.CountUint64(item) }

// Delete deletes an item once, and reports whether it was there, perhaps. Delete only items that
// were added, and as often: deleting an item that was never added can remove another one, which
// lookups then miss.
func (f *Cuckoo) Delete(item []byte) (found bool, err error) { return f.f.Delete(item) }

// DeleteString is Delete for a string.
func (f *Cuckoo) DeleteString(item string) (found bool, err error) { return f.f.DeleteString(item) }

// DeleteUint64 is Delete for the 8 bytes of item in little-endian order.
func (f *Cuckoo) DeleteUint64(item uint64) (found bool, err error) { return f.f.DeleteUint64(item) }

// DeleteMany deletes items, each once, and sets found[i] to what Delete says of items[i]. It
// returns how many were there, perhaps. found may be nil if the answers are not wanted, and must be as long as items
// otherwise. Commits are as those of AddMany. An error is an *ItemError: the items before that
// one are deleted, and no others.
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

// Compact moves entries to where deletions left room in older layers, and takes away layers that
// are empty then; lookups need less time for fewer layers. The store does it by itself some time after many deletions.
func (f *Cuckoo) Compact() error { return f.f.Compact() }
