package replica

import "sync"

// queue passes things from any goroutines to one, in order. It has no bound of its own: the goroutines that add bound
// it.
type queue[T any] struct {
	mu    sync.Mutex
	items []T           // guarded by mu
	ready chan struct{} // has a value if there may be items
}

func newQueue[T any]() *queue[T] { return &queue[T]{ready: make(chan struct{}, 1)} }

func (q *queue[T]) add(items ...T) {
	if len(items) == 0 {
		return
	}
	q.mu.Lock()
	q.items = append(q.items, items...)
	q.mu.Unlock()
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take returns all items, and removes them.
func (q *queue[T]) take() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	items := q.items
	q.items = nil
	return items
}
