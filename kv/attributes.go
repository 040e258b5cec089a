package kv

import (
	"context"
	"errors"
	"slices"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/storage"
)

// stagedAttribute is a staged attribute of an object; a nil value removes it.
type stagedAttribute struct {
	object uint64
	name   string
	value  []byte
}

// Attribute returns the value of an attribute of the object as last committed, nil if it has none. Attributes are small
// values that are deleted and renamed with their object. They hold the state of work on the object, such as a
// compaction, and nothing that belongs to its type.
func (db *DB) Attribute(o *Object, name string) ([]byte, error) {
	if err := db.enter(); err != nil {
		return nil, err
	}
	defer db.exit()
	value, closer, err := db.store.Get(format.AppendAttributeKey(nil, o.header.ID, name))
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, storage.ReadError(err, "key %q: attribute %q", o.key, name)
	}
	value = append([]byte{}, value...)
	return value, closer.Close()
}

// SetAttribute stages an attribute of an object; nil removes it.
func (w *Writer) SetAttribute(o *Object, name string, value []byte) {
	w.attributes = append(w.attributes, stagedAttribute{o.header.ID, name, value})
	w.grow(storage.PerEntry + len(value))
}

// KeepAttributes stages the last committed attributes of from as attributes of to, which also takes over the counts of
// from.
func (w *Writer) KeepAttributes(from, to *Object) (err error) {
	to.uses = from.uses
	w.db.uses.Keep(to.header.ID, to.uses)
	prefix := format.AppendAttributeKey(nil, from.header.ID, "")
	end := slices.Clone(prefix)
	end[len(end)-1]++
	it, err := w.db.iterate(context.Background(), prefix, end)
	if err != nil {
		return storage.ReadError(err, "key %q: attributes", from.key)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return storage.ReadError(err, "key %q: attributes", from.key)
		}
		w.SetAttribute(to, string(it.Key()[len(prefix):]), append([]byte{}, value...))
	}
	return nil
}
