package sievekv

import (
	"context"

	"github.com/sievekv/sievekv/bloomext"
)

// Bloom is a handle on the Bloom filter under a key: the smallest filter; items cannot be deleted.
// It reads nothing until it is used, holds no resources, and is safe for any number of
// goroutines. It follows its key: when another filter is renamed over that, its next use is about
// the new one. A use of a missing or expired filter returns ErrNotFound, of a key of another
// type ErrWrongType.
type Bloom struct{ f bloomext.Filter }

// BloomConfig says what a new Bloom filter is for: its Capacity and ErrorRate, and if need be its
// Expansion (or NonScaling), Hash and TTL; or its Bits and Hashes. See bloomext.Config.
type BloomConfig = bloomext.Config

// BloomInfo describes a Bloom filter. See bloomext.Info.
type BloomInfo = bloomext.Info

// With returns a handle on the same filter whose writes are reported as done at another level of durability.
func (f *Bloom) With(level Durability) *Bloom { return &Bloom{*f.f.With(level)} }

// In returns a handle on the same key that reads and writes as part of a transaction, or reads
// a snapshot, until that ends. It is for handles that exist: Tx.Bloom and Snapshot.Bloom make new ones.
// If the transaction is of another store, every use of the handle returns an error.
func (f *Bloom) In(s Scope) *Bloom { return &Bloom{*f.f.In(s)} }

// Reserve makes an empty filter. It returns ErrExists if the key holds anything, and ErrWrongType
// too if that is no Bloom filter; ErrConfig for a value out of range; and ErrTooLarge for a filter
// larger than Options.MaxFilterBytes.
func (f *Bloom) Reserve(c BloomConfig) error { return f.f.Reserve(c) }

// OpenOrReserve makes the filter if nothing is under the key, and otherwise checks that the filter
// there was made with these parameters: it returns ErrMismatch if not. A TTL counts from when the
// filter was made, and is not compared; nor is the hash if the BloomConfig names none. The other
// errors are those of Reserve.
func (f *Bloom) OpenOrReserve(c BloomConfig) error { return f.f.OpenOrReserve(c) }

// Drop removes the whole filter, and reports whether there was one. It returns ErrWrongType, and
// changes nothing, if the key holds another type.
func (f *Bloom) Drop() (bool, error) { return f.f.Drop() }

// Info returns facts about the filter: how full it is, its error rate now, its size. It reads no blocks.
func (f *Bloom) Info() (BloomInfo, error) { return f.f.Info() }

// MayContain reports whether the item may have been added: false means that it was not. With an
// error it is true.
func (f *Bloom) MayContain(item []byte) (bool, error) { return f.f.MayContain(item) }

// MayContainString is MayContain for a string.
func (f *Bloom) MayContainString(item string) (bool, error) { return f.f.MayContainString(item) }

// MayContainUint64 is MayContain for the 8 bytes of item in little-endian order.
func (f *Bloom) MayContainUint64(item uint64) (bool, error) { return f.f.MayContainUint64(item) }

// MayContainMany sets present[i] to what MayContain says of items[i]. present must be as long as
// items. After an error all are true.
func (f *Bloom) MayContainMany(items [][]byte, present []bool) error {
	return f.f.MayContainMany(items, present)
}

// MayContainManyString is MayContainMany for strings.
func (f *Bloom) MayContainManyString(items []string, present []bool) error {
	return f.f.MayContainManyString(items, present)
}

// MayContainManyUint64 is MayContainMany for the 8 bytes of each item in little-endian order.
func (f *Bloom) MayContainManyUint64(items []uint64, present []bool) error {
	return f.f.MayContainManyUint64(items, present)
}

// Add adds an item and reports whether it is new; false means that it was there before, perhaps: at
// the error rate a new item seems known, and adding it changes nothing. The errors are ErrFull
// and ErrCannotGrow for a new item for which there is no room.
func (f *Bloom) Add(item []byte) (isNew bool, err error) { return f.f.Add(item) }

// AddString is Add for a string.
func (f *Bloom) AddString(item string) (isNew bool, err error) { return f.f.AddString(item) }

// AddUint64 is Add for the 8 bytes of item in little-endian order.
func (f *Bloom) AddUint64(item uint64) (isNew bool, err error) { return f.f.AddUint64(item) }

// AddMany adds items, and sets isNew[i] to what Add says of items[i]; of equal items only the first
// can be new. It returns how many are new. isNew may be nil if the answers are not wanted, and
// must be as long as items otherwise. Up to 4096 items are one commit, fewer with memtables
// below 8 MiB; longer batches are several. An error is an *ItemError: the items before that one
// are added, and no others.
func (f *Bloom) AddMany(items [][]byte, isNew []bool) (n int, err error) {
	return f.f.AddMany(items, isNew)
}

// AddManyString is AddMany for strings.
func (f *Bloom) AddManyString(items []string, isNew []bool) (n int, err error) {
	return f.f.AddManyString(items, isNew)
}

// AddManyUint64 is AddMany for the 8 bytes of each item in little-endian order.
func (f *Bloom) AddManyUint64(items []uint64, isNew []bool) (n int, err error) {
	return f.f.AddManyUint64(items, isNew)
}

// Merge adds to the filter all that the sources hold, in one commit: the union of their bits. The
// filter is made if it is missing, unless it is one of the sources; a missing source is
// ErrNotFound. All must be in one store and made with equal parameters: else the error is
// ErrUnequal. If the union would be fuller than the filters were made to be, it is ErrRate, and
// nothing is changed. Merge reads and writes all blocks of the filters, while other writes to them wait.
func (f *Bloom) Merge(ctx context.Context, sources ...*Bloom) error {
	list := make([]*bloomext.Filter, len(sources))
	for i, s := range sources {
		if s != nil {
			list[i] = &s.f
		}
	}
	return f.f.Merge(ctx, list...)
}
