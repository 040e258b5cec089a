package kv

import "sync"

// requests holds what background work is asked for, each once. One that finds no room is dropped: what asked will ask
// again.
type requests[R request] struct {
	mu     sync.Mutex
	queued map[R]struct{} // guarded by mu
	bytes  int            // of queued; guarded by mu
}

// request is what can be asked for.
type request interface {
	comparable

	// about returns the key that the request is about.
	about() string
}

// maxRequests bounds the bytes of requests that wait, and requestBytes is about what each takes beside its key.
const (
	maxRequests  = 1 << 20
	requestBytes = 128
)

// add reports whether there was room.
func (q *requests[R]) add(r R) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, there := q.queued[r]; there {
		return true
	}
	n := requestBytes + len(r.about())
	if q.bytes+n > maxRequests {
		return false
	}
	if q.queued == nil {
		q.queued = make(map[R]struct{})
	}
	q.queued[r] = struct{}{}
	q.bytes += n
	return true
}

// take takes one of those that wait.
func (q *requests[R]) take() (r R, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for r = range q.queued {
		delete(q.queued, r)
		q.bytes -= requestBytes + len(r.about())
		return r, true
	}
	return r, false
}

// takeAll takes all that wait.
func (q *requests[R]) takeAll() map[R]struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.queued
	q.queued, q.bytes = nil, 0
	return all
}

func (q *requests[R]) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queued)
}
