package kv

import "sync/atomic"

// Watch tells whether one of its keys was changed since the key was added, as WATCH of Redis does. Commits mark it.
type Watch struct {
	db    *DB
	keys  map[string]bool // whether each key existed when it was added
	bytes int             // of the keys
	dirty atomic.Bool
}

// NewWatch returns a watch of no keys. Stop ends it.
func (db *DB) NewWatch() *Watch { return &Watch{db: db, keys: make(map[string]bool)} }

// Add adds a key. It returns ErrTooLarge for a key above MaxKeyLen, and the errors of reading the key.
func (x *Watch) Add(key []byte) error {
	if len(key) > MaxKeyLen {
		return keyTooLong(key)
	}
	if _, known := x.keys[string(key)]; known {
		return nil
	}
	x.keys[string(key)] = false
	x.bytes += len(key)
	x.db.watches.Add(string(key), &x.dirty)
	// The watch is in place before this lookup, so it is marked by every change after it.
	n, err := x.db.Exists(key)
	if err != nil {
		return err
	}
	x.keys[string(key)] = n > 0
	return nil
}

// Changed reports whether a key was changed or has expired. The answer stays true only while the caller holds off all
// writers.
func (x *Watch) Changed(r Reader) (bool, error) {
	if x.dirty.Load() {
		return true, nil
	}
	for key, there := range x.keys {
		if !there {
			continue
		}
		if o, err := r.Lookup([]byte(key)); err != nil || o == nil {
			return true, err
		}
	}
	return false, nil
}

// Size returns the number of keys and their bytes.
func (x *Watch) Size() (keys, bytes int) { return len(x.keys), x.bytes }

// Stop ends the watch.
func (x *Watch) Stop() {
	for key := range x.keys {
		x.db.watches.Remove(key, &x.dirty)
	}
	clear(x.keys)
	x.bytes = 0
}

// WatchedKeys returns how many keys have a watch.
func (db *DB) WatchedKeys() int { return db.watches.Len() }

// tellWatches marks the watches of the keys that a commit has changed. A commit that removes every key need not
// (see dropAll): Changed finds that the keys are missing, and a commit that makes one again marks its watches.
func (w *Writer) tellWatches() {
	if w.db.watches.Empty() {
		return
	}
	changed := w.changedObjects()
	for i := range w.staged {
		v := &w.staged[i]
		// For lookups, an expired key was missing before.
		there := v.object != nil || v.stored != nil && !w.expired(v.stored)
		switch {
		case !w.unseen && (v.changed && there || v.object != nil && changed[v.object.header.ID]):
			w.db.watches.Set(v.key)
		case v.changed && v.object == nil: // it had expired, and is removed
			w.db.watches.Expired(v.key)
		}
	}
}
