package kv

import (
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// stagedAttribute is an attribute of an object; a nil value removes it.
type stagedAttribute struct {
	object uint64
	name   string
	value  []byte
}

// Attribute returns the value of an attribute of the object as last committed,
// nil if it has none. Attributes are small values that live and die with the
// object and move with it: state of who works on it, not of its type.
func (db *DB) Attribute(o *Object, name string) ([]byte, error) {
	if err := db.enter(); err != nil {
		return nil, err
	}
	defer db.exit()
	value, closer, err := db.disk.Get(appendAttributeKey(nil, o.header.id, name))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, db.readError(err, "key %q: attribute %q", o.key, name)
	}
	value = append([]byte{}, value...)
	return value, closer.Close()
}

// SetAttribute stages an attribute of an object; nil removes it.
func (w *Writer) SetAttribute(o *Object, name string, value []byte) {
	w.attributes = append(w.attributes, stagedAttribute{o.header.id, name, value})
	w.grow(perEntry + len(value))
}

// KeepAttributes stages for one object the attributes another has, as last committed.
func (w *Writer) KeepAttributes(from, to *Object) (err error) {
	prefix := appendAttributeKey(nil, from.header.id, "")
	end := slices.Clone(prefix)
	end[len(end)-1]++
	it, err := w.db.disk.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: end})
	if err != nil {
		return w.db.readError(err, "key %q: attributes", from.key)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return w.db.readError(err, "key %q: attributes", from.key)
		}
		w.SetAttribute(to, string(it.Key()[len(prefix):]), append([]byte{}, value...))
	}
	return nil
}
