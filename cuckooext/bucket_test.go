package cuckooext

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/sievekv/sievekv/internal/block"
)

// entry is what equal-looking places have in common: the fingerprint and the two buckets, the lower one first.
type entry struct{ low, high, fp uint32 }

func (p place) entry() entry { return entry{min(p.i1, p.i2), max(p.i1, p.i2), p.fp} }

// model is a block and its expected contents.
type model struct {
	t      *testing.T
	g      geometry
	in     *inserter
	words  []uint64
	shadow []uint64 // what the changes make of an empty block
	counts map[entry]int
	total  int
}

// newBlock returns an empty block.
func (g *geometry) newBlock() []uint64 { return make([]uint64, g.lines()*block.LineWords) }

func newModel(t *testing.T, g geometry) *model {
	return &model{t: t, g: g, in: &inserter{g: &g}, words: g.newBlock(), shadow: g.newBlock(), counts: map[entry]int{}}
}

// slotAt is geometry.slotAt, bit by bit.
func (m *model) slotAt(words []uint64, slot int) (fp uint32) {
	w := int(m.g.width)
	for i := range w {
		p := slot*w + i
		fp |= uint32(words[p/64]>>(p%64)&1) << i
	}
	return fp
}

// insert inserts an item. It checks that a failure changes nothing, and that no entry is absent at any time while the
// changes are made one by one.
func (m *model) insert(p place, maxMoves int) error {
	m.t.Helper()
	changes, err := m.in.insert(m.words, p, maxMoves, nil)
	if err != nil {
		if !slices.Equal(m.words, m.shadow) || len(changes) != 0 {
			m.t.Fatalf("insert of %+v: %v, but the block has changed by %v", p, err, changes)
		}
		m.checkFull(p, err)
		return err
	}
	if len(changes) < 1 || len(changes) > maxMoves+1 {
		m.t.Fatalf("insert of %+v: %d changes, want 1 to %d", p, len(changes), maxMoves+1)
	}
	m.checkOrder(changes)
	m.counts[p.entry()]++
	m.total++
	return nil
}

// checkFull checks that both buckets are full, and what they hold.
func (m *model) checkFull(p place, err error) {
	m.t.Helper()
	own := m.g.count(m.words, p)
	slots := 2 * int(m.g.bucketSize)
	if p.i1 == p.i2 {
		slots /= 2
	}
	empty := m.g.countIn(m.words, p.i1, 0) + m.g.countIn(m.words, p.i2, 0)
	want := errFull
	if own == slots {
		want = errDuplicates
	}
	if empty != 0 || err != want {
		m.t.Fatalf("insert of %+v: %v with %d copies and %d slots empty of %d, want %v", p, err, own, empty, slots, want)
	}
}

func (m *model) checkOrder(changes []block.Slot) {
	m.t.Helper()
	var moved []place
	for _, c := range changes {
		if fp := m.slotAt(m.shadow, int(c.Index)); fp != 0 {
			bucket := uint32(c.Index) / m.g.bucketSize
			moved = append(moved, place{i1: bucket, i2: m.g.partner(bucket, fp), fp: fp})
		}
	}
	if len(moved) != len(changes)-1 {
		m.t.Fatalf("%d entries are overwritten by %v, want all but one", len(moved), changes)
	}
	written := map[uint16]bool{}
	for i, c := range changes {
		if written[c.Index] {
			m.t.Fatalf("slot %d is written twice by %v", c.Index, changes)
		}
		written[c.Index] = true
		m.g.set(m.shadow, c)
		for _, p := range moved {
			if n := m.g.count(m.shadow, p); n < m.counts[p.entry()] {
				m.t.Fatalf("entry %+v is there %d times after change %d of %v, want %d", p, n, i, changes, m.counts[p.entry()])
			}
		}
	}
	if !slices.Equal(m.shadow, m.words) {
		m.t.Fatalf("the block is not what the changes %v make of it", changes)
	}
}

func (m *model) remove(p place) {
	m.t.Helper()
	change, ok := m.g.remove(m.words, p)
	if ok != (m.counts[p.entry()] > 0) {
		m.t.Fatalf("remove of %+v is %v with %d copies", p, ok, m.counts[p.entry()])
	}
	if !ok {
		if !slices.Equal(m.words, m.shadow) {
			m.t.Fatalf("remove of %+v, which is absent, has changed the block", p)
		}
		return
	}
	if was := m.slotAt(m.shadow, int(change.Index)); was != p.fp || change.Value != 0 {
		m.t.Fatalf("remove of %+v is %+v, where %d was", p, change, was)
	}
	m.g.set(m.shadow, change)
	if !slices.Equal(m.shadow, m.words) {
		m.t.Fatalf("the block is not what the change %+v makes of it", change)
	}
	m.counts[p.entry()]--
	m.total--
}

// check checks the block's answers about a place.
func (m *model) check(p place) {
	m.t.Helper()
	want := m.counts[p.entry()]
	slot := m.g.find(m.words, p)
	if n := m.g.count(m.words, p); n != want || (slot >= 0) != (want > 0) || m.g.mayContain(m.words, p) != (want > 0) {
		m.t.Fatalf("%+v: count %d, find %d, mayContain %v, want %d copies", p, n, slot, m.g.mayContain(m.words, p), want)
	}
	if slot >= 0 {
		bucket := uint32(slot) / m.g.bucketSize
		if bucket != p.i1 && bucket != p.i2 || m.slotAt(m.words, slot) != p.fp {
			m.t.Fatalf("%+v: found in slot %d, which holds %d", p, slot, m.slotAt(m.words, slot))
		}
	}
}

// checkAll checks every slot of the block.
func (m *model) checkAll() {
	m.t.Helper()
	counts, total := map[entry]int{}, 0
	for slot := range m.g.slots() {
		fp := m.slotAt(m.words, slot)
		if got := m.g.slotAt(m.words, uint32(slot)); got != fp {
			m.t.Fatalf("slot %d is %d, want %d", slot, got, fp)
		}
		if fp != 0 {
			bucket := uint32(slot) / m.g.bucketSize
			counts[place{i1: bucket, i2: m.g.partner(bucket, fp), fp: fp}.entry()]++
			total++
		}
	}
	for e, n := range m.counts {
		if counts[e] != n {
			m.t.Fatalf("%+v is in the block %d times, want %d", e, counts[e], n)
		}
	}
	if occupied := m.g.occupied(m.words); total != m.total || occupied != total {
		m.t.Fatalf("%d slots are occupied, of which occupied counts %d, want %d", total, occupied, m.total)
	}
	for p := m.g.slots() * int(m.g.width); p < 64*len(m.words); p++ {
		if m.words[p/64]>>(p%64)&1 != 0 {
			m.t.Fatalf("bit %d is set, behind the last bucket", p)
		}
	}
}

// Random inserts and removals of all items of a small universe, with copies, full blocks and failures, compared with
// a multiset.
func TestBlock_model(t *testing.T) {
	eachBlock(t, func(t *testing.T, g geometry) {
		r := rand.New(rand.NewPCG(uint64(g.width), uint64(g.bucketSize)))
		m := newModel(t, g)
		items := make([]place, g.slots())
		for i := range items {
			items[i] = g.place(r.Uint64(), 1)
		}
		refused := 0
		for round := range 6 {
			ops := g.slots()
			if round > 0 { // the first one fills the block
				ops /= 2
			}
			for range ops {
				p := items[r.IntN(len(items))]
				if r.IntN(10) < []int{9, 3, 10, 5, 0, 8}[round] {
					if m.insert(p, []int{0, 1, 3, 20}[r.IntN(4)]) != nil {
						refused++
					}
				} else {
					m.remove(p)
				}
				m.check(p)
				m.check(items[r.IntN(len(items))])
				m.check(g.place(r.Uint64(), 1))
			}
			m.checkAll()
		}
		for _, p := range items {
			m.check(p)
		}
		if refused == 0 && g.bucketSize < 64 {
			t.Error("no insert was refused")
		}
	})
}

// The slots are where package block stores them.
func TestBlock_operands(t *testing.T) {
	eachGeometry(t, func(t *testing.T, g geometry) {
		r := rand.New(rand.NewPCG(5, 5))
		in := &inserter{g: &g}
		words, patched := g.newBlock(), g.newBlock()
		for range g.slots() / 2 {
			changes, err := in.insert(words, g.place(r.Uint64(), 1), 20, nil)
			if err != nil {
				continue
			}
			for _, c := range changes {
				op := block.AppendSlotsOperand(nil, g.family, []block.Slot{c})
				if err := block.Patch(patched[:], g.family, op); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !slices.Equal(patched, words) {
			t.Error("the block differs from one patched with the operands")
		}
	})
}

// Readers of a block that is being changed find the entries that stay, if they read again when the version has
// changed or is odd.
func TestBlock_patchedMeanwhile(t *testing.T) {
	for _, family := range families {
		t.Run(fmt.Sprint(family), func(t *testing.T) {
			g := mustGeometry(t, family, 4)
			r := rand.New(rand.NewPCG(6, 6))
			in := &inserter{g: &g}
			words, shared := g.newBlock(), g.newBlock()
			var version atomic.Uint64
			apply := func(changes []block.Slot) {
				version.Add(1)
				for _, c := range changes {
					op := block.AppendSlotsOperand(nil, g.family, []block.Slot{c})
					if err := block.Patch(shared[:], g.family, op); err != nil {
						t.Error(err)
					}
				}
				version.Add(1)
			}
			insert := func(p place) bool {
				changes, err := in.insert(words, p, 20, nil)
				apply(changes)
				return err == nil
			}
			var kept []place
			for g.occupied(words) < g.slots()*8/10 {
				if p := g.place(r.Uint64(), 1); insert(p) {
					kept = append(kept, p)
				}
			}
			counts := make([]int, len(kept))
			for i, p := range kept {
				counts[i] = g.count(words, p)
			}
			var stop atomic.Bool
			done := make(chan int)
			go func() {
				reads := 0
				for i := 0; !stop.Load() || reads == 0; i = (i + 1) % len(kept) {
					v := version.Load()
					present, n := g.mayContain(shared, kept[i]), g.count(shared, kept[i])
					if v%2 == 1 || version.Load() != v {
						continue
					}
					if reads++; !present || n < counts[i] {
						t.Errorf("%+v: present %v, %d times, want %d at least", kept[i], present, n, counts[i])
						break
					}
				}
				done <- reads
			}()
			rounds := 1000
			if raceEnabled {
				rounds = 200
			}
			// Items that come and go move the ones that stay.
			for range rounds {
				var passing []place
				for range 10 {
					if p := g.place(r.Uint64(), 1); insert(p) {
						passing = append(passing, p)
					}
				}
				for _, p := range passing {
					if change, ok := g.remove(words, p); ok {
						apply([]block.Slot{change})
					}
				}
			}
			stop.Store(true)
			<-done
			if !slices.Equal(words, shared) {
				t.Error("the patched block differs from the private one")
			}
		})
	}
}
