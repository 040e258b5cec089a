// Package queue holds requests for background work.
package queue

import "sync"

// Queue holds requests, each once, in no order. A request that finds no room is dropped: the caller will make it
// again. The zero value is empty.
type Queue[R Request] struct {
	mu     sync.Mutex
	queued map[R]struct{} // guarded by mu
	bytes  int            // of queued; guarded by mu
}

// Request is what a Queue holds.
type Request interface {
	comparable

	// About returns the key that the request is about.
	About() string
}

// MaxBytes bounds the memory of the requests in a Queue. requestBytes is about what each takes beside its key.
const (
	MaxBytes     = 1 << 20
	requestBytes = 128
)

// Add adds a request, unless it is in the queue already. It reports false if there was no room.
func (q *Queue[R]) Add(r R) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, there := q.queued[r]; there {
		return true
	}
	n := requestBytes + len(r.About())
	if q.bytes+n > MaxBytes {
		return false
	}
	if q.queued == nil {
		q.queued = make(map[R]struct{})
	}
	q.queued[r] = struct{}{}
	q.bytes += n
	return true
}

// Take removes a request from the queue and returns it.
func (q *Queue[R]) Take() (r R, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for r = range q.queued {
		delete(q.queued, r)
		q.bytes -= requestBytes + len(r.About())
		return r, true
	}
	return r, false
}

// TakeAll empties the queue and returns the requests that were in it.
func (q *Queue[R]) TakeAll() map[R]struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.queued
	q.queued, q.bytes = nil, 0
	return all
}

// Len returns the number of requests in the queue.
func (q *Queue[R]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queued)
}
