package kv_test

import (
	"testing"

	"github.com/sievekv/sievekv/kv"
)

// What may have something in it is stored, pending, or changed by the writer itself.
func TestNextBlock(t *testing.T) {
	s := openStore(t, inMemory())
	s.must(s.write("k", func(w *kv.Writer, _ *kv.Object) error {
		first, second := slotLayer(), slotLayer()
		first.Blocks, second.Number = 1<<20, 1
		_, err := w.Create([]byte("k"), kv.Spec{Type: slotsType, Family: slotFamily, Layers: []kv.LayerSpec{first, second}})
		return err
	}))
	next := func(w *kv.Writer, o *kv.Object, from, want uint64) {
		t.Helper()
		if got, err := w.NextBlock(o, o.Layers()[0], from); got != want || err != nil {
			t.Errorf("behind %d comes %d, %v, want %d", from, got, err, want)
		}
	}
	s.must(s.write("k", func(w *kv.Writer, o *kv.Object) error {
		next(w, o, 0, 1<<20)
		return nil
	}))
	s.must(s.putSlot("k", 0, 7, 1, 1))
	s.must(s.putSlot("k", 0, 1<<20-1, 1, 1))
	s.must(s.putSlot("k", 1, 2, 1, 1)) // of another layer
	tx := s.exclusive()
	s.use(tx, "k", func(w *kv.Writer, o *kv.Object) error {
		next(w, o, 0, 7)
		next(w, o, 7, 7)
		next(w, o, 8, 1<<20-1)
		next(w, o, 1<<20, 1<<20)
		s.must(put(w, o, 0, 5, 1, 1))
		s.must(put(w, o, 0, 900, 1, 1))
		s.must(put(w, o, 1, 1, 1, 1))
		next(w, o, 0, 5)
		next(w, o, 6, 7)
		next(w, o, 8, 900)
		next(w, o, 901, 1<<20-1)
		return nil
	})
	s.must(tx.Commit())
	// A layer that has the number of one that this writer has removed has nothing of that.
	s.must(s.write("k", func(w *kv.Writer, o *kv.Object) error {
		s.must(shrink(w, o))
		o, err := w.Object([]byte("k"))
		s.must(err)
		s.must(grow(w, o))
		o, err = w.Object([]byte("k"))
		s.must(err)
		newest := o.Layers()[1]
		if got, err := w.NextBlock(o, newest, 0); got != 3 || newest.Number() != 1 || err != nil {
			t.Errorf("layer %d has something in block %d, %v", newest.Number(), got, err)
		}
		return nil
	}))
}
