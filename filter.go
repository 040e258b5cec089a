package sievekv

import "github.com/sievekv/sievekv/scalableext"

// Filter has the methods that handles on filters of all types share. An item is bytes or a string; Uint64 makes one from an
// integer. The form does not matter: items of the same bytes are the same item.
//
// Adding an item again changes nothing in a Bloom filter. A cuckoo or counting filter then has the item once more,
// and it can be deleted as often.
type Filter interface {
	// MayContain reports whether the item may be present: false means that it is not. With an error it is true.
	MayContain(item []byte) (bool, error)
	MayContainString(item string) (bool, error)

	// MayContainMany sets present[i] to what MayContain returns for items[i].
	MayContainMany(items [][]byte, present []bool) error
	MayContainManyString(items []string, present []bool) error

	// Add adds an item, and reports whether it is new.
	Add(item []byte) (isNew bool, err error)
	AddString(item string) (isNew bool, err error)

	// AddMany adds items, sets isNew[i] to what Add returns for items[i], unless isNew is nil, and returns how many
	// are new. If there is no room for an item, the error is an *ItemError; a Bloom or counting filter then leaves out
	// all later items, a cuckoo filter only those that find no room.
	AddMany(items [][]byte, isNew []bool) (n int, err error)
	AddManyString(items []string, isNew []bool) (n int, err error)

	// Drop removes the whole filter, and reports whether there was one.
	Drop() (bool, error)
}

var (
	_ Filter = (*Bloom)(nil)
	_ Filter = (*Cuckoo)(nil)
	_ Filter = (*Counting)(nil)
)

// Uint64 returns the item that stands for an integer: its 8 bytes, the lowest first.
func Uint64(v uint64) []byte { return scalableext.Uint64(v) }

// Uint64s is Uint64 for many integers.
func Uint64s(values ...uint64) [][]byte { return scalableext.Uint64s(values...) }

// ItemError is the error of a method that takes many items. Its fields are Item, the index of the first item that was
// not added or deleted, and Err, the reason, which it wraps. Use errors.As with *ItemError.
type ItemError = scalableext.ItemError
