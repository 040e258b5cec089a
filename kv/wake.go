package kv

import (
	"context"
	"errors"

	"github.com/sievekv/sievekv/kv/format"
	"github.com/sievekv/sievekv/kv/storage"
)

// A type may ask to be called at a time, see Type.Wake. The commit that changes an object's header writes a note with the
// time, and deletes the one that was there. Notes only say when to look: what Compact then does follows from the object.

// wakeOf returns when the object's type is to be called, 0 for never.
func wakeOf(o *Object) int64 {
	if o == nil || o.typ == nil || o.typ.Wake == nil || o.header.Hidden {
		return 0
	}
	return o.typ.Wake(o)
}

// stageWake stages the note of a key whose type is to be called, and removes the note of the object that was there.
func (w *Writer) stageWake(key []byte, old, now *Object) {
	was, is := wakeOf(old), wakeOf(now)
	if was != 0 && was != is {
		w.delete(format.AppendWakeKey(w.scratch[:0], was, key))
	}
	if is != 0 && was != is {
		w.set(format.AppendWakeKey(w.scratch[:0], is, key), nil)
	}
}

// Wake, for services, calls Type.Compact of objects whose time has come, see Type.Wake, of at most 16 of them, each in a
// commit of its own. It reports whether there may be more.
func (db *DB) Wake(ctx context.Context, budget int) (more bool, err error) {
	if err := db.enter(); err != nil {
		return false, err
	}
	defer db.exit()
	const wakeBatch = 16
	due := format.AppendWakeKey(nil, db.Now()+1, nil)
	notes, err := storage.FirstKeys(ctx, db.store, []byte{format.TagWake}, due, wakeBatch)
	if err != nil {
		return false, storage.ReadError(err, "objects to be woken")
	}
	for _, note := range notes {
		at, key, nerr := format.DecodeWakeKey(note)
		if nerr == nil {
			_, nerr = db.CompactKey(key, budget, true)
		}
		if nerr == nil {
			nerr = db.removeStale(note, at, key)
		}
		err = errors.Join(err, nerr) // the others can be woken all the same
	}
	return err == nil && len(notes) == wakeBatch, err
}

// removeStale removes a note that is not of what is under its key now.
func (db *DB) removeStale(note []byte, at int64, key []byte) error {
	return db.Write(NoSync, [][]byte{key}, func(w *Writer) error {
		o, err := w.stored(key)
		if err != nil || wakeOf(o) == at {
			return err
		}
		b := db.store.NewBatch()
		defer func() { _ = b.Close() }() // releases memory, cannot fail
		must(b.Delete(note, nil))
		db.apply.RLock()
		defer db.apply.RUnlock()
		_, err = db.store.Commit(b, false)
		return err
	})
}
