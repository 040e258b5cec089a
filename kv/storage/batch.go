package storage

import (
	"bytes"
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"

	"github.com/sievekv/sievekv/kv/format"
)

const (
	// fewKeys is the most keys of a range that are deleted one by one, and manyChanges the number of changes from which
	// on a batch gets no more of them.
	fewKeys     = 32
	manyChanges = 4096
)

// DeleteAll adds the deletion of a range of keys of objects to a batch. No other commit may change the range before the
// batch is applied.
//
// Where the range has few keys, they are deleted one by one. Pebble keeps the range deletions of a memtable in a list
// that the first read after each new one makes anew. So with thousands of them each read that is not answered from
// memory would take milliseconds.
func DeleteAll(s *Store, b *Batch, from, to []byte) {
	if b.Count() < manyChanges {
		if keys, few := s.keysOf(from, to); few {
			for _, key := range keys {
				must(b.Delete(key, nil))
			}
			return
		}
	}
	must(b.DeleteRange(from, to, nil))
}

// keysOf returns the keys of a range, if they are few and can be read.
func (s *Store) keysOf(from, to []byte) (keys [][]byte, few bool) {
	keys, err := FirstKeys(context.Background(), s, from, to, fewKeys+1)
	return keys, err == nil && len(keys) <= fewKeys
}

// FirstKeys returns the first n keys of a range, or all if there are fewer.
func FirstKeys(ctx context.Context, s *Store, from, to []byte, n int) (keys [][]byte, err error) {
	it, err := s.NewIterWithContext(ctx, &IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok && len(keys) < n; ok = it.Next() {
		keys = append(keys, bytes.Clone(it.Key()))
	}
	return keys, errors.Join(it.Error(), it.Close())
}

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
