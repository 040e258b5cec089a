package kv

import (
	"context"
	"errors"

	"github.com/sievekv/sievekv/internal/expiry"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/storage"
)

// A key whose header does not decode still exists: scans list it, counts count it, and it can be deleted and
// replaced. Everything else that is done with it returns the error.

// damaged is the error of a header that does not decode, or of something else that opening the object needs.
type damaged struct {
	error
	header *format.Header // nil if nothing in it can be trusted
}

func (d *damaged) Unwrap() error { return d.error }

// damagedBy returns the error of a header as a damaged one. A header of a newer version is not damaged: this program
// does not know what it says, and must not throw it away.
func damagedBy(err error) error {
	if err == nil || !errors.Is(err, ErrCorrupt) {
		return err
	}
	return &damaged{error: err}
}

// damagedBeside returns an error of opening an object whose header decodes. If the type refuses the parameters, the
// header may say anything. If counters do not decode, or the type has a newer version, the header can still be trusted.
func damagedBeside(h *format.Header, err error, trusted bool) error {
	switch {
	case errors.Is(err, ErrUnsupportedVersion), errors.Is(err, ErrCorrupt) && trusted:
		return &damaged{err, h}
	case errors.Is(err, ErrCorrupt):
		return &damaged{error: err}
	}
	return err
}

// stand returns an object that stands in for the damaged one, so that it can be removed. If the id cannot be trusted,
// its blocks stay behind, and Check reports them: they may be another key's, or all that a repair can use.
func (d *damaged) stand(db *DB, key []byte) *Object {
	h := d.header
	if h == nil {
		h = &format.Header{}
	}
	o := &Object{db: db, key: string(key), header: h}
	return o
}

// notesOf returns the expiry notes of a key whose header cannot say when the key expires. It reads all notes. The
// caller holds the key's lock.
func (db *DB) notesOf(key []byte) (notes [][]byte, err error) {
	it, err := db.iterate(context.Background(), []byte{format.TagExpiry}, expiry.End)
	if err == nil {
		notes, err = expiry.Of(key, it)
		err = errors.Join(err, it.Close())
	}
	if err != nil {
		return nil, storage.ReadError(err, "key %q: when it expires", key)
	}
	return notes, nil
}
