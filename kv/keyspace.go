package kv

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/hot"
	"github.com/sievekv/sievekv/internal/memory"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/internal/storage"
)

// The open objects, by key. An object enters the map in two ways: a commit that changes it while it is open puts the
// new incarnation there, or a lookup that does not find it reads its header from Pebble. It leaves the map by a commit
// that drops, renames or replaces it, or by eviction. At most one live incarnation of an object exists, so a commit
// changes the same blocks that every lookup reads.
//
// Strings in headers never enter the map: their Object is a copy of what was stored at the time of the read, and every
// lookup reads it again, from Pebble or from db.strings (package hot). So a commit of such strings alone changes
// nothing in the map, and need not hold off lookups.
//
// A lookup may put the header that it read into the map for two reasons. Commits that change headers hold apply
// exclusively, and the lookup holds it shared until the object is in the map. And if the object was opened, written
// and evicted meanwhile, the shard's count of evictions has changed, and the lookup starts again.

// MaxKeyLen is the length of the longest key: 64 KiB.
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

// hash decides which lock and which shard a key has, and where its header is stored.
func (db *DB) hash(key []byte) uint64 { return probe.Sum64Seed(key, db.meta.KeySeed()) }

func (db *DB) shardOf(key string) *shard {
	return &db.shards[probe.Sum64SeedString(key, db.meta.KeySeed())>>(64-shardBits)]
}

// headerKey appends the key that a user key's header is under.
func (db *DB) headerKey(dst, key []byte) []byte {
	return format.AppendHeaderKey(dst, db.hash(key), key)
}

// keyLock is the write lock of a key. A writer holds it from before it reads until its commit is applied to Pebble
// and the cache, and never while it waits for a sync.
func (db *DB) keyLock(key []byte) *sync.Mutex { return &db.keyLocks[db.keyLockIndex(key)].Mutex }

// isKeyFree reports whether no writer holds the lock of a key at the moment.
func (db *DB) isKeyFree(key []byte) bool {
	lock := db.keyLock(key)
	if !lock.TryLock() {
		return false
	}
	lock.Unlock()
	return true
}

// keyLockIndex is also the number of the group that the key is counted in: only the holder of the lock writes the
// group's count.
func (db *DB) keyLockIndex(key []byte) uint8 { return uint8(db.hash(key) >> (64 - keyLockBits)) }

const (
	keyLockBits = 8
	numKeyLocks = 1 << keyLockBits
)

type paddedMutex struct {
	sync.Mutex
	_ [56]byte
}

// Lookup returns the live object under a key; nil, nil if the key is missing or has expired. The value of a string is
// not read.
func (db *DB) Lookup(key []byte) (*Object, error) {
	if err := db.awaitSequence(); err != nil {
		return nil, err
	}
	return db.lookup(key, withoutValue, db.Now())
}

// LargeValue is the number of stored bytes above which a string is large; see ReadOptions.Large.
const LargeValue = 32 << 10

// errNoValue, returned by large, makes the lookup return a large string with an empty value.
var errNoValue = errors.New("kv: not copied")

func withoutValue([]byte) error { return errNoValue }

// lookup is Lookup without a look at the sequence lock, and with the value of a string, see find.
func (db *DB) lookup(key []byte, large func(value []byte) error, now int64) (*Object, error) {
	o, err := db.find(key, large)
	if err != nil || o == nil || o.expiredBy(now) {
		return nil, err
	}
	return o, nil
}

// find returns the object under a key, also if it has expired; nil, nil if there is none. It calls large, unless nil,
// with a large string in its stored form, before it copies the string. large must not keep the string. If it returns an
// error, find copies nothing and returns the error.
func (db *DB) find(key []byte, large func(value []byte) error) (*Object, error) {
	if len(key) > MaxKeyLen {
		return nil, keyTooLong(key)
	}
	hash := db.hash(key)
	sh := &db.shards[hash>>(64-shardBits)]
	sh.mu.RLock()
	o := sh.objects[string(key)]
	sh.mu.RUnlock()
	if o != nil {
		return o, nil
	}
	found, params, expiry, token := db.strings.Get(hash, key, nil)
	switch found {
	case hot.String:
		return newObject(db, string(key), format.StringHeader(params, expiry), nil)
	case hot.Nothing:
		return nil, nil
	}
	if err := db.enter(); err != nil {
		return nil, err
	}
	defer db.exit()
	h, err := db.readHeader(db.store, key, large)
	db.pauseAt("find: read")
	if h == nil || err != nil {
		return nil, err
	}
	db.strings.Fill(token, hash, key, h.Params, h.Expiry, format.KeepsString(h))
	if h.ID == 0 {
		// No object in memory has the string. So a caller that reads a long string holds up no commit.
		return newObject(db, string(key), h, nil)
	}
	o, opened, err := db.open(sh, key) // it reads the header again, under apply
	if opened {
		db.residency.Put(objectCacheKey(o.header.ID), residentObject{o}, o.bytes())
		db.residency.Await()
	}
	return o, err
}

// Opened returns the object that is open under a key, nil if none is: the key may still hold an object that no lookup
// has opened yet. A caller answers from the object in a Section, as with any object found earlier.
func (db *DB) Opened(key []byte) *Object {
	sh := &db.shards[db.hash(key)>>(64-shardBits)]
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	return sh.objects[string(key)]
}

// open reads the header of a key and puts the object into the map.
func (db *DB) open(sh *shard, key []byte) (o *Object, opened bool, err error) {
	db.apply.RLock()
	defer db.apply.RUnlock()
	for {
		sh.mu.RLock()
		o, evictions := sh.objects[string(key)], sh.evictions
		sh.mu.RUnlock()
		if o != nil {
			return o, false, nil
		}
		if o, err = db.readObject(db.store, key, nil); o == nil || o.inline() {
			return o, false, err
		}
		db.pauseAt("open: read")
		sh.mu.Lock()
		if now := sh.objects[string(key)]; now != nil {
			sh.mu.Unlock()
			return now, false, nil
		}
		if sh.evictions == evictions {
			db.put(sh, o)
			db.uses.Keep(o.header.ID, o.uses)
			last, _ := db.store.Numbers()
			o.changed.Store(last)
			o.memory.Changes().ChangedAll(last)
			sh.mu.Unlock()
			db.shutIfOver(o)
			return o, true, nil
		}
		sh.mu.Unlock()
	}
}

// readObject makes an object from a key's stored header; nil, nil if there is none.
func (db *DB) readObject(from storage.Reader, key []byte, large func(value []byte) error) (*Object, error) {
	h, err := db.readHeader(from, key, large)
	if h == nil || err != nil {
		return nil, err
	}
	layers := make([]*Layer, len(h.Layers))
	for i, spec := range h.Layers {
		layers[i] = memory.NewLayer(h.ID, spec)
		if err := db.readCounters(from, layers[i]); err != nil {
			return nil, damagedBeside(h, err, true)
		}
	}
	o, err := newObject(db, string(key), h, layers)
	if err != nil {
		return nil, damagedBeside(h, err, false)
	}
	if err := o.CheckCounters((*Layer).Counter); err != nil {
		return nil, damagedBeside(h, fmt.Errorf("key %q: %w", key, err), true)
	}
	return o, nil
}

func (db *DB) readHeader(from storage.Reader, key []byte, large func(value []byte) error) (h *format.Header, err error) {
	value, closer, err := from.Get(db.headerKey(nil, key))
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, storage.ReadError(err, "key %q: header", key)
	}
	defer func() { // large is a caller's code, and may panic
		if cerr := closer.Close(); err == nil && cerr != nil {
			h, err = nil, fmt.Errorf("key %q: %w", key, cerr)
		}
	}()
	h, err = format.DecodeHeaderShared(value)
	err = damagedBy(err)
	if err == nil && h.ID == 0 && len(h.Params) > LargeValue && large != nil {
		if err = large(h.Params); errors.Is(err, errNoValue) {
			h.Params, err = h.Params[:1], nil // the byte left is the encoding
		}
	}
	if err != nil {
		return nil, fmt.Errorf("key %q: %w", key, err)
	}
	h.Params = bytes.Clone(h.Params)
	return h, nil
}

func (db *DB) readCounters(from storage.Reader, l *Layer) error {
	value, closer, err := from.Get(format.AppendCountersKey(nil, l.Object(), l.Number()))
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	if err != nil {
		return storage.ReadError(err, "counters of object %d, layer %d", l.Object(), l.Number())
	}
	c, err := format.DecodeCounters(value)
	if cerr := closer.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	l.SetCounters(c)
	return nil
}

// evictObject closes an object to save memory. Between the moment a writer finds an object and the moment its commit
// is applied to the cache, the object must not be closed and opened again: the commit would change an incarnation
// that no lookup reads, and lookups would miss its items.
//
// A writer of single keys holds its key locks from finding the object until its commit is applied to the cache, so
// the object is closed only if the lock of its key is free. A transaction holds no key lock, and may last: if it kept
// objects open, everything that is looked up during the transaction would stay in memory. So its objects may be
// closed. This is safe for three reasons. While a transaction lasts, nothing else is stored, so all incarnations of
// an object have the same blocks and counters, and what was staged with one is right for another. A commit that
// changes objects holds apply exclusively, so none is opened meanwhile, and it changes the objects that are open
// then: see applier. An object that is closed after that point was changed for nothing, or its layers go on in the
// incarnation that the commit puts under a key, and have the changes.
//
// While a transaction has the gate, a key lock is held only by a writer or a lookup that has found no object yet, or
// whose commit is in the cache. So the object may be closed; the gate is not given back until it is.
//
// If the lock is taken otherwise, the background loop closes the object later.
func (db *DB) evictObject(o *Object) {
	if o.memory.Ended() || db.tryEvict(o) {
		return
	}
	db.closeLater(o)
}

// closeLater has the background loop call releaseEnded for an object.
func (db *DB) closeLater(o *Object) {
	db.endedMu.Lock()
	defer db.endedMu.Unlock()
	db.ended = append(db.ended, o)
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
		return // its layers may live on in another incarnation
	}
	db.remove(sh, o)
	sh.evictions++
	o.memory.Close()
	big := false
	for _, l := range o.layers {
		big = l.Close() || big
	}
	if big {
		db.retire(o)
	}
}

// put puts an object into the maps of open objects, and remove takes it out. The caller holds the lock of the shard of its key.
func (db *DB) put(sh *shard, o *Object) {
	sh.objects[o.key] = o
	db.ids.put(o)
}

func (db *DB) remove(sh *shard, o *Object) {
	delete(sh.objects, o.key)
	db.ids.remove(o)
}

// retire ends an object that a commit dropped or replaced. The background loop takes its blocks out of memory, so
// dropping takes the same time for every size.
func (db *DB) retire(o *Object) {
	o.memory.End()
	db.closeLater(o)
}

// releaseEnded closes the objects that could not be closed when they were evicted, and takes the blocks of dropped
// objects out of memory.
func (db *DB) releaseEnded() {
	db.pauseAt("ended: released")
	db.endedMu.Lock()
	list := db.ended
	db.ended = nil
	db.endedMu.Unlock()
	for _, o := range list {
		if !o.memory.Ended() {
			db.evictObject(o)
			continue
		}
		if o.handedOver.Load() {
			continue // the blocks live on in another incarnation
		}
		for _, l := range o.layers {
			l.Release(db.residency)
		}
		db.residency.Remove(objectCacheKey(o.header.ID), residentObject{o})
	}
}

// shutAll lets no lookup begin any more, once the store has failed or is closed. An object that is opened later shuts
// itself once it can be found: see shutIfOver.
func (db *DB) shutAll() {
	db.eachOpen(func(o *Object) { o.memory.Shut() })
}

// eachOpen calls f with each open object.
func (db *DB) eachOpen(f func(o *Object)) {
	for i := range db.shards {
		sh := &db.shards[i]
		sh.mu.RLock()
		for _, o := range sh.objects {
			f(o)
		}
		sh.mu.RUnlock()
	}
}

// shutIfOver shuts an object that lookups can already find, if the store has failed or is closed.
func (db *DB) shutIfOver(o *Object) {
	if db.word.Load()&(isFailed|isClosed) != 0 {
		o.memory.Shut()
	}
}
