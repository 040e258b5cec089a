package server

import (
	"sync"
	"sync/atomic"
	"time"
)

// rate tells how many commands ran in a second of late. Connections note the number of commands as they run, so an idle
// server needs no timer.
type rate struct {
	next         atomic.Int64 // when the next note is due, since the start
	mu           sync.Mutex
	before, last sample // guarded by mu
}

// sample is how many commands had run at a time since the start. The zero sample stands for the start.
type sample struct {
	at    time.Duration
	total uint64
}

// sampleEvery is the least time between two samples.
const sampleEvery = time.Second

// note keeps a sample if it is due, and reports whether it was.
func (r *rate) note(at time.Duration, total func() uint64) bool {
	next := r.next.Load()
	if int64(at) < next || !r.next.CompareAndSwap(next, int64(at+sampleEvery)) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before, r.last = r.last, sample{at, total()}
	return true
}

// perSecond returns the rate since the sample before the last one, or since the last one if that is older than two
// seconds; commands of less than a second count as if they had taken one.
func (r *rate) perSecond(now time.Duration, total uint64) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := r.before
	if now-from.at > 2*sampleEvery {
		from = r.last
	}
	if total < from.total { // RESETSTAT has set total back
		return 0
	}
	return uint64(float64(total-from.total) / max(now-from.at, sampleEvery).Seconds())
}

// restart forgets all samples: the number of commands is 0 again.
func (r *rate) restart(now time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before, r.last = sample{at: now}, sample{at: now}
}
