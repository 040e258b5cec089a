// Package crash checks what a store leaves when it crashes. Workers make random commits to keys of their own and to
// one they share, of every type and in every way there is; what they did is kept as histories. The store is opened on
// what a crash left of its disk, and must hold every commit that was acknowledged, and of the others a prefix, each
// whole.
//
// Crashes are clones of a disk in memory, which lose any share of what was not synced
// (see Clones), and kill -9 of a process that tells of its commits over a pipe (Kills).
package crash

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// data is what a key holds.
type data struct {
	Type     string // one of types, or "string"
	Expiry   int64  // when the key ceases to exist, in Unix milliseconds, 0 for never
	Value    string // of a string; of a Bloom filter its attribute "position"
	Capacity int    // of a filter

	// Items of a filter, all different and used nowhere else. The slice is never changed, only replaced by another.
	Items [][]byte

	// Deleted are items that were deleted, the last of them.
	Deleted [][]byte
}

// with returns d with more items.
func (d data) with(items [][]byte) *data {
	d.Items = slices.Concat(d.Items, items)
	return &d
}

const mostDeleted = 100 // remembered of a filter

// without returns d without its i-th item.
func (d data) without(i int) *data {
	last := d.Deleted[max(0, len(d.Deleted)-mostDeleted+1):]
	d.Deleted = slices.Concat(last, [][]byte{d.Items[i]})
	d.Items = slices.Concat(d.Items[:i], d.Items[i+1:])
	return &d
}

// contents is what a set of keys holds; a missing key holds nothing.
type contents map[string]data

// at returns c without what has expired.
func (c contents) at(now int64) contents {
	left := maps.Clone(c)
	maps.DeleteFunc(left, func(_ string, d data) bool { return d.Expiry != 0 && d.Expiry <= now })
	return left
}

// commit is one that was asked for. Its times are ticks of the workload's clock.
type commit struct {
	id    uint64 // and when it began
	ended atomic.Uint64
}

// step is what a commit does to the keys of one history.
type step struct {
	*commit
	what  string
	added [][]byte // items that no earlier step added
	after contents // what the keys hold from then on
}

// history is the sequence of the commits to a set of keys, and what they leave. One goroutine at a time goes on with
// it: the keys are a worker's own, or there is a lock.
type history struct {
	keys  []string
	start contents // before the first step

	mu      sync.Mutex
	steps   []step         // guarded by mu
	touched map[string]int // by key, the number of steps when it was last changed; guarded by mu

	// acked is how many of the first steps a crash must leave.
	acked atomic.Int64
}

func newHistory(start contents, keys ...string) *history {
	if start == nil {
		start = contents{}
	}
	return &history{keys: keys, start: start, touched: make(map[string]int)}
}

// state returns what the keys hold after n steps, as if nothing expired.
func (h *history) state(n int) contents {
	if n == 0 {
		return h.start
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.steps[n-1].after
}

func (h *history) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.steps)
}

// forget takes the last step back: nothing of it was done.
func (h *history) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steps = h.steps[:len(h.steps)-1]
	for key, n := range h.touched {
		h.touched[key] = min(n, len(h.steps))
	}
}

func (h *history) add(s step, keys []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steps = append(h.steps, s)
	for _, key := range keys {
		h.touched[key] = len(h.steps)
	}
}

// acknowledge notes that the first n steps were acknowledged.
func (h *history) acknowledge(n int) {
	for {
		old := h.acked.Load()
		if old >= int64(n) || h.acked.CompareAndSwap(old, int64(n)) {
			return
		}
	}
}

// lastTouch returns how many steps there were when a key was last changed.
func (h *history) lastTouch(key string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.touched[key]
}

// change is what a commit is to do to a history: keys that hold something else, or nothing, afterwards.
type change struct {
	history *history
	to      map[string]*data
	added   [][]byte
}

func (c change) step(what string, by *commit, now int64) (s step, keys []string) {
	after := c.history.state(c.history.len()).at(now)
	for key, to := range c.to {
		keys = append(keys, key)
		if to == nil {
			delete(after, key)
		} else {
			after[key] = *to
		}
	}
	return step{commit: by, what: what, added: c.added, after: after}, keys
}

func expect(ok bool, otherwise string) error {
	if ok {
		return nil
	}
	return errors.New(otherwise)
}
