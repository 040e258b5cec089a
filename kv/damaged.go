package kv

import (
	"bytes"
	"context"
	"errors"

	"github.com/sievekv/sievekv/kv/format"
	"github.com/sievekv/sievekv/kv/storage"
)

// A key whose header cannot be understood is there all the same: scans list it, counts count it, and it can be
// deleted and replaced. Everything else that is done to it returns the error.

// damaged is the error of such a header, or of what is needed with it to open the object.
type damaged struct {
	error
	header *format.Header // nil if nothing of it can be trusted
}

func (d *damaged) Unwrap() error { return d.error }

// damagedBy returns the error of a header as that of a damaged one. A header of a newer
// version is not damaged: what it says is not known, and is not to be thrown away.
func damagedBy(err error) error {
	if err == nil || !errors.Is(err, ErrCorrupt) {
		return err
	}
	return &damaged{error: err}
}

// damagedBeside returns an error that was met in opening an object by a header that
// decodes. If the type cannot make sense of it, it may say anything. Counters that do not
// decode, and a type of a newer version, say nothing against the header.
func damagedBeside(h *format.Header, err error, trusted bool) error {
	switch {
	case errors.Is(err, ErrUnsupportedVersion), errors.Is(err, ErrCorrupt) && trusted:
		return &damaged{err, h}
	case errors.Is(err, ErrCorrupt):
		return &damaged{error: err}
	}
	return err
}

// stand returns an object in place of the damaged one, which serves to be removed. Blocks of one whose id cannot be
// trusted stay behind, and Check tells of them: they may be another key's, or what is left to repair one from.
func (d *damaged) stand(db *DB, key []byte) *Object {
	h := d.header
	if h == nil {
		h = &format.Header{}
	}
	o := &Object{db: db, key: string(key), header: h}
	o.state.Store(uint64(h.Expiry) << 1)
	return o
}

// notesOf returns the notes that a key expires, whenever that is: for a key whose header
// does not say. It reads all notes there are. The caller holds the key's lock.
func (db *DB) notesOf(key []byte) (notes [][]byte, err error) {
	it, err := db.iterate(context.Background(), []byte{format.TagExpiry}, expiryEnd)
	if err != nil {
		return nil, storage.ReadError(err, "key %q: when it expires", key)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		if _, of, err := format.DecodeExpiryKey(it.Key()); err == nil && bytes.Equal(of, key) {
			notes = append(notes, bytes.Clone(it.Key()))
		}
	}
	if err := it.Error(); err != nil {
		return nil, storage.ReadError(err, "key %q: when it expires", key)
	}
	return notes, nil
}
