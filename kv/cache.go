package kv

import (
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/ristretto/v2"
)

// residency decides which blocks, chunks and open objects stay in memory within a budget of bytes. The deciding is
// ristretto's; nothing is ever read from it: its Set is asynchronous, can be dropped and can lose to an older Set, so
// that a block read from it may be a stale one, a false negative. It only tells what has to go, and what goes is
// taken out of the block table if it is still there.
type residency struct {
	cache *ristretto.Cache[uint64, resident]

	// sample is compared with the low bits of item hashes to pick one lookup in sampleRate to count as a touch; a
	// ticker changes it, so that no item is always or never the one.
	sample atomic.Uint64

	// loads bounds the loads in flight: each holds a block ristretto does not know of yet.
	loads chan struct{}

	// Sets wait in a channel of 32 Ki entries before ristretto counts them:
	// 256 MiB of blocks. Every drainEvery-th one waits until they are counted.
	sets atomic.Uint64

	mu    sync.Mutex
	ended []*Object // objects to close later; guarded by mu

	evicted atomic.Uint64
}

const (
	sampleRate    = 1024
	maxLoads      = 32
	drainEvery    = 32
	entryOverhead = 200 // bytes a ristretto entry itself takes, measured
)

// resident is one thing ristretto governs, comparable by ==. drop takes it out of
// memory; it may be called at any time from any goroutine, more than once.
type resident interface{ drop() }

type residentBlock struct {
	slot  *slot
	first *Line
}

func (b residentBlock) drop() { b.slot.CompareAndSwap(b.first, nil) }

// residentChunk is a chunk of a block table. Blocks under a dropped chunk can
// no longer be found, and a chunk dropped is never put back.
type residentChunk struct {
	dir *atomic.Pointer[chunk]
	c   *chunk
}

func (c residentChunk) drop() { c.dir.CompareAndSwap(c.c, nil) }

type residentObject struct{ o *Object }

func (r residentObject) drop() { r.o.db.evictObject(r.o) }

// touchCounters returns how many counters of touches a budget gets: ten for each block that fits, as ristretto
// advises, but no more than take about half a GiB. Beyond 100 GiB there are fewer for a block.
func touchCounters(budget int64) int64 {
	const most = 1 << 27
	return min(most, max(1024, 10*(budget/(8<<10))))
}

func newResidency(budget int64) (*residency, error) {
	r := &residency{loads: make(chan struct{}, maxLoads)}
	cache, err := ristretto.NewCache(&ristretto.Config[uint64, resident]{
		NumCounters:        touchCounters(budget),
		MaxCost:            budget,
		BufferItems:        64,
		IgnoreInternalCost: true,
		OnEvict:            func(*ristretto.Item[resident]) { r.evicted.Add(1) },
		// OnExit is called for evictions, rejections, replacements and deletions.
		OnExit: func(v resident) {
			if v != nil {
				v.drop()
			}
		},
	})
	r.cache = cache
	return r, err
}

func mix64(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// Residency keys. Two that collide cost a block its place in memory, no more.
func blockKey(l *Layer, blk uint64) uint64 {
	return mix64(l.object ^ mix64(l.spec.Number<<48^blk))
}
func chunkKey(l *Layer, blk uint64) uint64 {
	return mix64(^l.object ^ mix64(l.spec.Number<<48^blk>>chunkBits))
}
func objectCacheKey(id uint64) uint64 { return mix64(id ^ 0x9e3779b97f4a7c15) }

// put hands something that is in memory to ristretto. If ristretto does not take
// it there is no callback, so it is dropped here.
func (r *residency) put(key uint64, v resident, cost int64) {
	if !r.cache.Set(key, v, cost+entryOverhead) {
		v.drop()
	}
}

// remove takes something out of memory and of ristretto's books, unless these have something else under the key by
// now: an object that was closed and opened again uses the same keys.
func (r *residency) remove(key uint64, v resident) {
	if now, ok := r.cache.Get(key); ok && now == v {
		r.cache.Del(key)
		return
	}
	v.drop()
}

// drain waits, every drainEvery-th call, until ristretto has counted what it was
// given. The caller holds no lock that drop takes.
func (r *residency) drain() {
	if r.sets.Add(1)%drainEvery == 0 {
		r.cache.Wait()
	}
}

// Sampled reports whether a lookup of an item with hash h is one to be counted as a touch of its block: one in
// sampleRate. A touch takes half a microsecond, which at this rate adds little to a lookup of 15 ns.
func (db *DB) Sampled(h uint64) bool {
	return (h^db.residency.sample.Load())&(sampleRate-1) == 0
}

// Touch counts a lookup of a resident block, so that the block stays in memory.
func (db *DB) Touch(o *Object, l *Layer, blk uint64) {
	if db.enter() != nil {
		return
	}
	defer db.exit()
	db.pauseAt("touch: begun")
	r := db.residency.cache
	r.Get(objectCacheKey(o.header.ID))
	if l.dir != nil {
		r.Get(blockKey(l, blk))
		r.Get(chunkKey(l, blk))
	}
}
