package kv

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// Watch tells whether one of its keys was changed since the key was added, as WATCH of Redis does. Commits mark it.
type Watch struct {
	db    *DB
	keys  map[string]bool // whether each key existed when it was added
	bytes int             // of the keys
	dirty atomic.Bool
}

// watches are the watches of the store, by key. They are in shards with a lock each: every commit looks for watches
// of the keys that it has changed, and must not wait for clients that watch many keys.
type watches struct {
	n      atomic.Int64
	shards [watchShards]watchShard
}

const watchShards = 256

var watchSeed = maphash.MakeSeed()

type watchShard struct {
	mu    sync.Mutex
	byKey map[string]map[*Watch]struct{} // guarded by mu
}

func (ws *watches) of(key string) *watchShard {
	return &ws.shards[maphash.String(watchSeed, key)%watchShards]
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
	x.db.watches.n.Add(1)
	shard := x.db.watches.of(string(key))
	shard.mu.Lock()
	if shard.byKey == nil {
		shard.byKey = make(map[string]map[*Watch]struct{})
	}
	if shard.byKey[string(key)] == nil {
		shard.byKey[string(key)] = make(map[*Watch]struct{})
	}
	shard.byKey[string(key)][x] = struct{}{}
	shard.mu.Unlock()
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
	ws := &x.db.watches
	for key := range x.keys {
		shard := ws.of(key)
		shard.mu.Lock()
		delete(shard.byKey[key], x)
		if len(shard.byKey[key]) == 0 {
			delete(shard.byKey, key)
		}
		shard.mu.Unlock()
		ws.n.Add(-1)
	}
	clear(x.keys)
	x.bytes = 0
}

// WatchedKeys returns how many keys have a watch.
func (db *DB) WatchedKeys() (n int) {
	for i := range db.watches.shards {
		shard := &db.watches.shards[i]
		shard.mu.Lock()
		n += len(shard.byKey)
		shard.mu.Unlock()
	}
	return n
}

// tellWatches marks the watches of the keys that a commit has changed. A commit that removes every key need not:
// Changed finds that the keys are missing, and a commit that makes one again marks its watches.
func (w *Writer) tellWatches() {
	ws := &w.db.watches
	if ws.n.Load() == 0 || w.unseen {
		return
	}
	changed := w.changedObjects()
	for i := range w.staged {
		v := &w.staged[i]
		// For lookups, an expired key was missing before.
		there := v.object != nil || v.stored != nil && !w.expired(v.stored)
		if !(v.changed && there) && !(v.object != nil && changed[v.object.header.ID]) {
			continue
		}
		shard := ws.of(v.key)
		shard.mu.Lock()
		for x := range shard.byKey[v.key] {
			x.dirty.Store(true)
		}
		shard.mu.Unlock()
	}
}
