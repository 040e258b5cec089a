package kv

import (
	"encoding/binary"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"

	"github.com/sievekv/sievekv/kv/block"
)

// patcher brings memory up to a commit, from the bytes of its batch alone: who
// feeds the same batches in the same order gets the same blocks, counters and
// open objects. Commits that are gathered share a batch, and use the patcher for the
// operands they would have had in one of their own.
type patcher struct {
	db   *DB
	last uint64 // the commit's last sequence

	// layers are those of open objects that the batch may change. Of two with the same number
	// the later one counts. index has them once they are many.
	layers []patched
	index  map[layerID]patched
	steps  int // layers looked at in search of one, for tests
}

// patched is a layer, and an object that has it.
type patched struct {
	o    *Object
	l    *Layer
	open bool // the object is, or was, what lookups find
}

// add adds an object that a writer has made, if it is one.
func (p *patcher) add(o *Object) { p.addObject(o, false) }

// addOpen adds an object that is open.
func (p *patcher) addOpen(o *Object) { p.addObject(o, true) }

func (p *patcher) addObject(o *Object, open bool) {
	if o == nil || o.inline() {
		return
	}
	raise(&o.lastSeq, p.last)
	for _, l := range o.layers {
		p.addLayer(patched{o, l, open})
	}
}

func (p *patcher) addLayer(x patched) {
	p.layers = append(p.layers, x)
	switch {
	case p.index != nil:
		p.index[x.l.id()] = x
	case len(p.layers) > maxLayers: // of more than one object
		p.index = make(map[layerID]patched)
		for _, x := range p.layers {
			p.index[x.l.id()] = x
		}
	}
}

// applied tells the objects of the commit's last sequence, when it is applied.
func (p *patcher) applied(last uint64) {
	p.last = last
	for _, x := range p.layers {
		raise(&x.o.lastSeq, last)
	}
}

func (p *patcher) patch(repr []byte) {
	r := batchrepr.Read(repr)
	for {
		kind, key, value, ok, err := r.Next()
		if !ok || err != nil {
			return // an error is impossible: Pebble has just applied these bytes
		}
		switch {
		case key[0] == tagObject && kind == pebble.InternalKeyKindMerge:
			p.operand(key, value)
		case key[0] == tagObject && kind == pebble.InternalKeyKindSet:
			p.counters(key, value)
		case key[0] == tagHeader && kind == pebble.InternalKeyKindSet:
			p.header(string(key[headerKeyPrefix:]), value)
		case key[0] == tagHeader && kind == pebble.InternalKeyKindDelete:
			p.dropKey(string(key[headerKeyPrefix:]))
		case key[0] == tagHeader && kind == pebble.InternalKeyKindRangeDelete:
			p.dropAll()
		case key[0] == tagExpiry && kind == pebble.InternalKeyKindSet:
			p.db.expiry.lower(key)
			p.db.expiring.n.Add(1)
		case key[0] == tagExpiry && kind == pebble.InternalKeyKindDelete:
			p.db.expiring.n.Add(-1)
		case key[0] == tagExpiry && kind == pebble.InternalKeyKindRangeDelete:
			p.db.expiring.none()
		case key[0] == tagMeta && key[1] == metaKeys:
			p.keyCount(key, value, kind)
		}
	}
}

func (p *patcher) layer(object, number uint64) (*Object, *Layer) {
	found := p.find(object, number)
	return found.o, found.l
}

func (p *patcher) find(object, number uint64) patched {
	if p.index != nil {
		return p.index[layerID{object, number}]
	}
	for _, x := range slices.Backward(p.layers) {
		p.steps++
		if x.l.object == object && x.l.spec.Number == number {
			return x
		}
	}
	return patched{}
}

// operand patches a resident block. One that is not resident is left alone: the
// stripe's started has gone up, so no load begun before will install it.
func (p *patcher) operand(key, value []byte) {
	k, err := decodeObjectKey(key)
	if err != nil || k.part < partLayers {
		return
	}
	o, l := p.layer(k.object, k.part-partLayers)
	if l == nil {
		return
	}
	s := l.slotOf(k.rest)
	if s == nil {
		return
	}
	first := s.Load()
	switch first {
	case nil:
	case zeroLine:
		p.replaceZero(o, l, k.rest, s, value)
	default:
		if block.Patch(l.Words(first), o.header.family, value) != nil {
			// Not resident is always right.
			s.CompareAndSwap(first, nil)
		}
	}
}

// replaceZero puts a block of its own in the place of the shared zero block.
func (p *patcher) replaceZero(o *Object, l *Layer, blk uint64, s *slot, value []byte) {
	first, words := l.newBlock()
	if block.Patch(words, o.header.family, value) != nil {
		first = nil
	}
	if s.CompareAndSwap(zeroLine, first) && first != nil && l.dir != nil {
		p.db.residency.put(blockKey(l, blk), residentBlock{s, first}, l.blockBytes())
	}
}

// counters takes over a layer's counters. Other Sets in an object's range are
// attributes, which are not kept in memory, and folded blocks, whose content is
// what it was.
func (p *patcher) counters(key, value []byte) {
	k, err := decodeObjectKey(key)
	if err != nil || k.part != partCounters {
		return
	}
	_, l := p.layer(k.object, k.rest)
	c, err := decodeCounters(value)
	if l == nil || err != nil {
		return
	}
	l.setCounters(c)
}

// header puts a new incarnation under a key. Layers it has in common with an
// open object of the same id are taken over with their blocks; a new layer
// starts as zeros, also if one that was removed had its number.
func (p *patcher) header(key string, value []byte) {
	h, err := decodeHeader(value)
	if err != nil {
		return
	}
	if h.id == 0 { // strings are not kept open
		p.dropKey(key)
		return
	}
	layers := make([]*Layer, len(h.layers))
	var old *Object // the open one
	for i, spec := range h.layers {
		if from, l := p.resident(h.id, spec.Number, key); l != nil {
			if layers[i] = l; from.open {
				old = from.o
			}
			continue
		}
		layers[i] = newLayer(h, spec)
		if layers[i].dir == nil {
			layers[i].one.Store(zeroLine)
		}
	}
	if old != nil {
		p.take(old)
	}
	p.dropKey(key)
	o, err := newObject(p.db, key, h, layers)
	if err != nil {
		return // staged with success a moment ago; not open is always right
	}
	p.addOpen(o)
	for _, l := range layers {
		l.closed.Store(false)
	}
	sh := p.db.shardOf(o.key)
	sh.mu.Lock()
	sh.objects[o.key] = o
	sh.mu.Unlock()
	p.db.residency.put(objectCacheKey(h.id), residentObject{o}, o.bytes())
	p.db.residency.drain()
}

// resident finds the open incarnation that a layer's blocks are resident in.
func (p *patcher) resident(object, number uint64, key string) (from patched, l *Layer) {
	if from := p.find(object, number); from.l != nil {
		return from, from.l
	}
	o := p.db.openObject(key)
	if o == nil || o.header.id != object {
		return patched{}, nil
	}
	for _, l := range o.layers {
		if l.spec.Number == number {
			return patched{o, l, true}, l
		}
	}
	return patched{}, nil
}

// take takes an object out of the map whose layers go on in another. From then on it is not
// closed to save memory; if it was, its blocks are gone, and what is left of them is patched.
func (p *patcher) take(o *Object) {
	sh := p.db.shardOf(o.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	o.handedOver.Store(true)
	if sh.objects[o.key] == o {
		delete(sh.objects, o.key)
		p.db.retire(o)
	}
}

// keyCount takes over the number of keys of a group, or forgets all of them.
func (p *patcher) keyCount(key, value []byte, kind pebble.InternalKeyKind) {
	groups, n := p.db.groups[:], uint64(0)
	if kind == pebble.InternalKeyKindSet {
		groups = groups[key[2]:][:1]
		n, _ = binary.Uvarint(value)
	}
	for i := range groups {
		p.db.keys.Add(n - groups[i].Swap(n))
	}
}

func (p *patcher) dropKey(key string) {
	sh := p.db.shardOf(key)
	sh.mu.Lock()
	o := sh.objects[key]
	delete(sh.objects, key)
	sh.mu.Unlock()
	if o != nil {
		p.db.retire(o)
	}
}

func (p *patcher) dropAll() {
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
