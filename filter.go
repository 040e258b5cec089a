package sievekv

import (
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// Filter has the methods that handles on filters of all types share. An item is bytes, a string, or a uint64, which
// means its 8 bytes in little-endian order. The form does not matter: items of the same bytes are the same item.
//
// Adding an item again changes nothing in a Bloom filter. A cuckoo or counting filter then has the item once more,
// and it can be deleted as often.
type Filter interface {
	// MayContain reports whether the item may be present: false means that it is not. With an error it is true.
	MayContain(item []byte) (bool, error)
	MayContainString(item string) (bool, error)
	MayContainUint64(item uint64) (bool, error)

	// MayContainMany sets present[i] to what MayContain returns for items[i].
	MayContainMany(items [][]byte, present []bool) error
	MayContainManyString(items []string, present []bool) error
	MayContainManyUint64(items []uint64, present []bool) error

	// Add adds an item, and reports whether it is new.
	Add(item []byte) (isNew bool, err error)
	AddString(item string) (isNew bool, err error)
	AddUint64(item uint64) (isNew bool, err error)

	// AddMany adds items, sets isNew[i] to what Add returns for items[i], unless isNew is nil, and returns how many
	// are new. If there is no room for an item, the error is an *ItemError; a Bloom or counting filter then leaves out
	// all later items, a cuckoo filter only those that find no room.
	AddMany(items [][]byte, isNew []bool) (n int, err error)
	AddManyString(items []string, isNew []bool) (n int, err error)
	AddManyUint64(items []uint64, isNew []bool) (n int, err error)

	// Drop removes the whole filter, and reports whether there was one.
	Drop() (bool, error)
}

var (
	_ Filter = (*Bloom)(nil)
	_ Filter = (*Cuckoo)(nil)
	_ Filter = (*Counting)(nil)
)

// ItemError is the error of a method that takes many items. Its fields are Item, the index of the first item that was
// not added or deleted, and Err, the reason, which it wraps. Use errors.As with *ItemError.
type ItemError = scalableext.ItemError

// Scope is a Tx or a Snapshot, for the method In of handles.
type Scope = kv.Scope
