package storage

import (
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"

	"github.com/sievekv/sievekv/kv/format"
)

// Kind says what one change of a batch does.
type Kind = pebble.InternalKeyKind

// The kinds of changes.
const (
	KindSet         = pebble.InternalKeyKindSet
	KindDelete      = pebble.InternalKeyKindDelete
	KindMerge       = pebble.InternalKeyKindMerge
	KindRangeDelete = pebble.InternalKeyKindRangeDelete
)

// EachChange calls f with each change of a batch, in order, until f returns false.
func EachChange(b *Batch, f func(kind Kind, key, value []byte) bool) {
	for r := batchrepr.Read(b.Repr()); ; {
		kind, key, value, ok, err := r.Next()
		if !ok || err != nil || !f(kind, key, value) {
			return // Batch's methods made the batch, so it cannot fail to parse
		}
	}
}

// OnlyRemoves reports whether a batch of the engine has nothing but removals and their notes.
func OnlyRemoves(b *Batch) bool {
	only := true
	EachChange(b, func(kind Kind, key, _ []byte) bool {
		only = kind == KindDelete || kind == KindRangeDelete || key[0] == format.TagDropped
		return only
	})
	return only
}
