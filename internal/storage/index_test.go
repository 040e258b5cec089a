package storage

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/probe"
)

// indexModel draws commits, and knows what is under each key after them.
type indexModel struct {
	rng      *rand.Rand
	layers   []*modelLayer
	blocks   map[string][]uint64
	families map[string]block.Family
	records  map[string][]byte
}

// modelLayer is a layer of bits, of slots, or a list.
type modelLayer struct {
	object uint64
	number uint64
	family block.Family
	layout probe.Layout // of bits
	list   bool
	words  uint64 // of a list
}

func newIndexModel(t *testing.T, seed uint64) *indexModel {
	m := &indexModel{rng: rand.New(rand.NewPCG(seed, 2)), records: make(map[string][]byte)}
	m.forget()
	for i, shape := range [][4]uint64{{1, 128, 6, 1}, {1, 1, 1, 1}, {3, 128, 6, 1}, {700, 128, 6, 1}, {1023, 16, 18, 2}, {5000, 128, 20, 3}, {1 << 29, 128, 6, 1}} {
		layout, err := probe.NewLayout(shape[0], shape[1], shape[2], shape[3])
		if err != nil {
			t.Fatal(err)
		}
		m.layers = append(m.layers, &modelLayer{object: uint64(200*i + 1), number: uint64(i % 3), family: block.FamilyBits, layout: layout})
	}
	for i, family := range []block.Family{block.FamilySlots4, block.FamilySlots8, block.FamilySlots12, block.FamilySlots32} {
		m.layers = append(m.layers, &modelLayer{object: 1 << (10 * i), number: 7, family: family})
	}
	m.layers = append(m.layers, &modelLayer{object: 77, family: block.FamilyBits, list: true})
	return m
}

func (m *indexModel) forget() {
	m.blocks, m.families, m.records = make(map[string][]uint64), make(map[string]block.Family), make(map[string][]byte)
}

// draw returns a batch of a few changes.
func (m *indexModel) draw() *Batch {
	c := new(Batch)
	l := m.layers[m.rng.IntN(len(m.layers))]
	for range 1 + m.rng.IntN(4) {
		l.draw(m.rng, c, m.block)
		if m.rng.IntN(3) == 0 {
			l = m.layers[m.rng.IntN(len(m.layers))]
		}
	}
	counters := [format.NumCounters]uint64{m.rng.Uint64N(1 << 20), m.rng.Uint64N(2)}
	c.SetCounters(l.object, l.number, counters)
	m.records[string(format.AppendCountersKey(nil, l.object, l.number))] = format.AppendCounters(nil, counters)
	for range m.rng.IntN(3) {
		key, value := randomKey(m.rng), bytes.Repeat([]byte{byte(m.rng.IntN(256))}, m.rng.IntN(40))
		c.Set(key, value)
		m.records[string(key)] = value
	}
	return c
}

// block returns what a block should have.
func (m *indexModel) block(l *modelLayer, blk uint64) []uint64 {
	key := string(format.AppendBlockKey(nil, l.object, l.number, blk))
	if m.blocks[key] == nil {
		m.blocks[key], m.families[key] = make([]uint64, block.MaxWords), l.family
	}
	return m.blocks[key]
}

// draw adds a change of a block to a batch, and makes it in the model's block.
func (l *modelLayer) draw(rng *rand.Rand, c *Batch, blockOf func(l *modelLayer, blk uint64) []uint64) {
	if l.family != block.FamilyBits {
		blk, slots := uint64(rng.IntN(40)), []block.Slot(nil)
		for range 1 + rng.IntN(12) {
			index := uint16(rng.IntN(l.family.Slots(1 + rng.IntN(128))))
			slots = append(slots, block.Slot{Index: index, Value: rng.Uint32() & uint32(uint64(1)<<l.family.Width()-1)})
		}
		slots = block.LastOfEach(slots)
		block.SetSlots(blockOf(l, blk), l.family, slots)
		c.SetSlots(l.object, l.number, blk, l.family, slots)
		return
	}
	var blk uint64
	var set block.BitSet
	switch {
	case l.list:
		blk = l.words / block.MaxWords
		for range min(uint64(1+rng.IntN(40)), block.MaxWords-l.words%block.MaxWords) {
			set.AddWord(int(l.words%block.MaxWords), rng.Uint64())
			l.words++
		}
	case rng.IntN(4) > 0:
		hashes := []uint64{rng.Uint64() >> (rng.IntN(2) * 8)}
		blk, _ = l.layout.Block(hashes[0])
		if of, _ := l.layout.Block(hashes[0] ^ 1); of == blk {
			hashes = append(hashes, hashes[0]^1)
		}
		set.AddItems(&l.layout, hashes, []bool{true, true}, len(hashes), len(hashes))
	default:
		blk = rng.Uint64N(min(60, l.layout.Blocks))
		for range 1 + rng.IntN(20)*rng.IntN(2)*rng.IntN(12)*(1+30*(rng.IntN(50)/49)) {
			set.Add(uint16(rng.IntN(int(l.layout.Lines) * block.LineBits)))
		}
	}
	if set.Len() > 0 {
		set.Set(blockOf(l, blk))
		c.SetBits(l.object, l.number, blk, &set, rng.IntN(8) > 0, new([]uint16))
	}
}

// randomKey returns one of few keys. Some begin alike, and one is the beginning of another.
func randomKey(rng *rand.Rand) []byte {
	switch rng.IntN(4) {
	case 0:
		return format.AppendKeyCountKey(nil, uint8(rng.IntN(5)))
	case 1:
		return format.AppendHeaderKey(nil, uint64(rng.IntN(3)), bytes.Repeat([]byte("k"), rng.IntN(5)))
	}
	hash := uint64(rng.IntN(300))
	return format.AppendHeaderKey(nil, hash*0x9e3779b97f4a7c15, fmt.Append(nil, "key:", hash))
}

// check compares an index with the model: what lookups read, and the batch that goes to Pebble.
func (m *indexModel) check(t *testing.T, x *index, scratch *flushScratch) {
	t.Helper()
	for key, want := range m.records {
		if got, found := x.value([]byte(key)); !found || !bytes.Equal(got, want) {
			t.Fatalf("key %x is %x, %t, want %x", key, got, found, want)
		}
	}
	p := pending{filling: *x}
	p.added.Store(1)
	for key, want := range m.blocks {
		got := make([]uint64, block.MaxWords)
		if err := block.Patch(got, m.families[key], p.operand([]byte(key), blockOf([]byte(key)))); err != nil || !slices.Equal(got, want) {
			t.Fatalf("block %x is pending with other content, or %v", key, err)
		}
	}
	batch := new(pebble.Batch)
	x.build(batch, scratch)
	if size := batch.Len() + PerEntry*int(batch.Count()); size > x.size && !batch.Empty() {
		t.Errorf("the batch takes %d bytes, estimated were %d at most", size, x.size)
	}
	var before []byte
	n := 0
	for r := batch.Reader(); ; n++ {
		kind, key, value, ok, err := r.Next()
		if !ok || err != nil {
			break
		}
		if bytes.Compare(before, key) >= 0 {
			t.Fatalf("key %x comes after %x", key, before)
		}
		before = bytes.Clone(key)
		if want, there := m.records[string(key)]; there && (kind != KindSet || !bytes.Equal(value, want)) {
			t.Errorf("kind %d, %x = %x, want %x", kind, key, value, want)
		} else if there {
			continue
		}
		got := make([]uint64, block.MaxWords)
		if err := block.Patch(got, m.families[string(key)], value); err != nil || kind != KindMerge || !slices.Equal(got, m.blocks[string(key)]) {
			t.Errorf("kind %d of block %x, with other content or %v", kind, key, err)
		}
	}
	if n != len(m.records)+len(m.blocks) {
		t.Errorf("the batch has %d keys, want %d", n, len(m.records)+len(m.blocks))
	}
}

// An index has what batches changed, in what lookups read, and in one change for each key of a batch, which is not larger
// than was estimated. An index that was emptied is as good as a new one.
func TestIndex(t *testing.T) {
	for seed := range uint64(5) {
		m, scratch := newIndexModel(t, seed), new(flushScratch)
		var x index
		for range 10 {
			m.forget()
			for range m.rng.IntN(400) {
				c := m.draw()
				data, size := len(x.data), x.size
				x.add(c)
				if len(x.data)-data > len(c.data) || x.size-size > c.pending {
					t.Fatalf("a batch takes %d and %d bytes, estimated were %d and %d at most", len(x.data)-data, x.size-size, len(c.data), c.pending)
				}
			}
			m.check(t, &x, scratch)
			x.reset()
			if x.find(randomKey(m.rng)) != nil || x.records != 0 {
				t.Error("an index that was emptied has a key")
			}
		}
	}
}
