package kv

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/sievekv/sievekv/kv/format"
	"github.com/sievekv/sievekv/kv/probe"
	"github.com/sievekv/sievekv/kv/storage"
)

// The open objects, by key. An object enters the map in two ways: a commit that creates or changes it puts the new
// incarnation there, and a lookup that finds it missing reads its header from Pebble. It leaves by a commit that
// drops, renames or replaces it, or by eviction. At most one live incarnation of an object exists, so that a commit
// changes the blocks that every lookup reads.
//
// Strings never enter: an Object of one is a copy of what was stored when it was read, and every lookup reads anew.
// So a commit that touches one string and no more changes nothing in the map, and needs not hold others off.
//
// A header read can go into the map because: commits that change headers hold apply exclusively and the reader holds
// it shared until the object is in the map; and an object that was opened, written and evicted meanwhile moves the
// shard's count of evictions, on which the reader starts again.

// MaxKeyLen is the longest key, in bytes.
const MaxKeyLen = format.MaxKeyLen

const (
	shardBits = 6
	numShards = 1 << shardBits
)

type shard struct {
	mu        sync.RWMutex
	objects   map[string]*Object // guarded by mu
	evictions uint64             // guarded by mu
	_         [64]byte
}

// hash is what gives a key its place: its lock, its shard, and where its header is.
func (db *DB) hash(key []byte) uint64 { return probe.Sum64Seed(key, db.meta.KeySeed()) }

func (db *DB) shardOf(key string) *shard {
	return &db.shards[probe.Sum64SeedString(key, db.meta.KeySeed())>>(64-shardBits)]
}

// headerKey appends the key that a user key's header is under.
func (db *DB) headerKey(dst, key []byte) []byte {
	return format.AppendHeaderKey(dst, db.hash(key), key)
}

// keyLock is the write lock of a key. It is held from before a writer reads
// until its commit is applied, also to the cache, and never while waiting for the disk.
func (db *DB) keyLock(key []byte) *sync.Mutex { return &db.keyLocks[db.keyLockIndex(key)].Mutex }

// keyLockIndex is also the group that the key is counted in: the count of a group is written by who holds its lock.
func (db *DB) keyLockIndex(key []byte) uint8 { return uint8(db.hash(key) >> (64 - keyLockBits)) }

const (
	keyLockBits = 8
	numKeyLocks = 1 << keyLockBits
)

type paddedMutex struct {
	sync.Mutex
	_ [56]byte
}

// Lookup returns the live object under a key. It returns nil, nil for a key that
// is missing or expired. Of a string it says no more than that it is one.
func (db *DB) Lookup(key []byte) (*Object, error) {
	if err := db.settle(); err != nil {
		return nil, err
	}
	return db.lookup(key, access{large: withoutValue}, db.Now())
}

// access is how something is looked up.
type access struct {
	steady bool // the caller holds apply, shared

	// large, if set, is shown a large string, in the form in which it is stored, before it is copied, and may not
	// keep it. With an error the string is not copied, and the error is that of the lookup.
	large func(value []byte) error
}

// LargeValue is from how many stored bytes on a string is large, see ReadOptions.Large.
const LargeValue = 32 << 10

// errNoValue has a large string looked up without its value, which then is empty.
var errNoValue = errors.New("kv: not copied")

func withoutValue([]byte) error { return errNoValue }

// lookup is Lookup at a moment for those who need not look at the sequence lock: writers, and
// readers that hold apply.
func (db *DB) lookup(key []byte, a access, now int64) (*Object, error) {
	o, err := db.find(key, a)
	if err != nil || o == nil || o.expiredBy(now) {
		return nil, err
	}
	return o, nil
}

// find is lookup with expired objects included.
func (db *DB) find(key []byte, a access) (*Object, error) {
	if len(key) > MaxKeyLen {
		return nil, keyTooLong(key)
	}
	sh := &db.shards[db.hash(key)>>(64-shardBits)]
	sh.mu.RLock()
	o := sh.objects[string(key)]
	sh.mu.RUnlock()
	if o != nil {
		return o, nil
	}
	if err := db.enter(); err != nil {
		return nil, err
	}
	defer db.exit()
	h, err := db.readHeader(db.store, key, a.large)
	if h == nil || err != nil {
		return nil, err
	}
	if h.ID == 0 {
		// A string is what is stored, at any moment, and nothing of it is in memory that a commit could
		// change: a caller that reads a long one holds up nobody.
		return newObject(db, string(key), h, nil)
	}
	o, opened, err := db.openSteady(sh, key, a.steady) // reads the header again, now that it cannot change
	if opened {
		db.residency.put(objectCacheKey(o.header.ID), residentObject{o}, o.bytes())
		db.residency.drain()
	}
	return o, err
}

// openSteady is open for who holds apply, shared, or, if steady is false, does not.
func (db *DB) openSteady(sh *shard, key []byte, steady bool) (o *Object, opened bool, err error) {
	if !steady {
		db.apply.RLock()
		defer db.apply.RUnlock()
	}
	return db.open(sh, key)
}

// Opened returns the object that is open under a key, nil if none is: there may be one that no
// lookup has opened yet. A caller that answers from it looks at DB.Ready and Object.Live first,
// as it does with an object that it has found before.
func (db *DB) Opened(key []byte) *Object {
	sh := &db.shards[db.hash(key)>>(64-shardBits)]
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	return sh.objects[string(key)]
}

// openObject returns the object that is open under a key, nil if none is.
func (db *DB) openObject(key string) *Object {
	sh := db.shardOf(key)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	return sh.objects[key]
}

// open reads the header of a key and puts the object into the map. The caller holds apply, shared.
func (db *DB) open(sh *shard, key []byte) (o *Object, opened bool, err error) {
	for {
		sh.mu.RLock()
		o, evictions := sh.objects[string(key)], sh.evictions
		sh.mu.RUnlock()
		if o != nil {
			return o, false, nil
		}
		if o, err = db.readObject(key); o == nil || o.inline() {
			return o, false, err
		}
		db.pauseAt("open: read")
		sh.mu.Lock()
		if now := sh.objects[string(key)]; now != nil {
			sh.mu.Unlock()
			return now, false, nil
		}
		if sh.evictions == evictions {
			sh.objects[o.key] = o
			last, _ := db.store.Numbers()
			o.changed.Store(last)
			sh.mu.Unlock()
			return o, true, nil
		}
		sh.mu.Unlock()
	}
}

// readObject makes an object of a key's stored header; nil, nil if there is none.
func (db *DB) readObject(key []byte) (*Object, error) { return db.readObjectFrom(db.store, key, nil) }

func (db *DB) readObjectFrom(from storage.Reader, key []byte, large func(value []byte) error) (*Object, error) {
	h, err := db.readHeader(from, key, large)
	if h == nil || err != nil {
		return nil, err
	}
	layers := make([]*Layer, len(h.Layers))
	for i, spec := range h.Layers {
		layers[i] = newLayer(h, spec)
		if err := db.readCounters(from, layers[i]); err != nil {
			return nil, damagedBeside(h, err, true)
		}
	}
	o, err := newObject(db, string(key), h, layers)
	return o, damagedBeside(h, err, false)
}

func (db *DB) readHeader(from storage.Reader, key []byte, large func(value []byte) error) (h *format.Header, err error) {
	value, closer, err := from.Get(db.headerKey(nil, key))
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, storage.ReadError(err, "key %q: header", key)
	}
	defer func() { // large is somebody else's code, and may panic
		if cerr := closer.Close(); err == nil && cerr != nil {
			h, err = nil, fmt.Errorf("key %q: %w", key, cerr)
		}
	}()
	h, err = format.DecodeHeaderShared(value)
	err = damagedBy(err)
	if err == nil && h.ID == 0 && len(h.Params) > LargeValue && large != nil {
		if err = large(h.Params); errors.Is(err, errNoValue) {
			h.Params, err = h.Params[:1], nil // what is left says how it is encoded
		}
	}
	if err != nil {
		return nil, fmt.Errorf("key %q: %w", key, err)
	}
	h.Params = bytes.Clone(h.Params)
	return h, nil
}

func (db *DB) readCounters(from storage.Reader, l *Layer) error {
	value, closer, err := from.Get(format.AppendCountersKey(nil, l.object, l.spec.Number))
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	if err != nil {
		return storage.ReadError(err, "counters of object %d, layer %d", l.object, l.spec.Number)
	}
	c, err := format.DecodeCounters(value)
	if cerr := closer.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	l.setCounters(c)
	return nil
}

// evictObject closes an object to save memory. What a writer has found must not be closed and
// opened again before the commit is applied to the cache: it would change an incarnation that no lookup
// reads, and its items would be missing.
//
// A writer of single keys holds the locks of its keys from finding the object until the cache has the commit, so the
// lock of the key has to be free. A transaction holds none, and may last: if it kept objects open, then all that
// anybody looks up meanwhile. It has them closed instead. While it lasts nothing else is stored, so all incarnations
// of an object have the same blocks and counters: what was staged with one is right for another. Its commit, if it
// changes objects, holds apply exclusively, which the opening of objects takes, and changes those that are open then:
// see addObjects. One that is closed after that was changed in vain, or its layers go on in the incarnation that the
// commit puts under a key; they were changed, so that is right too.
//
// A lock that is taken while a transaction has the gate is that of a writer, or a lookup, that
// waits for the gate and has found nothing yet. It waits until the object is closed.
//
// If another goroutine has the lock, the object is left to the background loop.
func (db *DB) evictObject(o *Object) {
	if o.ended() || db.tryEvict(o) {
		return
	}
	r := db.residency
	r.mu.Lock()
	r.ended = append(r.ended, o)
	r.mu.Unlock()
}

func (db *DB) tryEvict(o *Object) bool {
	if lock := db.keyLock([]byte(o.key)); lock.TryLock() {
		defer lock.Unlock()
		db.closeObject(o)
		return true
	}
	return db.gate.WhileAlone(func() {
		db.pauseAt("evict: alone")
		db.closeObject(o)
	})
}

// closeObject takes an object out of the map and ends it, unless a commit has done so.
func (db *DB) closeObject(o *Object) {
	sh := db.shardOf(o.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.objects[o.key] != o {
		return // its layers may live on in another
	}
	delete(sh.objects, o.key)
	sh.evictions++
	o.end()
	big := false
	for _, l := range o.layers {
		l.closed.Store(true)
		l.one.Store(nil)
		big = big || l.dir != nil
	}
	if big {
		db.retire(o)
	}
}

// retire ends an object that a commit dropped or replaced. Its blocks are left
// to the background loop, so that dropping costs the same for every size.
func (db *DB) retire(o *Object) {
	o.end()
	r := db.residency
	r.mu.Lock()
	r.ended = append(r.ended, o)
	r.mu.Unlock()
}

// releaseEnded closes the objects that could not be closed when they had to go, and
// takes the blocks of dropped ones out of memory.
func (db *DB) releaseEnded() {
	db.pauseAt("ended: released")
	r := db.residency
	r.mu.Lock()
	list := r.ended
	r.ended = nil
	r.mu.Unlock()
	for _, o := range list {
		if !o.ended() {
			db.evictObject(o)
			continue
		}
		if o.handedOver.Load() {
			continue // the blocks live on in another incarnation
		}
		for _, l := range o.layers {
			l.release(r)
		}
		r.remove(objectCacheKey(o.header.ID), residentObject{o})
	}
}
