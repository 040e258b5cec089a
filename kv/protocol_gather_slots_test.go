package kv_test

import (
	"errors"
	"testing"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/kv"
)

// A block of slots that is read has what is gathered, before it is put into Pebble, while it is, and after. The last
// value of a slot counts.
func TestGather_slots(t *testing.T) {
	s := openGathered(t)
	s.createSlots("k")
	s.must(s.putSlot("k", 0, 0, 1, 1))
	s.must(s.putSlot("k", 0, 0, 1, 2))
	s.must(s.putSlot("k", 0, 2, 9, 9))
	s.wantGathered(3)
	look := func(want uint32) {
		t.Helper()
		s.wantSlot(s.Read, "k", 0, 0, 1, want) // as memory has it
		s.forget("k")
		s.wantSlot(s.Read, "k", 0, 0, 1, want)
		s.wantSlot(s.Read, "k", 0, 2, 9, 9)
		s.wantSlot(s.Read, "k", 0, 1, 1, 0)
	}
	look(2)
	draining, taken := s.holdDrain()
	look(2)
	s.must(s.putSlot("k", 0, 0, 1, 3))
	look(3)
	taken.release()
	draining.wait()
	s.wantGathered(1)
	look(3)
	s.Drain()
	look(3)
	s.wantConsistent()
}

// A commit that changes many slots is gathered, too.
func TestGather_slotsMany(t *testing.T) {
	s := openGathered(t)
	s.createSlots("k")
	put := func(blk uint64, n int) {
		t.Helper()
		slots := make([]block.Slot, n)
		for i := range slots {
			slots[i] = block.Slot{Index: uint16(i), Value: 7}
		}
		s.must(s.write("k", func(w *kv.Writer, o *kv.Object) error { return w.SetSlots(o, o.Layers()[0], blk, slots) }))
	}
	put(0, 1)
	s.wantGathered(1)
	put(1, 500)
	s.wantGathered(2)
	s.wantSlot(s.Read, "k", 0, 0, 0, 7)
	s.wantSlot(s.Read, "k", 0, 1, 499, 7)
	s.wantConsistent()
}

// A commit that only looks at slots and sets nothing is none, and one that fails is none either.
func TestGather_slotsNothing(t *testing.T) {
	s := openGathered(t)
	s.createSlots("k")
	s.Drain()
	s.must(s.write("k", func(w *kv.Writer, o *kv.Object) error {
		_, err := w.Slots(o, o.Layers()[0], 1)
		return err
	}))
	s.wantGathered(0)
	failed := errors.New("the caller's own error")
	err := s.write("k", func(w *kv.Writer, o *kv.Object) error {
		return errors.Join(w.SetSlots(o, o.Layers()[0], 1, []block.Slot{{Index: 1, Value: 1}}), failed)
	})
	if !errors.Is(err, failed) {
		t.Errorf("a change that fails: %v", err)
	}
	s.wantGathered(0)
	s.wantSlot(s.Read, "k", 0, 1, 1, 0)
	s.wantConsistent()
}
