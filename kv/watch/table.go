// Package watch tells those who watch keys that a key was changed.
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
	n      atomic.Int64 // how many pairs of a key and a mark there are
	shards [numShards]shard
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

// Empty reports whether no key has a mark.
func (t *Table) Empty() bool { return t.n.Load() == 0 }

// Set sets the marks of a key.
func (t *Table) Set(key string) {
	s := t.of(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	for mark := range s.byKey[key] {
		mark.Store(true)
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
