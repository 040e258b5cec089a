package kv

import (
	"sync"
	"sync/atomic"
)

// Watch tells whether any of some keys was changed, from when it was made: the WATCH
// of Redis. It is told by the commits.
type Watch struct {
	db    *DB
	keys  map[string]bool // whether each was there
	dirty atomic.Bool
}

// watches are those there are, by key.
type watches struct {
	n     atomic.Int64
	mu    sync.Mutex
	byKey map[string]map[*Watch]struct{} // guarded by mu
}

// NewWatch returns a watch of no keys. Stop ends it.
func (db *DB) NewWatch() *Watch { return &Watch{db: db, keys: make(map[string]bool)} }

// Add adds a key.
func (x *Watch) Add(key []byte) error {
	if _, known := x.keys[string(key)]; known {
		return nil
	}
	ws := &x.db.watches
	ws.mu.Lock()
	if ws.byKey == nil {
		ws.byKey = make(map[string]map[*Watch]struct{})
	}
	if ws.byKey[string(key)] == nil {
		ws.byKey[string(key)] = make(map[*Watch]struct{})
	}
	ws.byKey[string(key)][x] = struct{}{}
	x.keys[string(key)] = false
	ws.n.Add(1)
	ws.mu.Unlock()
	// Looked at after it is watched: whatever changes it from here on tells.
	n, err := x.db.Exists(key)
	if err != nil {
		return err
	}
	ws.mu.Lock()
	x.keys[string(key)] = n > 0
	ws.mu.Unlock()
	return nil
}

// Changed reports whether a key was changed, or has expired. The caller holds all
// writers off if it is to stay true.
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

// Stop ends the watch.
func (x *Watch) Stop() {
	ws := &x.db.watches
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for key := range x.keys {
		delete(ws.byKey[key], x)
		if len(ws.byKey[key]) == 0 {
			delete(ws.byKey, key)
		}
		ws.n.Add(-1)
	}
	clear(x.keys)
}

// WatchedKeys returns how many keys somebody watches.
func (db *DB) WatchedKeys() int {
	ws := &db.watches
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.byKey)
}

// tellWatches marks the watches of the keys that a commit has changed. One that removes
// every key needs not: Changed finds that a key has gone, and who makes it again tells.
func (w *Writer) tellWatches() {
	ws := &w.db.watches
	if ws.n.Load() == 0 || w.unseen {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	changed := w.changedObjects()
	for i := range w.views {
		v := &w.views[i]
		// What had expired was missing already for whoever looked.
		there := v.object != nil || v.stored != nil && !w.expired(v.stored)
		if !(v.changed && there) && !(v.object != nil && changed[v.object.header.id]) {
			continue
		}
		for x := range ws.byKey[v.key] {
			x.dirty.Store(true)
		}
	}
}
