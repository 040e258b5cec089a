package kv

import (
	"errors"
	"slices"

	"github.com/sievekv/sievekv/kv/format"
)

// stagedKey is what a key maps to inside a writer.
type stagedKey struct {
	key     string
	object  *Object // nil: no live object
	stored  *Object // as the store has it, also if expired
	changed bool    // object is not as the store has it: made, moved here, or removed

	damage error    // stored is a stand-in for an object that cannot be opened
	notes  [][]byte // those of its expiry, which it does not tell
}

// groupDelta is the change of the number of keys of a group.
type groupDelta struct {
	group uint8
	delta int
}

func (w *Writer) expired(o *Object) bool { return o.header.Expiry != 0 && o.expiredBy(w.Now()) }

func (w *Writer) keyOf(key []byte) *stagedKey {
	if w.index != nil {
		if i, ok := w.index[string(key)]; ok {
			return &w.staged[i]
		}
		return nil
	}
	for i := range w.staged {
		w.steps++
		if w.staged[i].key == string(key) {
			return &w.staged[i]
		}
	}
	return nil
}

// setKey notes what this writer puts under a key it has looked at, nil for nothing.
func (w *Writer) setKey(key []byte, o *Object) {
	v := w.keyOf(key)
	w.logKey(v)
	v.object, v.changed = o, true
	const perKey = 300
	w.grow(perKey + 2*len(key))
	if o != nil {
		w.grow(len(o.header.Params))
	}
}

// Object returns the live object under a key, as this writer has left it; nil, nil if there is none.
func (w *Writer) Object(key []byte) (*Object, error) {
	v, err := w.look(key)
	if err != nil {
		return nil, err
	}
	return v.object, nil
}

// Committed reports whether an object that the writer returned is also what other readers find under its key: the writer has
// not changed the key.
func (w *Writer) Committed(o *Object) bool {
	v := w.keyOf([]byte(o.key))
	return v != nil && v.stored == o && !v.changed
}

// look returns the view of a key, valid until the next one is added.
func (w *Writer) look(key []byte) (*stagedKey, error) { return w.lookFor(key, nil) }

// lookFor is look for one who may not need a large string; see access.
func (w *Writer) lookFor(key []byte, large func(value []byte) error) (*stagedKey, error) {
	v, err := w.lookAt(key, large)
	if err == nil && v.damage != nil && !v.changed {
		return nil, v.damage
	}
	return v, err
}

// lookAt is lookFor for one who does not need what is there to be whole.
func (w *Writer) lookAt(key []byte, large func(value []byte) error) (*stagedKey, error) {
	if v := w.keyOf(key); v != nil {
		return v, w.renew(v)
	}
	if len(key) > MaxKeyLen {
		return nil, keyTooLong(key) // nothing is staged for a key that was not looked at
	}
	var o *Object
	var broken *damaged
	if !w.flush { // else there is nothing
		var err error
		if o, err = w.db.find(key, access{large: large}); errors.As(err, &broken) {
			return w.addKey(stagedKey{key: string(key), stored: broken.stand(w.db, key), damage: err}), nil
		} else if err != nil {
			return nil, err
		}
	}
	v := stagedKey{object: o, stored: o}
	if o == nil {
		v.key = string(key)
	} else {
		v.key = o.key // saves a copy
		if w.expired(o) {
			v.object = nil
		}
	}
	return w.addKey(v), nil
}

// renew has a view of a key that is not changed be of the object that is open now. The one
// before may have been closed, which in a transaction happens at any time: see evictObject.
func (w *Writer) renew(v *stagedKey) error {
	if v.changed || v.object == nil || !v.object.ended() {
		return nil
	}
	o, err := w.db.find([]byte(v.key), access{})
	if err == nil {
		v.object, v.stored = o, o
	}
	return err
}

// forgetUnchanged forgets the keys from the n-th on of which nothing is staged.
func (w *Writer) forgetUnchanged(n int) {
	kept := min(n, len(w.staged)) // fewer are left after the removal of every key
	for i := kept; i < len(w.staged); i++ {
		v := &w.staged[i]
		if !v.changed && !w.hasStaged(v.object) {
			delete(w.index, v.key)
			continue
		}
		if i != kept {
			w.staged[kept] = *v
			if w.index != nil {
				w.index[v.key] = kept
			}
		}
		kept++
	}
	clear(w.staged[kept:])
	w.staged = w.staged[:kept]
}

// hasStaged reports whether something is staged of the layers of an object.
func (w *Writer) hasStaged(o *Object) bool {
	return o != nil && slices.ContainsFunc(o.layers, func(l *Layer) bool { return w.ordinal(l) >= 0 })
}

// addKey adds the view of a key that has none.
func (w *Writer) addKey(v stagedKey) *stagedKey {
	w.staged = append(w.staged, v)
	switch n := len(w.staged); {
	case w.index != nil:
		w.index[v.key] = n - 1
	case n > fewStaged:
		w.index = make(map[string]int)
		for i := range w.staged {
			w.index[w.staged[i].key] = i
		}
	}
	return &w.staged[len(w.staged)-1]
}

// stageKeys stages the headers of the keys this writer has changed, once each, and
// what goes with them: the notes of keys that expire, and the numbers of keys.
func (w *Writer) stageKeys() {
	for i := range w.staged {
		v := &w.staged[i]
		if !v.changed || v.object == nil && v.stored == nil {
			continue
		}
		key := []byte(v.key)
		if v.stored != nil {
			w.sequence = w.sequence || !v.stored.inline()
		}
		if v.object != nil {
			w.sequence = w.sequence || !v.object.inline()
			w.set(w.db.headerKey(w.scratch[:0], key), format.AppendHeader(nil, v.object.header))
		} else {
			w.delete(w.db.headerKey(w.scratch[:0], key))
		}
		for _, note := range v.notes {
			w.delete(note)
		}
		w.stageExpiry(key, v.stored, v.object)
		switch {
		case v.stored == nil:
			w.count(key, 1)
		case v.object == nil:
			w.count(key, -1)
		}
	}
}

// stageExpiry stages the note of a key that expires, and takes away that of what was there.
func (w *Writer) stageExpiry(key []byte, old, now *Object) {
	var was, is int64
	if old != nil {
		was = old.header.Expiry
	}
	if now != nil {
		is = now.header.Expiry
	}
	if was == is && (is == 0 || old.inline() == now.inline()) {
		return
	}
	// One that stays but for its value goes and comes: each Set counts as one more.
	if was != 0 {
		w.delete(format.AppendExpiryKey(w.scratch[:0], was, key))
	}
	if is != 0 {
		w.set(format.AppendExpiryKey(w.scratch[:0], is, key), format.ExpiryNoteValue(now.header))
	}
}

// removals returns how many keys there are less after the commit.
func (w *Writer) removals() (n int) {
	for _, g := range w.groups {
		n -= g.delta
	}
	return max(0, n)
}

// count stages a change of the number of keys.
func (w *Writer) count(key []byte, delta int) {
	group := w.db.keyLockIndex(key)
	for i := range w.groups {
		if w.groups[i].group == group {
			w.groups[i].delta += delta
			return
		}
	}
	w.groups = append(w.groups, groupDelta{group, delta})
}

// stored returns what is under a key, also if it has expired, for one who will remove or
// replace it: of what is damaged a stand-in.
func (w *Writer) stored(key []byte) (*Object, error) {
	v, err := w.lookAt(key, withoutValue)
	switch {
	case err != nil:
		return nil, err
	case v.changed:
		return v.object, nil
	}
	if v.damage != nil && v.stored.header.ID == 0 {
		if v.notes, err = w.db.notesOf(key); err != nil {
			return nil, err
		}
	}
	return v.stored, nil
}
