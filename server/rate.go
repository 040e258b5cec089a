package server

import (
	"sync"
	"sync/atomic"
	"time"
)

// rate tells how many commands ran in a second of late. Connections note the number of commands as they run, so an idle
// server needs no timer.
type rate struct {
	next    atomic.Int64 // when the next note is due, since the start
	mu      sync.Mutex
	samples [16]sample // guarded by mu
	newest  int        // guarded by mu
}

// sample is how many commands had run at a time since the start.
type sample struct {
	at    time.Duration
	total uint64
}

const (
	sampleEvery = 100 * time.Millisecond
	rateSpan    = 2 * time.Second
)

// note keeps a sample if it is due, and reports whether it was.
func (r *rate) note(at time.Duration, total func() uint64) bool {
	if int64(at) < r.next.Load() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if int64(at) < r.next.Load() {
		return false
	}
	r.next.Store(int64(at + sampleEvery))
	r.newest = (r.newest + 1) % len(r.samples)
	r.samples[r.newest] = sample{at, total()}
	return true
}

// perSecond returns the rate since the oldest sample of the last seconds, or since the newest one if all are older.
// The zero sample stands for the start.
func (r *rate) perSecond(now time.Duration, total uint64) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := r.samples[r.newest]
	for i := range r.samples {
		if s := r.samples[(r.newest+1+i)%len(r.samples)]; now-s.at <= rateSpan {
			from = s
			break
		}
	}
	if now <= from.at || total < from.total { // RESETSTAT has set total back
		return 0
	}
	return uint64(float64(total-from.total) / (now - from.at).Seconds())
}

// restart forgets all samples: the number of commands is 0 again.
func (r *rate) restart(now time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.samples {
		r.samples[i] = sample{at: now}
	}
}
