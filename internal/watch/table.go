// Package watch tells the watchers of a key that it was changed.
package watch

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// Table has the marks of keys. A mark is set when one of its keys is changed. The table is in shards with a lock each:
// every commit looks for marks of the keys that it has changed, and must not wait for clients that watch many keys. The
// zero Table is empty. Any number of goroutines may use it.
type Table struct {
	n        atomic.Int64 // how many pairs of a key and a mark there are
	observer atomic.Pointer[Observer]
	shards   [numShards]shard
}

// Observer is told what commits change, once lookups that begin see the change. A commit waits meanwhile, so its methods
// must be quick, and must not use the store.
type Observer interface {
	Changed(key string) // or the key was removed, at the latest some time after it expired
	Flushed()           // every key was removed, or any key may have changed
}

// Observe tells o from now on, in place of another Observer; nil ends that. What was changed before Observe returns is
// seen by every lookup that begins then, and need not be told.
func (t *Table) Observe(o Observer) {
	if o == nil {
		t.observer.Store(nil)
		return
	}
	t.observer.Store(&o)
}

const numShards = 256

var seed = maphash.MakeSeed()

type shard struct {
	mu    sync.Mutex
	byKey map[string]map[*atomic.Bool]struct{} // guarded by mu
}

func (t *Table) of(key string) *shard { return &t.shards[maphash.String(seed, key)%numShards] }

// Add adds a mark to a key. The key must not have the mark yet.
func (t *Table) Add(key string, mark *atomic.Bool) {
	t.n.Add(1)
	s := t.of(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey == nil {
		s.byKey = make(map[string]map[*atomic.Bool]struct{})
	}
	if s.byKey[key] == nil {
		s.byKey[key] = make(map[*atomic.Bool]struct{})
	}
	s.byKey[key][mark] = struct{}{}
}

// Remove takes a mark from a key that has it.
func (t *Table) Remove(key string, mark *atomic.Bool) {
	s := t.of(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byKey[key], mark)
	if len(s.byKey[key]) == 0 {
		delete(s.byKey, key)
	}
	t.n.Add(-1)
}

// Empty reports whether no key has a mark, and nobody observes.
func (t *Table) Empty() bool { return t.n.Load() == 0 && t.observer.Load() == nil }

// Expired tells the observer that a key was removed some time after it expired. For marks it was missing before.
func (t *Table) Expired(key string) { t.tell(key) }

func (t *Table) tell(key string) {
	if o := t.observer.Load(); o != nil {
		(*o).Changed(key)
	}
}

// Flushed tells the observer that every key was removed.
func (t *Table) Flushed() {
	if o := t.observer.Load(); o != nil {
		(*o).Flushed()
	}
}

// Set sets the marks of a key that was changed, and tells the observer.
func (t *Table) Set(key string) {
	t.tell(key)
	s := t.of(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	for mark := range s.byKey[key] {
		mark.Store(true)
	}
}

// SetAll sets all marks, and tells the observer that any key may have changed.
func (t *Table) SetAll() {
	t.Flushed()
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for _, marks := range s.byKey {
			for mark := range marks {
				mark.Store(true)
			}
		}
		s.mu.Unlock()
	}
}

// Len returns how many keys have marks.
func (t *Table) Len() (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += len(s.byKey)
		s.mu.Unlock()
	}
	return n
}
