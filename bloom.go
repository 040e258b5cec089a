package sievekv

import (
	"context"
	"io"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/scalableext"
)

// Bloom is a handle on the Bloom filter under a key. Bloom filters are the smallest, but their items cannot be
// deleted. A handle reads nothing until it is used, holds no resources, and may be used by any number of goroutines.
// It follows its key: if another filter is renamed over it, the next use of the handle sees the new filter.
//
// Reserve and OpenOrReserve make the filter, and so may Merge. All other methods, also lookups and adds, return
// ErrNotFound if the filter is missing or has expired; only Drop then returns false without an error. With a key of
// another type methods return ErrWrongType.
type Bloom struct{ f bloomext.Filter }

// BloomInfo describes a Bloom filter. It has, among others, the Items added, the Capacity, the share of its bits that
// are set (Fill), the present false-positive rate (ExpectedRate), its size in bytes, and when it expires. See
// [bloomext.Info].
type BloomInfo = bloomext.Info

// ForeignFile says how ImportForeign takes a file:
//
//   - Format: ForeignGuava, ForeignBitsAndBlooms or ForeignRedisson;
//   - Bits and Hashes: for Redisson alone, the filter's size and hashIterations;
//   - Replace: what is under the key is replaced, and its expiry removed; otherwise a key that exists is ErrExists.
//
// Its method Check checks the beginning and the length of a file without a store. See [bloomext.ForeignFile].
type ForeignFile = bloomext.ForeignFile

// ForeignFormat is the form of a file in which another library keeps a Bloom filter.
type ForeignFormat = bloomext.ForeignFormat

// The files of other libraries. See [bloomext.ForeignFormat] for the versions, and for what the items are.
const (
	ForeignGuava         = bloomext.Guava         // BloomFilter.writeTo of Guava for Java
	ForeignBitsAndBlooms = bloomext.BitsAndBlooms // WriteTo of github.com/bits-and-blooms/bloom/v3 for Go
	ForeignRedisson      = bloomext.Redisson      // the string of a RBloomFilter of Redisson for Java
)

// ImportForeign makes the filter of a file in which another library keeps a Bloom filter. It answers as it did there, with
// the same false positives, and takes more items. It does not grow, and is never full: as there, its error rate rises with
// each new item. Its layout is LayoutForeign, and its hash is public: anyone can choose items that collide. Info has an
// estimate of the items from the bits that are set; the capacity is the number of items that set half of them. All of the
// filter appears in one commit, or nothing. It does not expire.
//
// The file reaches from where in is to its end. It is read block by block, while transactions and other writes to the key
// wait. The errors are ErrExists, ErrDamaged, ErrTooLarge, ErrConfig for a value out of range, and errors of in.
func (f *Bloom) ImportForeign(ctx context.Context, in io.ReadSeeker, how ForeignFile) error {
	return f.f.ImportForeign(ctx, in, how)
}

// With returns a handle on the same filter whose writes have another level of durability: Always, EverySec or
// NoSync, or 0 for Options.Durability. With another value every write returns ErrOptions.
func (f *Bloom) With(level Durability) *Bloom { return &Bloom{*f.f.With(level)} }

// Reserve makes an empty filter of a size; nil for c means the defaults. If the key exists, it returns ErrExists, which is
// ErrWrongType too if the key does not hold a Bloom filter. It returns ErrConfig for a value out of range, and ErrTooLarge for a filter larger than
// Options.MaxFilterBytes.
func (f *Bloom) Reserve(s Size, c *BloomConfig) error { return f.f.Reserve(c.with(s)) }

// OpenOrReserve makes the filter if the key is missing. Otherwise it checks that the filter was made with these
// parameters, and returns ErrMismatch if not. It does not compare the TTL, nor the hash unless the BloomConfig names
// one. The other errors are ErrWrongType for a key of another type, ErrConfig and ErrTooLarge.
func (f *Bloom) OpenOrReserve(s Size, c *BloomConfig) error { return f.f.OpenOrReserve(c.with(s)) }

// Drop removes the whole filter, and reports whether there was one. If the key holds another type, it changes nothing
// and returns ErrWrongType.
func (f *Bloom) Drop() (bool, error) { return f.f.Drop() }

// Info returns facts about the filter: how full it is, its present error rate, its size. It reads no blocks.
func (f *Bloom) Info() (BloomInfo, error) { return f.f.Info() }

// MayContain reports whether the item may have been added: false means that it was not. With an error, such as
// ErrNotFound for a missing filter, it is true, because nothing is known of the item.
func (f *Bloom) MayContain(item []byte) (bool, error) { return f.f.MayContain(item) }

// MayContainString is MayContain for a string.
func (f *Bloom) MayContainString(item string) (bool, error) {
	return f.f.MayContain(scalableext.BytesOf(item))
}

// MayContainMany sets present[i] to what MayContain returns for items[i]. present must be as long as items, otherwise
// it returns an error. After an error all of present are true.
func (f *Bloom) MayContainMany(items [][]byte, present []bool) error {
	return f.f.MayContainMany(items, present)
}

// MayContainManyString is MayContainMany for strings.
func (f *Bloom) MayContainManyString(items []string, present []bool) error {
	return f.f.MayContainMany(scalableext.BytesOfAll(items), present)
}

// Add adds an item, and reports whether it is new. false means that it may have been added before: at the error rate
// a new item seems known, and then Add changes nothing. If a new item has no room, the error is ErrFull or
// ErrCannotGrow. With an error isNew is false.
func (f *Bloom) Add(item []byte) (isNew bool, err error) { return f.f.Add(item) }

// AddString is Add for a string.
func (f *Bloom) AddString(item string) (isNew bool, err error) {
	return f.f.Add(scalableext.BytesOf(item))
}

// AddMany adds items, and sets isNew[i] to what Add returns for items[i]; of equal items only the first can be new.
// It returns how many are new. isNew may be nil if the answers are not wanted; otherwise it must be as long as items,
// or nothing is added. Up to 65,536 items are one commit, fewer if that would be larger than a quarter of
// Options.MemTableSize; more items are several commits. If an item cannot be added, the error is an *ItemError: the
// items before it are added, and none after it. After ErrFailed the outcome of that item and of up to 65,535 after it
// is unknown.
func (f *Bloom) AddMany(items [][]byte, isNew []bool) (n int, err error) {
	return f.f.AddMany(items, isNew)
}

// AddManyString is AddMany for strings.
func (f *Bloom) AddManyString(items []string, isNew []bool) (n int, err error) {
	return f.f.AddMany(scalableext.BytesOfAll(items), isNew)
}

// Merge adds the contents of the sources to the filter in one commit: afterwards the filter is their union.
//
// If the filter is missing, Merge makes it with the parameters of the sources, and without an expiry. A missing
// source is ErrNotFound, and a nil one is an error. The filter may be one of the sources, if it exists. All filters
// must be in one store and have equal parameters, with one Group; otherwise the error is ErrUnequal. If the union
// would have a higher error rate than they were made for, the error is ErrRate, and nothing changes. Merge reads and writes
// all blocks of the filters; meanwhile other writes to them wait.
func (f *Bloom) Merge(ctx context.Context, sources ...*Bloom) error {
	list := make([]*bloomext.Filter, len(sources))
	for i, s := range sources {
		if s != nil {
			list[i] = &s.f
		}
	}
	return f.f.Merge(ctx, list...)
}
