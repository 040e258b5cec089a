package kv_test

import (
	"fmt"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/block"
)

// A view does not show an item that is added while it copies the item's block, be it under
// the filter's key or under one that it is renamed to.
func TestView_committedMeanwhile(t *testing.T) {
	for _, key := range []string{"f", "g"} {
		t.Run(key, func(t *testing.T) { testViewCommittedMeanwhile(t, key) })
	}
}

func testViewCommittedMeanwhile(t *testing.T, key string) {
	db, during := openInterrupted(t, "view: found")
	f := newFilter(t, db, "f")
	if _, err := f.AddString("before"); err != nil {
		t.Fatal(err)
	}
	view, err := db.NewView(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	added := false
	*during = func() {
		added = true
		if err := db.Rename(kv.NoSync, []byte("f"), []byte(key)); err != nil {
			t.Error(err)
		}
		if _, err := bloomext.New(db, key).AddString("meanwhile"); err != nil {
			t.Error(err)
		}
	}
	if ok, err := f.In(view).MayContainString("meanwhile"); ok || err != nil {
		t.Errorf("the view has an item that was added after it: %v, %v", ok, err)
	}
	if ok, err := f.In(view).MayContainString("before"); !ok || err != nil {
		t.Errorf("the view has the item that was there: %v, %v", ok, err)
	}
	if !added {
		t.Error("the view did not look at the block in memory")
	}
	view.Rollback()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// What a view keeps is bounded by bytes, however long keys are and however large objects.
func TestView_bounded(t *testing.T) {
	s := openStore(t, inMemory())
	large := kv.Spec{Type: bitsType, Family: block.FamilyBits, Layers: []kv.LayerSpec{{Blocks: 1 << 20, Lines: 128}}}
	for i := range 100 {
		key := fmt.Appendf(nil, "k%d", i)
		s.must(s.Write(kv.NoSync, [][]byte{key}, func(w *kv.Writer) error {
			_, err := w.Create(key, large)
			return err
		}))
	}
	s.set("k5", 5, 7)
	tx, err := s.NewView(t.Context())
	s.must(err)
	defer tx.Rollback()
	var first *kv.Line
	lookup := func(key []byte) (o *kv.Object) {
		s.must(tx.Read(func(r kv.Reader) (err error) {
			if o, err = r.Lookup(key); o != nil {
				first, err = r.Load(o, o.Layers()[0], 5)
			}
			return err
		}))
		if n := tx.SnapshotBytes(); n > kv.MaxSnapshotObjects {
			t.Fatalf("a view keeps %d bytes of keys and objects, at most %d", n, kv.MaxSnapshotObjects)
		}
		return o
	}
	o := lookup([]byte("k5"))
	if o == nil || lookup([]byte("k5")) != o {
		t.Error("a view does not find an object again without reading it")
	}
	kept := first
	for i := range 100 {
		lookup(fmt.Appendf(nil, "k%d", i))
	}
	for i := range 100 {
		lookup(fmt.Appendf(nil, "%060000d", i))
	}
	if lookup([]byte("k5")) == nil {
		t.Error("a view does not find an object that it does not keep")
	}
	if first != kept {
		t.Error("a view reads a block again whose object it has read again")
	}
}
