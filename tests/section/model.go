package main

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
)

// What is in memory and on disk. A model of a store with two keys, two filters of at most two layers with one block
// each, and one item. What a processor does at once is one step.

const (
	maxThreads      = 5
	maxIncarnations = 8
	maxTables       = 8
	maxLoads        = 6
)

// Layers, by number. The first two are of one filter, the others of filters that take its place.
const (
	layerA = iota
	layerB
	layerC
	numLayers
	none = 0xff
)

// header is what is stored under a key.
type header struct {
	there   bool
	layers  [2]uint8 // numbers, newest first, or none
	expires uint8
	until   [2]uint8 // the time at which each layer ceases to count, 0 for never
}

// incarnation is an open object: what lookups find under a key until a commit changes more of it than bits and slots.
type incarnation struct {
	header
	tables [2]uint8 // of its layers
	key    uint8

	// The word.
	shut  bool // it has ended, or the store
	busy  bool // a commit changes it
	count uint8
}

// table is the memory of a layer.
type table struct {
	layer    uint8
	resident bool
	item     bool  // the resident block has the item
	block    uint8 // tells the block from others that were resident earlier
	version  uint8 // odd while a commit changes slots
	flight   uint8 // 1 and the thread whose load is registered, 0 for none
	// cancelled is the same for a load that a commit has cancelled, and that has not ended.
	cancelled uint8
}

// state is the store and all that is under way.
type state struct {
	stored   [2]header
	items    [numLayers]bool // whether the stored block of a layer has the item
	open     [2]uint8        // 1 and the incarnation that lookups find under a key, 0 for none
	handles  [2]uint8        // 1 and the incarnation that lookups of a key have found last, 0 for none
	row      bool            // the row in memory
	clock    uint8
	failed   bool // no lookup may answer any more
	odd      bool // a commit of several objects is applied
	sequence uint8
	locked   bool  // the lock of both keys
	shared   uint8 // holders of apply
	alone    bool  // apply is held alone

	made    uint8 // incarnations
	tabled  uint8 // tables
	objects [maxIncarnations]incarnation
	tables  [maxTables]table
	threads [maxThreads]thread
	ways    ways
	wrong   string // what has gone wrong
}

// thread is one that runs an operation.
type thread struct {
	op    op
	key   uint8
	begun bool
	ended bool
	step  uint8

	object   uint8 // the incarnation at hand
	count    uint8 // of its word
	clock    uint8
	layer    uint8 // place of the layer at hand
	versions [2]uint8
	item     bool // the block at hand has the item
	block    uint8
	tries    uint8
	sequence uint8
	before   header

	shares uint8          // the thread whose load this one waits for
	load   uint8          // which of its loads
	loads  uint8          // that this one has ended
	loaded [maxLoads]bool // what they have read
	held   [2]uint8       // 1 and the incarnations that a commit found under the keys
	next   [2]uint8       // 1 and the incarnations that it makes
}

// newTable makes the table of a layer.
func (s *state) newTable(layer uint8) uint8 {
	s.tables[s.tabled] = table{layer: layer}
	s.tabled++
	return s.tabled - 1
}

// newObject makes an incarnation of what is stored under a key. Layers that another incarnation has keep their memory.
func (s *state) newObject(key uint8, from uint8) uint8 {
	o := incarnation{header: s.stored[key], key: key, tables: [2]uint8{none, none}}
	for i, layer := range o.layers {
		if layer == none {
			continue
		}
		if from != 0 {
			old := &s.objects[from-1]
			if j := slices.Index(old.layers[:], layer); j >= 0 {
				o.tables[i] = old.tables[j]
				continue
			}
		}
		o.tables[i] = s.newTable(layer)
	}
	s.objects[s.made] = o
	s.made++
	return s.made // 1 and its number
}

// bytes appends everything that tells states apart.
func (s *state) bytes(b []byte) []byte {
	flag := func(list ...bool) {
		var set uint64
		for i, on := range list {
			if on {
				set |= 1 << i
			}
		}
		b = binary.AppendUvarint(b, set)
	}
	head := func(h *header) {
		flag(h.there)
		b = append(b, h.layers[0], h.layers[1], h.expires, h.until[0], h.until[1])
	}
	head(&s.stored[0])
	head(&s.stored[1])
	flag(s.items[:]...)
	flag(s.failed, s.odd, s.locked, s.alone, s.row)
	b = append(b, s.handles[0], s.handles[1], s.open[0], s.open[1], s.clock, s.sequence, s.shared, s.made, s.tabled)
	for i := range s.objects[:s.made] {
		o := &s.objects[i]
		head(&o.header)
		flag(o.shut, o.busy)
		b = append(b, o.tables[0], o.tables[1], o.key, o.count)
	}
	for i := range s.tables[:s.tabled] {
		t := &s.tables[i]
		flag(t.resident, t.item)
		b = append(b, t.layer, t.block, t.version, t.flight, t.cancelled)
	}
	for i := range s.threads {
		t := &s.threads[i]
		if t.ended {
			b = append(b, 0xff)
			for _, item := range t.loaded {
				flag(item)
			}
			continue
		}
		flag(t.begun, t.item)
		flag(t.loaded[:]...)
		head(&t.before)
		b = append(b, byte(t.op), t.key, t.step, t.object, t.count, t.clock, t.layer, t.versions[0], t.versions[1], t.block, t.tries,
			t.sequence, t.shares, t.load, t.loads, t.held[0], t.held[1], t.next[0], t.next[1])
	}
	return b
}

// hasher tells states that were seen. Two hashes of 64 bits make it unlikely that two states are taken for one.
type hasher struct {
	seeds [2]maphash.Seed
	buf   []byte
}

func newHasher() *hasher {
	return &hasher{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

func (h *hasher) sum(s *state) [2]uint64 {
	h.buf = s.bytes(h.buf[:0])
	ways := make([]uint64, len(s.ways))
	for i, w := range s.ways {
		ways[i] = w.number()
	}
	slices.Sort(ways)
	for _, n := range ways {
		h.buf = binary.LittleEndian.AppendUint64(h.buf, n)
	}
	return [2]uint64{maphash.Bytes(h.seeds[0], h.buf), maphash.Bytes(h.seeds[1], h.buf)}
}

// number tells ways apart.
func (w way) number() uint64 {
	n := uint64(0)
	add := func(v uint8, bits int) { n = n<<bits | uint64(v) }
	for _, c := range w.now.keys {
		add(one(c.there), 1)
		add(c.expires, 3)
		add(one(c.item), 1)
		add(c.until, 3)
	}
	add(w.now.clock, 3)
	add(one(w.now.closed), 1)
	add(one(w.now.row), 1)
	add(w.done, maxThreads)
	for _, a := range w.answers {
		add(uint8(a), 2)
	}
	return n
}

func one(on bool) uint8 {
	if on {
		return 1
	}
	return 0
}
