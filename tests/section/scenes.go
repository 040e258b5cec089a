package main

// kind is what the filter under the first key is at the beginning.
type kind struct {
	name     string
	slots    bool
	second   bool  // it has two layers, and the item is in the older one
	missing  bool  // the item is not there
	cold     bool  // its blocks are not in memory
	closed   bool  // it is not open
	expires  uint8 // see content
	windowed bool  // its layers are slices of a window: the older one counts until 1, the newer one until 2
	away     bool  // the filter is under the second key, and the first has none
}

// run is a thread of a scene.
type run struct {
	op  op
	key uint8 // of a lookup; the table of evictBlock
}

// start returns the state in which a scene begins.
func (k kind) start(runs []run) *state {
	h := header{there: true, layers: [2]uint8{layerA, none}, expires: k.expires}
	c := content{there: true, item: !k.missing, expires: k.expires}
	place := 0
	if k.second {
		h.layers, place = [2]uint8{layerB, layerA}, 1
	}
	if k.windowed {
		h.until, c.until = [2]uint8{2, 1}, 1
	}
	s := &state{}
	key := one(k.away)
	s.stored[key] = h
	s.items[h.layers[place]] = !k.missing
	if !k.closed {
		s.open[key] = s.newObject(key, 0)
		for i, n := range s.objects[0].tables {
			if n != none && !k.cold {
				s.tables[n].resident, s.tables[n].item = true, i == place && !k.missing
			}
		}
	}
	s.handles[key] = s.open[key]
	now := truth{}
	now.keys[key] = c
	s.ways = ways{{now: now}}
	for i := range s.threads {
		s.threads[i].ended = i >= len(runs)
		if i < len(runs) {
			s.threads[i].op, s.threads[i].key = runs[i].op, runs[i].key
		}
	}
	return s
}

// kinds are the filters that scenes begin with.
var kinds = []kind{
	{name: "in memory"},
	{name: "in memory, without the item", missing: true},
	{name: "on disk", cold: true},
	{name: "on disk, without the item", cold: true, missing: true},
	{name: "two layers in memory", second: true},
	{name: "two layers on disk", second: true, cold: true},
	{name: "closed", closed: true, second: true},
	{name: "expires", expires: 1},
	{name: "expires, on disk", expires: 1, cold: true},
	{name: "under the other key", away: true},
	{name: "slots in memory", slots: true},
	{name: "slots in memory, two layers", slots: true, second: true},
	{name: "slots on disk, two layers", slots: true, second: true, cold: true},
	{name: "slots, expires", slots: true, expires: 1},
	{name: "window", windowed: true, second: true},
	{name: "window on disk", windowed: true, second: true, cold: true},
	{name: "window, expires", windowed: true, second: true, expires: 2},
}

// commits are those that a kind of filter may see.
func (k kind) commits() []op {
	list := []op{add, addAway, both, rename, renameBack, remake, refill, drop}
	if k.slots {
		list = append(list, move, remove, moveLayers)
	}
	if k.windowed {
		list = append(list, turn)
	} else {
		list = append(list, grow)
	}
	if k.expires != 0 {
		list = append(list, persist, sweep)
	}
	return list
}

// others are the operations around lookups and commits.
func (k kind) others() []run {
	list := []run{{op: evictBlock}, {op: evictObject}, {op: fail}}
	if k.second {
		list = append(list, run{op: evictBlock, key: 1})
	}
	if k.expires != 0 || k.windowed {
		list = append(list, run{op: tick}, run{op: tickBack})
	}
	return list
}

// scene is what several threads run at once.
type scene struct {
	kind kind
	runs []run
}

// scenes returns all of them: two lookups with two commits, or with a commit and one other operation.
func scenes() (list []scene) {
	for _, k := range kinds {
		commits := k.commits()
		for i, a := range commits {
			var others []run
			for _, b := range commits[i:] {
				others = append(others, run{op: b})
			}
			others = append(others, k.others()...)
			for _, b := range others {
				for _, second := range []run{{op: has}, {op: known}, {op: has, key: 1}, {op: row}} {
					if second.key == 1 && a != rename && b.op != rename && !k.away || second.op == row && a != both && b.op != both {
						continue
					}
					{
						list = append(list, scene{k, []run{{op: has}, second, {op: a}, b}})
					}
				}
			}
		}
	}
	return list
}

func (r run) String() string {
	if r.key != 0 {
		return r.op.String() + " 2"
	}
	return r.op.String()
}
