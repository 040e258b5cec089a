// Package residency decides which things stay in memory within a budget of bytes. The library ristretto decides what has
// to go: what was touched often stays.
//
// Nothing is ever read from ristretto. It counts entries late, may refuse them, and may prefer earlier ones, so an
// entry that is read from it might be stale. It only calls Drop of things that have to go, and the owner takes them out
// of its own tables, if they are still there.
package residency

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/ristretto/v2"
)

// Resident is something that a Residency governs, comparable by ==. Drop takes it out of memory. Any goroutine may call
// Drop at any time, more than once, also after the thing has left memory otherwise.
type Resident interface{ Drop() }

// Residency governs the things that share a budget. Any goroutine may call its methods; none may be called after Close
// began.
type Residency struct {
	budget int64

	// The cache is made when the first thing is put. Its counters take more time to make and to clear than all else that a
	// process does which opens a store for one string.
	make  func() *ristretto.Cache[uint64, Resident]
	cache atomic.Pointer[ristretto.Cache[uint64, Resident]] // nil until then

	// sample is compared with the low bits of hashes, see Sampled. Resample changes it, so that no hash is always chosen
	// and none never.
	sample atomic.Uint64

	loads chan struct{} // has an element for each load in flight

	puts    atomic.Uint64 // that were announced by Await
	evicted atomic.Uint64
}

const (
	sampleRate = 1024
	maxLoads   = 32

	// Entries wait in a channel of 32 Ki, up to 256 MiB of blocks, before ristretto counts them. So every awaitEvery-th
	// goroutine that has put one waits until they are counted.
	awaitEvery = 32

	entryOverhead = 200 // bytes that a ristretto entry itself takes, measured
)

// touchCounters returns how many touch counters a budget gets: ten for each block of 8 KiB that fits, as ristretto
// advises, up to half a GiB of them. Above a budget of 100 GiB there are fewer for each block.
func touchCounters(budget int64) int64 {
	const most = 1 << 27
	return min(most, max(1024, 10*(budget/(8<<10))))
}

// New returns a Residency that keeps at most budget bytes in memory.
func New(budget int64) (*Residency, error) {
	if budget <= 0 {
		return nil, fmt.Errorf("a budget of %d bytes, want more than 0", budget)
	}
	r := &Residency{budget: budget, loads: make(chan struct{}, maxLoads)}
	r.make = sync.OnceValue(r.newCache)
	return r, nil
}

func (r *Residency) newCache() *ristretto.Cache[uint64, Resident] {
	cache, err := ristretto.NewCache(&ristretto.Config[uint64, Resident]{
		NumCounters:        touchCounters(r.budget),
		MaxCost:            r.budget,
		BufferItems:        64,
		IgnoreInternalCost: true,
		OnEvict:            func(*ristretto.Item[Resident]) { r.evicted.Add(1) },
		// OnExit is called after evictions, rejections, replacements and deletions.
		OnExit: func(v Resident) {
			if v != nil {
				v.Drop()
			}
		},
	})
	if err != nil {
		panic(err) // it is about the numbers above, all of which are more than 0
	}
	r.cache.Store(cache)
	return cache
}

// Close ends the Residency. It may drop things or not.
func (r *Residency) Close() { r.cache.Load().Close() }

// Mix returns h with its bits mixed, for keys. If the keys of two things collide, one of them leaves memory; nothing else
// happens.
func Mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// Put announces a thing in memory that takes the given bytes. If another thing has the key, that one is dropped. If
// there is no room for the thing, it is dropped itself, perhaps before Put returns.
func (r *Residency) Put(key uint64, v Resident, bytes int64) {
	if !r.make().Set(key, v, bytes+entryOverhead) {
		v.Drop() // OnExit is not called for what Set refuses
	}
}

// Remove drops a thing, and forgets it unless another thing has the key by now: an object that was closed and opened again
// uses the same keys.
func (r *Residency) Remove(key uint64, v Resident) {
	cache := r.cache.Load()
	if now, ok := cache.Get(key); ok && now == v {
		cache.Del(key)
		return
	}
	v.Drop()
}

// Await is called after Put. Every 32nd call waits until all things put are counted, so that uncounted ones stay few.
// The caller holds no lock that Drop takes.
func (r *Residency) Await() {
	if r.puts.Add(1)%awaitEvery == 0 {
		r.Wait()
	}
}

// Wait waits until all that was put is counted. The caller holds no lock that Drop takes.
func (r *Residency) Wait() { r.cache.Load().Wait() }

// Sampled reports whether a lookup of an item with hash h counts as a touch: one in 1024 does. A touch takes half a
// microsecond, which at this rate adds little to a lookup of 15 ns.
func (r *Residency) Sampled(h uint64) bool {
	return (h^r.sample.Load())&(sampleRate-1) == 0
}

// CountRate is the number of lookups for which one counts, see Counted.
const CountRate = 64

// Counted reports whether a lookup of an item with hash h counts, as CountRate lookups: one in CountRate does, and
// every one that Sampled reports. Counting each lookup would take a third of its time.
func (r *Residency) Counted(h uint64) bool {
	return (h^r.sample.Load())&(CountRate-1) == 0
}

// Resample makes Sampled and Counted choose other hashes.
func (r *Residency) Resample() { r.sample.Store(Mix(uint64(time.Now().UnixNano()))) }

// Touch counts a use of what is under a key. What is used often stays.
func (r *Residency) Touch(key uint64) { r.cache.Load().Get(key) }

// BeginLoad waits while 32 loads are in flight. Each of them holds memory that is not counted yet.
func (r *Residency) BeginLoad() { r.loads <- struct{}{} }

// EndLoad ends what BeginLoad began.
func (r *Residency) EndLoad() { <-r.loads }

// Budget returns the most bytes that may be counted.
func (r *Residency) Budget() int64 { return r.budget }

// Used returns the bytes that are counted now, with 200 for each thing.
func (r *Residency) Used() int64 {
	if cache := r.cache.Load(); cache != nil {
		return r.budget - cache.RemainingCost()
	}
	return 0
}

// Evicted is how many things had to go since New or since it was set to 0.
func (r *Residency) Evicted() *atomic.Uint64 { return &r.evicted }
