package kv

import (
	"context"
	"errors"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/storage"
)

// A type may ask to be called at a time, see Type.Wake. The commit that changes an object's header writes a note with the
// time, and deletes the one that was there. Notes only say when to look: what Compact then does follows from the object.
//
// If the type's module is not registered, the time is not known, and the notes of a key are kept as they are. A commit
// that gives the object another key, or copies it, notes format.WakeSoon. Once the module is there, Wake calls the type
// for that note, and writes the right one in its place.

// wakeOf returns when to call the object's type, 0 for never, and format.WakeSoon if that is not known.
func wakeOf(o *Object) int64 {
	switch {
	case o == nil || o.header.Hidden:
		return 0
	case !o.wakeKnown():
		return format.WakeSoon
	case o.typ == nil || o.typ.Wake == nil:
		return 0
	}
	return o.typ.Wake(o)
}

// wakeKnown reports whether it is known when to call the object's type.
func (o *Object) wakeKnown() bool { return o.typ != nil || o.header.Module == format.BuiltInModule }

// stageWake stages the note of when to call a key's type, and removes the note of the earlier object.
func (w *Writer) stageWake(key []byte, old, now *Object) {
	was, is := wakeOf(old), wakeOf(now)
	if was == is && (is == 0 || old.header.ID == now.header.ID) {
		return
	}
	w.noteWake(key, was, is)
}

// noteWake stages a note of a key in place of another, 0 for none.
func (w *Writer) noteWake(key []byte, was, is int64) {
	if was != 0 {
		w.delete(format.AppendWakeKey(w.scratch[:0], was, key))
	}
	if is != 0 {
		w.set(format.AppendWakeKey(w.scratch[:0], is, key), nil)
	}
}

// Wake, for services, calls Type.Compact of objects whose time has come, see Type.Wake, of at most 16 of them, each in a
// commit of its own. It begins with the note from, nil for the first, and returns the note that it comes to next, nil if
// there is none. So a caller that goes on with that one comes to all objects, also if some cannot be compacted, or have
// nothing to do. Their errors are joined.
func (db *DB) Wake(ctx context.Context, from []byte, budget int) (next []byte, err error) {
	if err := db.enter(); err != nil {
		return nil, err
	}
	defer db.exit()
	if db.follows() { // the store that leads does it
		return nil, nil
	}
	const wakeBatch = 16
	if from == nil {
		from = []byte{format.TagWake}
	}
	due := format.AppendWakeKey(nil, db.Now()+1, nil)
	notes, err := storage.FirstKeys(ctx, db.store, from, due, wakeBatch+1) // none if the clock was set back, and due is before from
	if err != nil {
		return nil, storage.ReadError(err, "objects to be woken")
	}
	if len(notes) > wakeBatch {
		notes, next = notes[:wakeBatch], notes[wakeBatch]
	}
	for _, note := range notes {
		err = errors.Join(err, db.wake(note, budget))
	}
	return next, err
}

// wake calls the type of a note's object. If there is more to do, it asks for another compaction.
func (db *DB) wake(note []byte, budget int) error {
	at, key, err := format.DecodeWakeKey(note)
	if err != nil {
		return err
	}
	more, err := db.CompactKey(key, budget, true)
	if err != nil {
		return err
	}
	if more {
		db.QueueCompact(key)
	}
	return db.settleNote(at, key)
}

// settleNote replaces a note that does not belong to what is under its key now by the right one.
func (db *DB) settleNote(at int64, key []byte) error {
	return db.Write(NoSync, [][]byte{key}, func(w *Writer) error {
		v, err := w.lookAt(key, withoutValue)
		if err != nil || v.stored != nil && !v.stored.wakeKnown() {
			return err
		}
		if is := wakeOf(v.stored); is != at {
			w.noteWake(key, at, is)
		}
		return nil
	})
}
