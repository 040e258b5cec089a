package kv

import (
	"slices"
	"sync"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/memory"
	"github.com/sievekv/sievekv/internal/storage"
)

// applier applies a commit to memory, from its batch alone: the same batches in the same order give the same blocks,
// counters and open objects. It finds open objects by their ids, and does not change others: the next lookup reads them
// from Pebble.
//
// Begin is called before storage has the batch, apply after it, and end in any case. The caller holds apply, and the locks of
// the keys that the batch is about, so none of these objects is closed meanwhile; or it holds apply and the gate alone.
type applier struct {
	db     *DB
	whole  bool    // lookups see the commit as a whole: it is under the sequence lock. Any other changes no object's header
	object *Object // the one that was found last
	number uint64  // of the commit

	begun   []*Object // those that the commit changes
	held    []*Object // those whose words are busy
	started []place   // of blocks of slots that are about to change

	removed []string         // keys under which the open object is no longer
	dropped map[layerID]bool // layers that objects lose

	// A large commit changes thousands of blocks. Its changes are collected, and two goroutines make them, each in
	// blocks of its own.
	large    bool
	changes  []blockChange
	patchers [2]block.Patcher
}

// place is a place among the last changes of an object.
type place struct {
	o *Object
	i int
}

// blockChange is what a commit changes in a block.
type blockChange struct {
	o      *Object
	l      *Layer
	blk    uint64
	change []byte
}

// largeCommit is the least number of entries of a large commit, for which two goroutines save more than they cost.
const largeCommit = 512

// begin notes what a commit is about to change. From now on an answer that rests on one of these objects waits for the
// log (DB.Acknowledge). If lookups see the commit as a whole, begin makes the words of the objects busy.
func (p *applier) begin(b *storage.Batch) {
	for i := range b.Count() {
		switch c := b.Change(i); {
		case c.Part.Object != 0:
			p.beginPart(c)
		case c.Key[0] == format.TagHeader && c.Kind == storage.KindRangeDelete:
			p.db.eachOpen(p.beginObject)
		case c.Key[0] == format.TagHeader && p.whole:
			p.beginObject(p.db.Opened(c.Key[format.HeaderKeyPrefix:]))
			if h, err := format.DecodeHeaderShared(c.Value); c.Kind == storage.KindSet && err == nil {
				p.beginObject(p.find(h.ID))
			}
		}
	}
}

// beginPart is begin for the change of a part of an object. Meanwhile no other commit changes the object or its blocks
// of slots.
func (p *applier) beginPart(c storage.Change) {
	o := p.find(c.Part.Object)
	if o == nil {
		return
	}
	p.beginObject(o)
	if c.Kind == storage.KindMerge && o.header.Family != block.FamilyBits {
		if i := o.memory.Changes().Place(c.Part.Part-format.PartLayers, c.Part.Rest); o.memory.Changes().Begin(i) {
			p.started = append(p.started, place{o, i})
		}
	}
}

func (p *applier) beginObject(o *Object) {
	if o == nil || o.changed.Load() == changing { // it has begun
		return
	}
	o.changed.Store(changing)
	p.begun = append(p.begun, o)
	if p.whole {
		p.hold(o)
	}
}

// hold makes the word of an open object busy until end.
func (p *applier) hold(o *Object) {
	o.memory.Hold()
	p.held = append(p.held, o)
}

// end ends what begin began, once memory has the commit, or storage has refused it and it has no number.
func (p *applier) end() {
	for _, x := range p.started {
		x.o.memory.Changes().End(x.i, p.number)
	}
	for _, o := range p.begun {
		if p.number > 0 {
			o.changed.Store(p.number)
		}
	}
	for _, o := range p.held {
		o.memory.MoveOn()
	}
	p.reset()
}

// reset makes the applier ready for another commit, and keeps its memory.
func (p *applier) reset() {
	clear(p.begun)
	clear(p.held)
	clear(p.started)
	clear(p.removed)
	clear(p.changes)
	if cap(p.changes) > 2*maxKeptBlocks {
		p.changes = nil
	}
	*p = applier{begun: p.begun[:0], held: p.held[:0], started: p.started[:0], removed: p.removed[:0],
		changes: p.changes[:0], patchers: p.patchers}
}

// find returns the open object with an id, nil if none is open.
func (p *applier) find(id uint64) *Object {
	if p.object == nil || p.object.header.ID != id || p.object.memory.Ended() {
		p.object = p.db.ids.find(id)
	}
	return p.object
}

// apply changes what is in memory.
func (p *applier) apply(b *storage.Batch) {
	p.large = b.Count() >= largeCommit
	for i := range b.Count() {
		switch c := b.Change(i); {
		case c.Part.Object != 0:
			p.applyPart(c)
		case c.Key[0] == format.TagHeader && c.Kind == storage.KindRangeDelete:
			p.dropAll()
		case c.Key[0] == format.TagHeader && p.whole:
			p.removed = append(p.removed, string(c.Key[format.HeaderKeyPrefix:]))
			if c.Kind == storage.KindSet && p.header(p.removed[len(p.removed)-1], c.Value) {
				p.removed = p.removed[:len(p.removed)-1]
			}
		case c.Key[0] == format.TagExpiry && c.Kind == storage.KindSet:
			p.db.expiry.Lower(c.Key)
		case c.Key[0] == format.TagMeta && c.Key[1] == format.MetaKeys:
			p.keyCount(c)
		}
	}
	for _, key := range p.removed { // last: an object may have got another key
		p.dropKey(key)
	}
	p.patchAll()
}

// applyPart applies an operand of a block, or counters, or notes that a layer is dropped. Other Sets in an object's range are
// attributes, which are not kept in memory, and folded blocks, whose content has not changed.
func (p *applier) applyPart(c storage.Change) {
	k, o := c.Part, p.find(c.Part.Object)
	switch {
	case c.Kind == storage.KindDelete && k.Part == format.PartCounters:
		if p.dropped == nil {
			p.dropped = make(map[layerID]bool)
		}
		p.dropped[layerID{k.Object, k.Rest}] = true
	case o == nil:
	case c.Kind == storage.KindMerge && k.Part >= format.PartLayers:
		if l := o.layer(k.Part - format.PartLayers); l != nil && k.Rest < l.Spec().Blocks {
			p.change(blockChange{o, l, k.Rest, c.Value})
		}
	case c.Kind == storage.KindSet && k.Part == format.PartCounters:
		l := o.layer(k.Rest)
		if values, err := format.DecodeCounters(c.Value); l != nil && err == nil {
			l.SetCounters(values)
		}
	}
}

// change changes a block in memory, or collects the change for patchAll.
func (p *applier) change(c blockChange) {
	if p.large {
		p.changes = append(p.changes, c)
	} else {
		p.patch(&c, &p.patchers[0])
	}
}

// patchAll makes the changes that were collected. Two of one block are made by the same goroutine, in their order.
func (p *applier) patchAll() {
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
}

// patch changes a resident block, or cancels its load. No other goroutine changes the block.
func (p *applier) patch(c *blockChange, by *block.Patcher) {
	l, family := c.l, c.o.header.Family
	c.o.memory.Changes().Changed(c.o.memory.PlaceOf(l, c.blk), p.number)
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

// header puts a new incarnation of an open object under a key, and reports whether it did. A layer that was not dropped keeps
// its blocks. A new layer starts as zeros, even if it has the number of a dropped one.
func (p *applier) header(key string, value []byte) bool {
	h, err := format.DecodeHeader(value)
	if err != nil || h.ID == 0 { // strings are not kept open
		return false
	}
	old := p.find(h.ID)
	if old == nil || !p.take(old) {
		return false
	}
	p.object = nil
	layers, gone := p.layersOf(h, old)
	if len(gone) > 0 {
		p.db.retire(&Object{header: old.header, layers: gone})
	}
	p.dropKey(key)
	o, err := newObject(p.db, key, h, layers)
	if err != nil {
		return true // it was staged successfully a moment ago; an object may always be closed
	}
	p.hold(o)
	o.changed.Store(p.number)
	o.memory.Changes().ChangedAll(p.number)
	p.db.uses.Keep(h.ID, o.uses)
	sh := p.db.shardOf(key)
	sh.mu.Lock()
	p.db.put(sh, o)
	sh.mu.Unlock()
	p.db.shutIfOver(o)
	p.db.residency.Wait() // ristretto refuses an entry while it has not counted the first one under the same key
	p.db.residency.Put(objectCacheKey(h.ID), residentObject{o}, o.bytes())
	p.db.residency.Await()
	return true
}

// layersOf returns the layers of a new incarnation, and the layers of the old one that it lacks.
func (p *applier) layersOf(h *format.Header, old *Object) (layers, gone []*Layer) {
	for _, spec := range h.Layers {
		l := old.layer(spec.Number)
		if l == nil || p.dropped[idOf(l)] {
			if l = memory.NewLayer(h.ID, spec); l.KeepsOne() {
				l.KeepOne(memory.ZeroLine)
			}
		}
		layers = append(layers, l)
	}
	for _, l := range old.layers {
		if !slices.Contains(layers, l) {
			gone = append(gone, l)
		}
	}
	return layers, gone
}

// take takes an object out of the maps when another incarnation takes over its layers. From then on it is not closed to
// save memory. It returns false if it was closed before.
func (p *applier) take(o *Object) bool {
	sh := p.db.shardOf(o.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.objects[o.key] != o {
		return false
	}
	o.handedOver.Store(true)
	p.db.remove(sh, o)
	p.db.retire(o)
	return true
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

// dropKey ends the object that is open under a key.
func (p *applier) dropKey(key string) {
	sh := p.db.shardOf(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if o := sh.objects[key]; o != nil {
		p.db.remove(sh, o)
		p.db.retire(o)
	}
}

func (p *applier) dropAll() {
	defer p.db.watches.Flushed() // when lookups that begin see it
	for i := range p.db.shards {
		sh := &p.db.shards[i]
		sh.mu.Lock()
		for _, o := range sh.objects {
			p.db.ids.remove(o)
			p.db.retire(o)
		}
		sh.objects = make(map[string]*Object)
		sh.mu.Unlock()
	}
}
