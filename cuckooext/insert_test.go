package cuckooext

import (
	"fmt"
	"testing"

	"github.com/sievekv/sievekv/internal/block"
)

// table is a layer in memory.
type table struct {
	g      *geometry
	in     *inserter
	blocks [][]uint64
	buf    []block.Slot
}

func newTable(g *geometry, blocks uint64) *table {
	t := &table{g: g, in: &inserter{g: g}, blocks: make([][]uint64, blocks)}
	for i := range t.blocks {
		t.blocks[i] = g.newBlock()
	}
	return t
}

func (t *table) place(h uint64) place { return t.g.place(h, uint64(len(t.blocks))) }

// insert returns the number of slots written.
func (t *table) insert(h uint64) (int, error) {
	p := t.place(h)
	var err error
	t.buf, err = t.in.insert(t.blocks[p.blk], p, maxMoves, t.buf[:0])
	return len(t.buf), err
}

func (t *table) remove(h uint64) bool {
	p := t.place(h)
	_, ok := t.g.remove(t.blocks[p.blk], p)
	return ok
}

func (t *table) mayContain(h uint64) bool {
	p := t.place(h)
	return t.g.mayContain(t.blocks[p.blk], p)
}

const maxMoves = 20

// Layers take at least what they are sized for before any of their blocks is full. The seeds are fixed; with others,
// one in a hundred layers may take less.
func TestInserter_firstFull(t *testing.T) {
	for _, tt := range []struct {
		family     block.Family
		bucketSize int
		blocks     uint64
		least      float64 // load
	}{
		{block.FamilySlots16, 4, 1000, 0.92},
		{block.FamilySlots8, 4, 300, 0.93},
		{block.FamilySlots12, 4, 300, 0.92},
		{block.FamilySlots32, 4, 300, 0.89},
		{block.FamilySlots12, 1, 1, 0.25},
		{block.FamilySlots12, 2, 1, 0.87},
		{block.FamilySlots12, 2, 300, 0.83},
		{block.FamilySlots16, 3, 300, 0.89},
		{block.FamilySlots10, 2, 300, 0.83},
		{block.FamilySlots14, 3, 300, 0.89},
		{block.FamilySlots18, 3, 300, 0.88},
		{block.FamilySlots20, 3, 300, 0.88},
		{block.FamilySlots24, 3, 300, 0.87},
		{block.FamilySlots16, 8, 300, 0.93},
		{block.FamilySlots12, 255, 50, 0.93},
		{block.FamilySlots32, 255, 1, 0.99},
	} {
		t.Run(fmt.Sprintf("%v, bucket size %d, %d blocks", tt.family, tt.bucketSize, tt.blocks), func(t *testing.T) {
			t.Parallel()
			if raceEnabled {
				tt.blocks = min(tt.blocks, 50)
			}
			g := mustGeometry(t, tt.family, tt.bucketSize)
			full := newTable(&g, tt.blocks)
			k := keys{seed: 7}
			items := uint64(0)
			for ; ; items++ {
				if _, err := full.insert(k.next()); err != nil {
					break
				}
			}
			load := float64(items) / (float64(tt.blocks) * float64(g.slots()))
			t.Logf("first full block at a load of %.3f, sized for %.3f", load, g.load(tt.blocks))
			if items < g.capacity(tt.blocks) || load < tt.least {
				t.Errorf("first block full after %d items, load %.3f; want capacity %d, load %.3f",
					items, load, g.capacity(tt.blocks), tt.least)
			}
		})
	}
}

// Inserts write few slots up to the load that layers are sized for. The bounds are a tenth above the measured values.
func TestInserter_writes(t *testing.T) {
	for _, tt := range []struct {
		family block.Family
		most   [3]float64 // slots written for an insert at loads of 0.5, 0.8 and 0.9
	}{
		{block.FamilySlots8, [3]float64{1.01, 1.25, 1.75}},
		{block.FamilySlots12, [3]float64{1.01, 1.25, 1.75}},
		{block.FamilySlots16, [3]float64{1.01, 1.25, 1.75}},
		{block.FamilySlots32, [3]float64{1.01, 1.25, 1.75}},
	} {
		t.Run(fmt.Sprint(tt.family), func(t *testing.T) {
			g := mustGeometry(t, tt.family, 4)
			full := newTable(&g, 50)
			slots := 50 * g.slots()
			k := keys{seed: 8}
			items := 0
			for i, load := range []float64{0.5, 0.8, 0.9} {
				// The last hundredth before the load.
				writes, inserts, most := 0, 0, 0
				for ; items < int(load*float64(slots)); items++ {
					n, err := full.insert(k.next())
					if err != nil {
						t.Fatalf("load %.2f: %v", float64(items)/float64(slots), err)
					}
					if items >= int((load-0.01)*float64(slots)) {
						writes, inserts, most = writes+n, inserts+1, max(most, n)
					}
				}
				mean := float64(writes) / float64(inserts)
				t.Logf("load %.1f: %.3f slots written for an insert, %d at most", load, mean, most)
				if mean > tt.most[i] {
					t.Errorf("load %.1f: %.3f slots written for an insert, want at most %.2f", load, mean, tt.most[i])
				}
			}
		})
	}
}

// A block takes 2b copies of an item. For the next copy it reports that growing does not help, even if it is
// otherwise empty.
func TestInserter_duplicates(t *testing.T) {
	eachBlock(t, func(t *testing.T, g geometry) {
		m := newModel(t, g)
		k := keys{seed: 1}
		p := g.place(k.next(), 1)
		for p.i1 == p.i2 {
			p = g.place(k.next(), 1)
		}
		for range 2 * g.bucketSize {
			if err := m.insert(p, maxMoves); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.insert(p, maxMoves); err != errDuplicates {
			t.Errorf("error is %v with %d copies, want %v", err, m.total, errDuplicates)
		}
		// With one entry of another item among them, which can be moved away.
		m.remove(p)
		other := p
		for other.i2 == p.i1 || other.i2 == p.i2 {
			other.fp = other.fp%uint32(g.fingerprints) + 1
			other.i2 = g.partner(other.i1, other.fp)
		}
		m.g.set(m.words, block.Slot{Index: uint16(m.g.findIn(m.words, p.i1, 0)), Value: other.fp})
		copy(m.shadow, m.words)
		m.counts[other.entry()]++
		m.total++
		if err := m.insert(p, 0); err != errFull {
			t.Errorf("error is %v without moves, want %v", err, errFull)
		}
		if err := m.insert(p, 1); err != nil {
			t.Error(err)
		}
	})
}

// Max iterations bounds the moves of an insert, and the fewest moves are found.
func TestInserter_maxMoves(t *testing.T) {
	g := mustGeometry(t, block.FamilySlots16, 4)
	loads := [3]float64{}
	for i, most := range []int{0, 1, 20} {
		m := newModel(t, g)
		k := keys{seed: 9}
		for m.insert(g.place(k.next(), 1), most) == nil {
		}
		loads[i] = float64(m.total) / float64(g.slots())
	}
	t.Logf("full at loads of %.3f", loads)
	if !(loads[0] < loads[1] && loads[1] < loads[2]) {
		t.Errorf("full at loads of %.3f with up to 0, 1 and 20 moves, want ascending", loads)
	}
}

// Neither a successful nor a failed insert allocates.
func TestInserter_allocations(t *testing.T) {
	g := mustGeometry(t, block.FamilySlots12, 4)
	in := &inserter{g: &g}
	buf := make([]block.Slot, 0, maxMoves+1)
	k := keys{seed: 10}
	words := g.newBlock()
	refused := 0
	n := testing.AllocsPerRun(g.slots()+100, func() {
		if _, err := in.insert(words, g.place(k.next(), 1), maxMoves, buf[:0]); err != nil {
			refused++
		}
	})
	if n != 0 || refused == 0 {
		t.Errorf("%v allocations for an insert, %d refused, want 0 and some", n, refused)
	}
}

// remove removes one copy of the place's fingerprint from a block that no other goroutine uses. It returns the
// emptied slot, or false if there is none.
func (g *geometry) remove(words []uint64, p place) (block.Slot, bool) {
	slot := g.find(words, p)
	if slot < 0 {
		return block.Slot{}, false
	}
	change := block.Slot{Index: uint16(slot)}
	g.set(words, change)
	return change, true
}
