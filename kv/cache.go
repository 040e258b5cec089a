package kv

import (
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/ristretto/v2"
)

// residency decides which blocks, chunks and open objects stay in memory within a budget of bytes. Ristretto decides
// what has to go. Nothing is ever read from ristretto: its Set is asynchronous, can be dropped and can lose to an
// older Set, so a block read from it might be stale, which is a false negative. What ristretto evicts is taken out of
// the block table, if it is still there.
type residency struct {
	cache *ristretto.Cache[uint64, resident]

	// sample is compared with the low bits of item hashes: one lookup in sampleRate counts as a touch. A ticker
	// changes sample, so that no item is always chosen and none never.
	sample atomic.Uint64

	// loads bounds the loads in flight: each of them holds a block that ristretto has not counted yet.
	loads chan struct{}

	// Sets wait in a channel of 32 Ki entries, up to 256 MiB of blocks, before ristretto counts them. Every
	// awaitEvery-th put waits until they are counted.
	sets atomic.Uint64

	mu    sync.Mutex
	ended []*Object // objects to close later; guarded by mu

	evicted atomic.Uint64
}

const (
	sampleRate    = 1024
	maxLoads      = 32
	awaitEvery    = 32
	entryOverhead = 200 // bytes that a ristretto entry itself takes, measured
)

// resident is something that ristretto governs, comparable by ==. drop takes it out of memory; any goroutine may call
// drop at any time, more than once.
type resident interface{ drop() }

type residentBlock struct {
	slot  *slot
	first *Line
}

func (b residentBlock) drop() { b.slot.CompareAndSwap(b.first, nil) }

// residentChunk is a chunk of a block table. The blocks of a dropped chunk cannot be found any more. A dropped chunk
// is never put back.
type residentChunk struct {
	dir *atomic.Pointer[chunk]
	c   *chunk
}

func (c residentChunk) drop() { c.dir.CompareAndSwap(c.c, nil) }

type residentObject struct{ o *Object }

func (r residentObject) drop() { r.o.db.evictObject(r.o) }

// touchCounters returns how many touch counters a budget gets: ten for each block that fits, as ristretto advises, up
// to half a GiB of them. Above a budget of 100 GiB there are fewer for each block.
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
		// OnExit is called after evictions, rejections, replacements and deletions.
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

// The keys of ristretto's entries. If two collide, one block leaves memory; nothing else happens.
func blockKey(l *Layer, blk uint64) uint64 {
	return mix64(l.object ^ mix64(l.spec.Number<<48^blk))
}
func chunkKey(l *Layer, blk uint64) uint64 {
	return mix64(^l.object ^ mix64(l.spec.Number<<48^blk>>chunkBits))
}
func objectCacheKey(id uint64) uint64 { return mix64(id ^ 0x9e3779b97f4a7c15) }

// put gives ristretto something that is in memory. If ristretto refuses it, OnExit is not called, so put drops it.
func (r *residency) put(key uint64, v resident, cost int64) {
	if !r.cache.Set(key, v, cost+entryOverhead) {
		v.drop()
	}
}

// remove takes something out of memory, and out of ristretto unless another thing has the key by now: an object that
// was closed and opened again uses the same keys.
func (r *residency) remove(key uint64, v resident) {
	if now, ok := r.cache.Get(key); ok && now == v {
		r.cache.Del(key)
		return
	}
	v.drop()
}

// await waits, every awaitEvery-th call, until ristretto has counted what it was given. The caller holds no lock that
// drop takes.
func (r *residency) await() {
	if r.sets.Add(1)%awaitEvery == 0 {
		r.cache.Wait()
	}
}

// Sampled reports whether a lookup of an item with hash h is to be counted as a touch of its block: one in 1024
// is. A touch takes half a microsecond, which at this rate adds little to a lookup of 15 ns.
func (db *DB) Sampled(h uint64) bool {
	return (h^db.residency.sample.Load())&(sampleRate-1) == 0
}

// Touch counts a lookup of a resident block. Blocks with many touches stay in memory.
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
