package sievekv

import (
	"context"

	"github.com/sievekv/sievekv/countingext"
)

// Counting is a handle on the counting Bloom filter under a key: items can be deleted, and are
// counted up to MaxCount; filters can be merged. It takes four times the space of a Bloom
// filter. It reads nothing until it is used, holds no resources, and is safe for any number of
// goroutines. It follows its key, and returns ErrNotFound and ErrWrongType, as Bloom does.
type Counting struct{ f countingext.Filter }

// CountingConfig says what a new counting filter is for:
//
//   - Capacity: the items expected to be there at once, 1 to 2^40, each as often as it is added;
//   - ErrorRate: the highest false-positive rate, above 0 and below 1; what is above 0.25 is taken for 0.25;
//   - Expansion: the capacity of each further layer as a multiple of the one before, 1 to 32768; 0 for 2;
//   - NonScaling: the filter does not grow; Expansion must be 0 then;
//   - Hash: HashKeyed, or HashXXH64; 0 for HashKeyed;
//   - TTL: how long the filter lives from when it is made, at least a millisecond; 0 for ever;
//   - Counters, 1 to 2^44, and Hashes, 1 to 64, in place of ErrorRate, lay the filter out by hand.
//
// Its method Planned tells, without a store, how large the filter is when it holds so many items. See countingext.Config.
type CountingConfig = countingext.Config

// CountingInfo describes a counting filter: among others the Items it has, its Capacity, the share of its counters above 0
// (Fill), the false-positive rate now (ExpectedRate), its size in bytes, and when it expires. See countingext.Info.
type CountingInfo = countingext.Info

// MaxCount is the highest answer of Counting.Count: it means 15 or more.
const MaxCount = countingext.MaxCount

// With returns a handle on the same filter whose writes are reported as done at another level of durability.
func (f *Counting) With(level Durability) *Counting { return &Counting{*f.f.With(level)} }

// In returns a handle on the same key that reads and writes as part of a transaction, or reads
// a snapshot, until that ends. It is for handles that exist: Tx.Counting and Snapshot.Counting make new ones.
// Its writes are part of the transaction, whatever its level of durability. If the transaction is nil, or of another store
// (ErrOtherStore), every use of the handle returns an error.
func (f *Counting) In(s Scope) *Counting { return &Counting{*f.f.In(s)} }

// Reserve makes an empty filter. It returns ErrExists if the key holds anything, and ErrWrongType
// too if that is no counting filter; ErrConfig for a value out of range; and ErrTooLarge for a filter
// larger than Options.MaxFilterBytes.
func (f *Counting) Reserve(c CountingConfig) error { return f.f.Reserve(c) }

// OpenOrReserve makes the filter if nothing is under the key, and otherwise checks that the filter
// there was made with these parameters: it returns ErrMismatch if not. A TTL counts from when the
// filter was made, and is not compared; nor is the hash if the CountingConfig names none. The other
// errors are those of Reserve.
func (f *Counting) OpenOrReserve(c CountingConfig) error { return f.f.OpenOrReserve(c) }

// Drop removes the whole filter, and reports whether there was one. It returns ErrWrongType, and
// changes nothing, if the key holds another type.
func (f *Counting) Drop() (bool, error) { return f.f.Drop() }

// Info returns facts about the filter: how full it is, its error rate now, its size. It reads no blocks.
func (f *Counting) Info() (CountingInfo, error) { return f.f.Info() }

// MayContain reports whether the item may be there: false means that it was not added, or was
// deleted as often. With an error, such as ErrNotFound for a missing filter, it is true, as nothing is known of the item.
func (f *Counting) MayContain(item []byte) (bool, error) { return f.f.MayContain(item) }

// MayContainString is MayContain for a string.
func (f *Counting) MayContainString(item string) (bool, error) { return f.f.MayContainString(item) }

// MayContainUint64 is MayContain for the 8 bytes of item in little-endian order.
func (f *Counting) MayContainUint64(item uint64) (bool, error) { return f.f.MayContainUint64(item) }

// MayContainMany sets present[i] to what MayContain says of items[i]. present must be as long as
// items: otherwise it returns an error. After an error all of present are true.
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

// Add adds an item, once more if it is there, and reports whether it is new; false means that it
// was there, perhaps. The errors are ErrFull and ErrCannotGrow for a new item for which there is
// no room. With an error isNew is false.
func (f *Counting) Add(item []byte) (isNew bool, err error) { return f.f.Add(item) }

// AddString is Add for a string.
func (f *Counting) AddString(item string) (isNew bool, err error) { return f.f.AddString(item) }

// AddUint64 is Add for the 8 bytes of item in little-endian order.
func (f *Counting) AddUint64(item uint64) (isNew bool, err error) { return f.f.AddUint64(item) }

// AddMany adds items, and sets isNew[i] to what Add says of items[i]; of equal items only the first
// can be new. It returns how many are new. isNew may be nil if the answers are not wanted; otherwise it must be as
// long as items, or nothing is added. Up to 4096 items are one commit, fewer with an Options.MemTableSize below 8 MiB; more
// items are several. If an item cannot be added the error is an *ItemError: the items before it
// are added, and no others.
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

// Count returns how often the item was added and not deleted: never less, and rarely more. MaxCount,
// 15, means 15 or more. With an error, such as ErrNotFound for a missing filter, it is 0.
func (f *Counting) Count(item []byte) (int, error) { return f.f.Count(item) }

// CountString is Count for a string.
func (f *Counting) CountString(item string) (int, error) { return f.f.CountString(item) }

// CountUint64 is Count for the 8 bytes of item in little-endian order.
func (f *Counting) CountUint64(item uint64) (int, error) { return f.f.CountUint64(item) }

// Delete deletes an item once, and reports whether it was there, perhaps. Delete only items that
// were added, and as often: deleting an item that was never added can remove another one, which
// lookups then miss.
func (f *Counting) Delete(item []byte) (found bool, err error) { return f.f.Delete(item) }

// DeleteString is Delete for a string.
func (f *Counting) DeleteString(item string) (found bool, err error) { return f.f.DeleteString(item) }

// DeleteUint64 is Delete for the 8 bytes of item in little-endian order.
func (f *Counting) DeleteUint64(item uint64) (found bool, err error) { return f.f.DeleteUint64(item) }

// DeleteMany deletes items, each once, and sets found[i] to what Delete says of items[i]. It
// returns how many were there, perhaps. found may be nil if the answers are not wanted, and must be as long as items
// otherwise. Commits are as those of AddMany. An error is an *ItemError: the items before that
// one are deleted, and no others.
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

// Merge adds to the filter all that the sources hold, in one commit: the sum of their
// counters, at most 15 each: an item is there as often as in all of them together. The
// filter is made if it is missing, unless it is one of the sources; a missing source is
// ErrNotFound. All must be in one store and made with equal parameters, the hash included: else the error is
// ErrUnequal. If the union would be fuller than the filters were made to be, it is ErrRate, and
// nothing is changed. Merge reads and writes all blocks of the filters, while other writes to them wait.
func (f *Counting) Merge(ctx context.Context, sources ...*Counting) error {
	list := make([]*countingext.Filter, len(sources))
	for i, s := range sources {
		if s != nil {
			list[i] = &s.f
		}
	}
	return f.f.Merge(ctx, list...)
}
