package kv

import (
	"errors"
	"slices"

	"github.com/sievekv/sievekv/internal/format"
)

// stagedKey is a key that a writer has looked at, with what the writer has put under it.
type stagedKey struct {
	key     string
	object  *Object // nil if there is no live object
	stored  *Object // in the store, also if it has expired
	changed bool    // object was made or moved here, or the key was removed, by this writer

	damage error    // stored stands in for an object that cannot be opened
	notes  [][]byte // keys of its expiry notes, which the damaged header does not tell
}

// groupDelta is the change of the numbers of keys of a group.
type groupDelta struct {
	group          uint8
	keys, expiring int
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

// setKey stages an object under a key that the writer has looked at, nil for none.
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

// Object returns the live object under a key, with this writer's changes; nil, nil if there is none.
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

// look returns the staged key, valid until the next one is added.
func (w *Writer) look(key []byte) (*stagedKey, error) { return w.lookFor(key, nil) }

// lookFor is look for a caller that may not need a large string; see access.
func (w *Writer) lookFor(key []byte, large func(value []byte) error) (*stagedKey, error) {
	v, err := w.lookAt(key, large)
	if err == nil && v.damage != nil && !v.changed {
		return nil, v.damage
	}
	return v, err
}

// lookAt is lookFor for a caller that can do with a damaged object.
func (w *Writer) lookAt(key []byte, large func(value []byte) error) (*stagedKey, error) {
	if v := w.keyOf(key); v != nil {
		return v, w.renew(v)
	}
	if len(key) > MaxKeyLen {
		return nil, keyTooLong(key) // a key that was not looked at is never staged
	}
	var o *Object
	var broken *damaged
	if !w.flush { // otherwise there is nothing stored
		var err error
		if o, err = w.db.find(key, large); errors.As(err, &broken) {
			return w.addKey(stagedKey{key: string(key), stored: broken.stand(w.db, key), damage: err}), nil
		} else if err != nil {
			return nil, err
		}
	}
	v := stagedKey{object: o, stored: o}
	if o == nil {
		v.key = string(key)
	} else {
		v.key = o.key // saves a copy of the key
		if w.expired(o) {
			v.object = nil
		}
	}
	return w.addKey(v), nil
}

// renew looks up an unchanged key again if its object has ended: in a transaction objects can be closed at any time,
// see evictObject.
func (w *Writer) renew(v *stagedKey) error {
	if v.changed || v.object == nil || !v.object.memory.Ended() {
		return nil
	}
	o, err := w.db.find([]byte(v.key), nil)
	if err == nil {
		v.object, v.stored = o, o
	}
	return err
}

// forgetUnchanged forgets the keys from the n-th on that have no staged changes.
func (w *Writer) forgetUnchanged(n int) {
	kept := min(n, len(w.staged)) // there are fewer after the removal of every key
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

// hasStaged reports whether a layer of the object has staged changes.
func (w *Writer) hasStaged(o *Object) bool {
	return o != nil && slices.ContainsFunc(o.layers, func(l *Layer) bool { return w.ordinal(l) >= 0 })
}

// addKey adds a key that the writer has not looked at before.
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

// stageKeys stages the headers of the changed keys, their expiry notes, and the numbers of keys.
func (w *Writer) stageKeys() {
	for i := range w.staged {
		v := &w.staged[i]
		if !v.changed || v.object == nil && v.stored == nil {
			continue
		}
		key := []byte(v.key)
		w.sequence = w.sequence || v.stored != nil && !v.stored.inline() || v.object != nil && !v.object.inline()
		if v.object != nil {
			at := w.db.headerKey(w.scratch[:0], key)
			w.scratch = format.AppendHeader(at, v.object.header)
			w.batch.Set(w.scratch[:len(at)], w.scratch[len(at):])
		} else {
			w.delete(w.db.headerKey(w.scratch[:0], key))
		}
		for _, note := range v.notes {
			w.delete(note)
		}
		w.stageExpiry(key, v.stored, v.object)
		w.stageWake(key, v.stored, v.object)
		keys, expiring := countOf(v.object)
		had, expired := countOf(v.stored)
		w.count(key, keys-had, expiring-expired-len(v.notes))
	}
}

// countOf returns what an object counts in the numbers of keys.
func countOf(o *Object) (keys, expiring int) {
	switch {
	case o == nil:
		return 0, 0
	case o.header.Expiry == 0:
		return 1, 0
	}
	return 1, 1
}

// stageExpiry stages the note of a key that expires, and removes the note of the object that was there.
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
	if was != 0 && was != is {
		w.delete(format.AppendExpiryKey(w.scratch[:0], was, key))
	}
	if is != 0 {
		w.set(format.AppendExpiryKey(w.scratch[:0], is, key), format.ExpiryNoteValue(now.header))
	}
}

// removals returns by how many keys the commit makes the store smaller.
func (w *Writer) removals() (n int) {
	for _, g := range w.groups {
		n -= g.keys
	}
	return max(0, n)
}

// count stages a change of the numbers of keys of a key's group.
func (w *Writer) count(key []byte, keys, expiring int) {
	if keys == 0 && expiring == 0 {
		return
	}
	group := w.db.keyLockIndex(key)
	i := slices.IndexFunc(w.groups, func(g groupDelta) bool { return g.group == group })
	if i < 0 {
		i = len(w.groups)
		w.groups = append(w.groups, groupDelta{group: group})
	}
	w.groups[i].keys += keys
	w.groups[i].expiring += expiring
}

// Hidden returns the hidden object under a key, nil if there is none or it has expired. Every lookup finds its key missing,
// and a command that makes or deletes the key removes it. A transaction must not make one or change it, as it would find
// its own.
func (w *Writer) Hidden(key []byte) (*Object, error) {
	o, err := w.stored(key)
	if err != nil || o == nil || !o.header.Hidden || o.header.Expiry <= w.Now() {
		return nil, err
	}
	return o, nil
}

// stored returns the object under a key, even if it has expired, for a caller that will remove or replace it. For a
// damaged object it returns a stand-in.
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
