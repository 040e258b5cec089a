// Package queue holds what background work is asked for.
package queue

import "sync"

// Queue holds requests, each once, in no order. One that finds no room is dropped: whoever asked will ask again. The zero
// value is empty.
type Queue[R Request] struct {
	mu     sync.Mutex
	queued map[R]struct{} // guarded by mu
	bytes  int            // of queued; guarded by mu
}

// Request is what can be asked for.
type Request interface {
	comparable

	// About returns the key that the request is about.
	About() string
}

// MaxBytes bounds the bytes of requests that wait, and requestBytes is about what each takes beside its key.
const (
	MaxBytes     = 1 << 20
	requestBytes = 128
)

// Add reports whether there was room.
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

// Take takes one of those that wait.
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

// TakeAll takes all that wait.
func (q *Queue[R]) TakeAll() map[R]struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.queued
	q.queued, q.bytes = nil, 0
	return all
}

// Len returns how many requests wait.
func (q *Queue[R]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queued)
}
