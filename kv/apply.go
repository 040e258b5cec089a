package kv

import (
	"slices"
	"sync"

	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/format"
	"github.com/sievekv/sievekv/kv/memory"
	"github.com/sievekv/sievekv/kv/storage"
)

// applier applies a commit to the cache, from the bytes of its batch alone: the same batches in the same order give
// the same blocks, counters and open objects.
type applier struct {
	db    *DB
	last  uint64 // the commit's number
	whole bool   // lookups see the commit as a whole: it is under the sequence lock. Any other changes no object's header

	// layers are the layers of open objects that the batch may change. If two have the same number, the later one
	// counts. index finds them once they are many.
	layers []target
	index  map[layerID]target
	steps  int // layers looked at by find, for tests

	held []*Object // whose words are busy

	// A large commit changes thousands of blocks. Its changes are collected, and two goroutines make them, each in
	// blocks of its own.
	large    bool
	changes  []blockChange
	patchers [2]block.Patcher
}

// blockChange is what a commit changes in a block.
type blockChange struct {
	target
	blk    uint64
	change []byte
}

// largeCommit is the number of entries from which on a commit is large: two goroutines then save more than they cost.
const largeCommit = 512

// manyLayers is the number of layers above which a commit looks for one in a map.
const manyLayers = 64

// target is a layer with an object that has it.
type target struct {
	o    *Object
	l    *Layer
	open bool // lookups find the object, or found it before this commit
}

// hold makes the word of an open object busy until letGo.
func (p *applier) hold(o *Object) {
	o.memory.Hold()
	p.held = append(p.held, o)
}

// letGo moves the words of all that was held on, after the last change in memory.
func (p *applier) letGo() {
	for _, o := range p.held {
		o.memory.MoveOn()
	}
	clear(p.held)
	p.held = p.held[:0]
}

// add adds an object that a writer has made; nil adds nothing.
func (p *applier) add(o *Object) { p.addObject(o, false) }

// addOpen adds an object that lookups find.
func (p *applier) addOpen(o *Object) { p.addObject(o, true) }

func (p *applier) addObject(o *Object, open bool) {
	if o == nil || o.inline() {
		return
	}
	storage.Raise(&o.changed, p.last)
	for _, l := range o.layers {
		p.addLayer(target{o, l, open})
	}
}

func (p *applier) addLayer(x target) {
	p.layers = append(p.layers, x)
	switch {
	case p.index != nil:
		p.index[idOf(x.l)] = x
	case len(p.layers) > manyLayers:
		p.index = make(map[layerID]target)
		for _, x := range p.layers {
			p.index[idOf(x.l)] = x
		}
	}
}

// setChanged sets what the objects of the commit know of it: changing before storage has it, and its number when memory has it.
// The writer has locked their keys.
func (p *applier) setChanged(number uint64) {
	for _, x := range p.layers {
		x.o.changed.Store(number)
	}
}

func (p *applier) applyToCache(b *storage.Batch) {
	p.large = b.Count() >= largeCommit
	defer p.finish()
	for i := range b.Count() {
		switch c := b.Change(i); {
		case c.Part.Object != 0 && c.Kind == storage.KindMerge:
			if c.Part.Part >= format.PartLayers {
				p.change(blockChange{p.find(c.Part.Object, c.Part.Part-format.PartLayers), c.Part.Rest, c.Value})
			}
		case c.Part.Object != 0 && c.Kind == storage.KindSet:
			p.counters(c)
		case c.Key[0] == format.TagHeader && !p.whole:
		case c.Key[0] == format.TagHeader && c.Kind == storage.KindSet:
			p.header(string(c.Key[format.HeaderKeyPrefix:]), c.Value)
		case c.Key[0] == format.TagHeader && c.Kind == storage.KindDelete:
			p.dropKey(string(c.Key[format.HeaderKeyPrefix:]))
		case c.Key[0] == format.TagHeader && c.Kind == storage.KindRangeDelete:
			p.dropAll()
		case c.Key[0] == format.TagExpiry && c.Kind == storage.KindSet:
			p.db.expiry.Lower(c.Key)
		case c.Key[0] == format.TagMeta && c.Key[1] == format.MetaKeys:
			p.keyCount(c)
		}
	}
}

func (p *applier) find(object, number uint64) target {
	if p.index != nil {
		return p.index[layerID{object, number}]
	}
	for _, x := range slices.Backward(p.layers) {
		p.steps++
		if x.l.Object() == object && x.l.Number() == number {
			return x
		}
	}
	return target{}
}

// change changes a block in memory, or collects the change for finish.
func (p *applier) change(c blockChange) {
	switch {
	case c.l == nil:
	case p.large:
		p.changes = append(p.changes, c)
	default:
		p.patch(&c, &p.patchers[0])
	}
}

// finish makes the changes that were collected. Two of one block are made by the same goroutine, in their order.
func (p *applier) finish() {
	half := func(odd uint64) {
		for i := range p.changes {
			if c := &p.changes[i]; c.blk&1 == odd {
				p.patch(c, &p.patchers[odd])
			}
		}
	}
	if len(p.changes) > 0 {
		var other sync.WaitGroup
		other.Go(func() { half(1) })
		half(0)
		other.Wait()
	}
	clear(p.changes)
	p.changes = p.changes[:0]
}

// patch changes a resident block, or cancels its load. No other goroutine changes the block.
func (p *applier) patch(c *blockChange, by *block.Patcher) {
	l, family := c.l, c.o.header.Family
	c.o.memory.Changes().Changed(c.o.memory.PlaceOf(l, c.blk), p.last)
	s := p.db.slotToChange(l, c.blk)
	if s == nil {
		return
	}
	switch first := s.Load(); first {
	case nil:
	case memory.ZeroLine: // which all share: a new block takes its place
		first, words := l.NewBlock()
		if by.Patch(words, family, c.change) != nil {
			first = nil
		}
		l.ReplaceZero(p.db.residency, c.blk, s, first)
	default:
		if by.Patch(l.Words(first), family, c.change) != nil {
			s.CompareAndSwap(first, nil) // a block may always leave memory
		}
	}
}

// counters sets a layer's counters. Other Sets in an object's range are attributes, which are not kept in memory, and
// folded blocks, whose content has not changed.
func (p *applier) counters(c storage.Change) {
	if c.Part.Part != format.PartCounters {
		return
	}
	l := p.find(c.Part.Object, c.Part.Rest).l
	values, err := format.DecodeCounters(c.Value)
	if l == nil || err != nil {
		return
	}
	l.SetCounters(values)
}

// header puts a new incarnation under a key. A layer that an open object of the same id has too keeps its blocks. A
// new layer starts as zeros, even if it has the number of a removed one.
func (p *applier) header(key string, value []byte) {
	h, err := format.DecodeHeader(value)
	if err != nil {
		return
	}
	if h.ID == 0 { // strings are not kept open
		p.dropKey(key)
		return
	}
	layers := make([]*Layer, len(h.Layers))
	var old *Object // the incarnation that lookups find now
	for i, spec := range h.Layers {
		if from, l := p.resident(h.ID, spec.Number, key); l != nil {
			if layers[i] = l; from.open {
				old = from.o
			}
			continue
		}
		layers[i] = memory.NewLayer(h.ID, spec)
		if layers[i].KeepsOne() {
			layers[i].KeepOne(memory.ZeroLine)
		}
	}
	if old != nil {
		p.take(old)
		if gone := slices.DeleteFunc(slices.Clone(old.layers), func(l *Layer) bool { return slices.Contains(layers, l) }); len(gone) > 0 {
			p.db.retire(&Object{header: old.header, layers: gone})
		}
	}
	p.dropKey(key)
	o, err := newObject(p.db, key, h, layers)
	if err != nil {
		return // it was staged successfully a moment ago; an object may always be closed
	}
	p.addOpen(o)
	p.hold(o)
	o.memory.Changes().ChangedAll(p.last)
	for _, l := range layers {
		l.Reopen()
	}
	p.db.uses.Keep(h.ID, o.uses)
	sh := p.db.shardOf(o.key)
	sh.mu.Lock()
	sh.objects[o.key] = o
	sh.mu.Unlock()
	p.db.shutIfOver(o)
	p.db.residency.Put(objectCacheKey(h.ID), residentObject{o}, o.bytes())
	p.db.residency.Await()
}

// resident finds a layer, with its resident blocks, in the open incarnation of an object.
func (p *applier) resident(object, number uint64, key string) (from target, l *Layer) {
	if from := p.find(object, number); from.l != nil {
		return from, from.l
	}
	o := p.db.Opened([]byte(key))
	if o == nil || o.header.ID != object {
		return target{}, nil
	}
	l = o.layer(number)
	return target{o, l, true}, l
}

// take takes an object out of the map when its layers go on in another incarnation. From then on it is not closed to
// save memory. If it was closed before, its blocks are gone, and the commit changes what is left.
func (p *applier) take(o *Object) {
	sh := p.db.shardOf(o.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	o.handedOver.Store(true)
	if sh.objects[o.key] == o {
		delete(sh.objects, o.key)
		p.db.retire(o)
	}
}

// keyCount sets the numbers of keys of a group, or of all groups to 0.
func (p *applier) keyCount(c storage.Change) {
	if c.Kind == storage.KindSet {
		n, _, _ := format.DecodeKeyCounts(c.Value) // it was encoded a moment ago
		p.db.setCounts(int(c.Key[2]), n)
		return
	}
	for i := range p.db.groups {
		p.db.setCounts(i, format.KeyCounts{})
	}
}

func (p *applier) dropKey(key string) {
	sh := p.db.shardOf(key)
	sh.mu.Lock()
	o := sh.objects[key]
	delete(sh.objects, key)
	sh.mu.Unlock()
	if o != nil {
		p.db.retire(o)
	}
}

func (p *applier) dropAll() {
	defer p.db.watches.Flushed() // when lookups that begin see it
	for i := range p.db.shards {
		sh := &p.db.shards[i]
		sh.mu.Lock()
		objects := sh.objects
		sh.objects = make(map[string]*Object)
		sh.mu.Unlock()
		for _, o := range objects {
			p.db.retire(o)
		}
	}
}
