package kv

import "sync"

// idMap has the open objects by their ids. An object is in it as long as it is in the map of its key.
type idMap struct {
	shards [numShards]struct {
		mu      sync.RWMutex
		objects map[uint64]*Object // guarded by mu
		_       [32]byte
	}
}

// find returns the open object with an id, nil if none is open.
func (m *idMap) find(id uint64) *Object {
	sh := &m.shards[id%numShards]
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	return sh.objects[id]
}

func (m *idMap) put(o *Object) {
	sh := &m.shards[o.header.ID%numShards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.objects == nil {
		sh.objects = make(map[uint64]*Object)
	}
	sh.objects[o.header.ID] = o
}

func (m *idMap) remove(o *Object) {
	sh := &m.shards[o.header.ID%numShards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.objects[o.header.ID] == o {
		delete(sh.objects, o.header.ID)
	}
}
