package kv_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sievekv/sievekv/kv"
)

// collectOperands sets bits 0 to 99 of block 1 one by one and has the block queued for folding.
func (s *store) collectOperands(key string) {
	s.t.Helper()
	for bit := range uint16(100) {
		s.set(key, 1, bit)
		s.Drain() // an operand each
	}
	s.forget(key)
	s.has(key, 1, 0)
	if n := s.FoldBacklog(); n != 1 {
		s.t.Fatalf("%d blocks wait for folding, want 1", n)
	}
}

func (s *store) fold() error {
	_, err := s.Fold(context.Background(), 1<<20)
	return err
}

// A block is written whole under the lock of its key: an operand that came
// between the reading and the writing would be lost.
func TestFold_writtenMeanwhile(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	s.collectOperands("k")

	read := s.next("fold: read")
	folding := s.begin(s.fold)
	folding.reaches(read)
	set := func() error {
		w, err := s.Begin(kv.NoSync, []byte("k"))
		if err != nil {
			return err
		}
		o, err := w.Object([]byte("k"))
		if err == nil {
			_, err = w.SetBits(o, o.Layers()[0], 1, []uint16{200})
		}
		if err != nil {
			w.Discard()
			return err
		}
		return w.Commit()
	}
	setting := s.begin(set)
	if s.KeyFree("k") {
		setting.wait() // nothing keeps it from coming between
	}
	read.release()
	folding.wait()
	setting.wait()

	s.forget("k")
	for _, bit := range []uint16{0, 99, 200} {
		if !s.has("k", 1, bit) {
			t.Errorf("bit %d is lost with the folding of its block", bit)
		}
	}
	s.wantConsistent()
}

// Folding makes a block one record again and changes nothing else.
func TestFold(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	s.set("k", 2, 7)
	s.collectOperands("k")
	s.must(s.fold())
	if folds, _, _ := s.MaintenanceStats(); folds != 1 {
		t.Errorf("%d blocks folded, want 1", folds)
	}
	s.wantConsistent()
	s.forget("k")
	for bit := range uint16(101) {
		if s.has("k", 1, bit) != (bit < 100) {
			t.Errorf("bit %d is %t after folding", bit, !(bit < 100))
		}
	}
	if !s.has("k", 2, 7) {
		t.Error("folding a block changed its neighbour")
	}
	if n := s.FoldBacklog(); n != 0 {
		t.Errorf("%d blocks wait for folding just after it", n)
	}
}

// An operand of many items takes as long to read as many operands, and counts as several.
func TestFold_items(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	layout, hashes := itemsOf(rand.New(rand.NewPCG(9, 10)), s.layer("k"), 1, 600)
	for i, part := range [][]uint64{hashes[:300], hashes[300:]} {
		s.must(s.write("k", func(w *kv.Writer, o *kv.Object) error {
			_, _, err := w.SetItems(o, o.Layers()[0], layout, 1, part, make([]bool, len(part)))
			return err
		}))
		s.Drain()
		s.forget("k")
		s.has("k", 1, 0)
		if n := s.FoldBacklog(); n != i {
			t.Fatalf("with %d items in %d operands %d blocks wait for folding, want %d", 300*(i+1), i+1, n, i)
		}
	}
	s.must(s.fold())
	s.forget("k")
	s.has("k", 1, 0)
	if n := s.FoldBacklog(); n != 0 {
		t.Errorf("%d blocks wait for folding just after it", n)
	}
	found := make([]bool, len(hashes))
	s.must(s.write("k", func(w *kv.Writer, o *kv.Object) error {
		return w.HasItems(o, o.Layers()[0], layout, hashes, found)
	}))
	if slices.Contains(found, false) {
		t.Error("items are lost with the folding of their block")
	}
	s.wantConsistent()
}

// A block whose key holds another object by the time its turn comes is left alone.
func TestFold_replaced(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	s.collectOperands("k")
	_, err := s.Delete(kv.NoSync, []byte("k"))
	s.must(err)
	s.must(s.fold())
	s.create("k")
	s.set("k", 1, 300)
	s.must(s.fold())
	if folds, _, _ := s.MaintenanceStats(); folds != 0 {
		t.Errorf("%d blocks of a deleted object were folded", folds)
	}
	s.forget("k")
	if s.has("k", 1, 0) || !s.has("k", 1, 300) {
		t.Error("the block of a new object has bits of the one before")
	}
	s.wantConsistent()
}
