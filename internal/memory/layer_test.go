package memory

import (
	"testing"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/residency"
)

// A layer of one block keeps the first that it gets, and none once it is closed: nobody would count it, and no commit change it.
func TestLayer_Install_one(t *testing.T) {
	l := NewLayer(7, format.LayerSpec{Number: 3, Blocks: 1, Lines: 2})
	l.MakeTable()
	first, _ := l.NewBlock()
	second, _ := l.NewBlock()
	if !l.Install(nil, 0, first) || l.InMemory(0) != first {
		t.Error("the first block is not in memory")
	}
	if l.Install(nil, 0, second) || l.InMemory(0) != first {
		t.Error("the second block took the place of the first one")
	}
	if l.Release(nil); l.InMemory(0) != nil {
		t.Error("a layer has a block after it was released")
	}
	l.Install(nil, 0, second)
	if l.Close(); l.InMemory(0) != nil {
		t.Error("a closed layer has a block")
	}
	if l.Install(nil, 0, first); l.InMemory(0) != nil {
		t.Error("a closed layer has got a block")
	}
}

// What a layer of several blocks gets into memory is kept, and counted once: each block, and the part of the table that has it.
// The block of zeros, which all share, takes nothing.
func TestLayer_Install(t *testing.T) {
	r, err := residency.New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, l := object(block.FamilyBits, nil)
	used := func(chunks, blocks int64, when string) {
		t.Helper()
		r.Wait()
		const own = 200 // what the residency takes for each
		if got, want := r.Used(), chunks*(chunkSlots*8+own)+blocks*(l.BlockBytes()+own); got != want {
			t.Errorf("%s: %d bytes are used, want %d", when, got, want)
		}
	}
	first, _ := l.NewBlock()
	second, _ := l.NewBlock()
	if !l.Install(r, 5, ZeroLine) || l.InMemory(5) != ZeroLine {
		t.Error("a block of zeros is not in memory")
	}
	used(1, 0, "a block of zeros")
	if !l.Install(r, 6, first) || l.InMemory(6) != first {
		t.Error("a block is not in memory")
	}
	used(1, 1, "a block beside it")
	if l.Install(r, 6, second) || l.InMemory(6) != first {
		t.Error("another took its place")
	}
	used(1, 1, "a block that is there already")
	if !l.Install(r, 99, second) || l.InMemory(99) != second {
		t.Error("a block in another part of the table is not in memory")
	}
	used(2, 2, "a block in another part of the table")
	l.Release(r)
	used(0, 0, "after all were released")
	for _, blk := range []uint64{5, 6, 99} {
		if l.InMemory(blk) != nil {
			t.Errorf("block %d is still in memory", blk)
		}
	}
}

// A block takes the place of the shared one of zeros, and is counted. It takes the place of no other block, and nothing counts
// what a layer of one block keeps, or what left memory.
func TestLayer_ReplaceZero(t *testing.T) {
	r, err := residency.New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, l := object(block.FamilyBits, nil)
	one := NewLayer(7, format.LayerSpec{Number: 4, Blocks: 1, Lines: 128})
	one.MakeTable()
	some, _ := l.NewBlock()
	other, _ := l.NewBlock()
	for _, tt := range []struct {
		name               string
		layer              *Layer
		before, put, after *Line
		counted            bool
	}{
		{"a block for zeros", l, ZeroLine, some, some, true},
		{"nothing for zeros", l, ZeroLine, nil, nil, false},
		{"a block for another", l, other, some, other, false},
		{"a block for nothing", l, nil, some, nil, false},
		{"the block of a layer", one, ZeroLine, some, some, false},
	} {
		if tt.layer == l && !l.Install(r, 5, ZeroLine) { // makes the part of the table
			t.Fatal("a block of zeros is not in memory")
		}
		s := tt.layer.Slot(5 % tt.layer.Spec().Blocks)
		s.Store(tt.before)
		r.Wait()
		before := r.Used()
		tt.layer.ReplaceZero(r, 5, s, tt.put)
		r.Wait()
		if got := s.Load(); got != tt.after {
			t.Errorf("%s: another block is in memory", tt.name)
		}
		if counted := r.Used() > before; counted != tt.counted {
			t.Errorf("%s: counted is %t, want %t", tt.name, counted, tt.counted)
		}
		if tt.counted {
			r.Remove(l.Key(5), blockInMemory{s, tt.put})
		}
		s.Store(nil)
	}
}
