package kv_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/kv"
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
	if _, err := f.Add([]byte("before")); err != nil {
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
		if _, err := bloomext.New(db, key).Add([]byte("meanwhile")); err != nil {
			t.Error(err)
		}
	}
	if ok, err := f.In(view).MayContain([]byte("meanwhile")); ok || err != nil {
		t.Errorf("the view has an item that was added after it: %v, %v", ok, err)
	}
	if ok, err := f.In(view).MayContain([]byte("before")); !ok || err != nil {
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

// A view does not take a block that was loaded while a commit was in Pebble, and its number not yet in memory.
func TestView_loadedDuringCommit(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	var committing *task
	applied := s.next("commit: applied")
	s.must(s.ReadWith(kv.ReadOptions{Long: true}, func(r kv.Reader) error {
		if committing == nil {
			w := s.stage(kv.Always, "k", 1, 5)
			s.EvictBlock(s.layer("k"), 1)
			committing = s.begin(w.Commit)
			committing.reaches(applied)
			if !s.has("k", 1, 5) { // brings the block into memory
				t.Error("a bit that Pebble has is not found")
			}
		}
		o, err := r.Lookup([]byte("k"))
		if err != nil {
			return err
		}
		first, err := r.Load(o, o.Layers()[0], 1)
		if err == nil && atomic.LoadUint64(&first[0])>>5&1 != 0 {
			t.Error("a view has a bit of a later commit")
		}
		return err
	}))
	applied.release()
	committing.wait()
	s.wantConsistent()
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
	s.set("k5", 5, 8) // the view reads the block from disk
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

// A view uses the blocks in memory that no commit has changed since, also if commits have changed other blocks of the
// filter, and reads the others as they were: whether a small commit has changed them or a large one, and also if the
// filter has been closed and opened since.
func TestView_blocks(t *testing.T) {
	s := openStore(t, inMemory())
	s.must(s.Write(kv.NoSync, [][]byte{[]byte("k")}, func(w *kv.Writer) error {
		layers := []kv.LayerSpec{{Blocks: 7, Lines: 128}}
		_, err := w.Create([]byte("k"), kv.Spec{Type: bitsType, Family: block.FamilyBits, Layers: layers})
		return err
	}))
	s.set("k", 5, 1)
	s.set("k", 6, 1)
	tx, err := s.NewView(t.Context())
	s.must(err)
	defer tx.Rollback()
	want := func(read int, bits ...uint64) {
		t.Helper()
		for blk, word := range bits {
			s.must(tx.Read(func(r kv.Reader) error {
				o, err := r.Lookup([]byte("k"))
				s.must(err)
				first, err := r.Load(o, o.Layers()[0], uint64(blk))
				if got := atomic.LoadUint64(&first[0]); err == nil && got != word {
					t.Errorf("block %d begins with %b, want %b", blk, got, word)
				}
				return err
			}))
		}
		if n := tx.SnapshotBlocks(); n != read {
			t.Errorf("the view has read %d blocks, want %d", n, read)
		}
	}
	inMemory := func() {
		t.Helper()
		for blk := range uint64(7) {
			s.has("k", blk, 0)
		}
	}
	inMemory()
	want(0, 0, 0, 0, 0, 0, 2, 2)
	s.set("k", 5, 2) // a small commit
	want(1, 0, 0, 0, 0, 0, 2, 2)
	s.must(s.stage(kv.Always, "k", 6, 2).Commit())
	s.must(s.stage(kv.Always, "k", 4, 2).Commit()) // a block of zeros before
	want(3, 0, 0, 0, 0, 0, 2, 2)
	s.set("k", 3, 2)
	s.closeObject("k")
	inMemory()
	want(7, 0, 0, 0, 0, 0, 2, 2)
}

// A view does not take a layer for one that had its number before.
func TestView_numberUsedAgain(t *testing.T) {
	s := openStore(t, inMemory())
	s.createSlots("k")
	s.must(s.write("k", grow))
	s.must(s.putSlot("k", 1, 0, 0, 7))
	tx, err := s.NewView(t.Context())
	s.must(err)
	defer tx.Rollback()
	s.must(s.write("k", shrink))
	s.must(s.write("k", grow))
	s.wantSlot(s.Read, "k", 1, 0, 0, 0) // the block is in memory now
	s.wantSlot(tx.Read, "k", 1, 0, 0, 7)
}

// A smaller layer may have the number of a layer by now.
func TestView_smallerLayer(t *testing.T) {
	s := openStore(t, inMemory())
	s.createSlots("k")
	grow := func(blocks uint64) {
		t.Helper()
		s.must(s.write("k", func(w *kv.Writer, o *kv.Object) error {
			_, err := w.Grow(o, kv.LayerSpec{Blocks: blocks, Lines: 128})
			return err
		}))
	}
	grow(300)
	s.must(s.putSlot("k", 1, 299, 0, 7))
	tx, err := s.NewView(t.Context())
	s.must(err)
	defer tx.Rollback()
	s.must(s.write("k", shrink))
	grow(3)
	s.wantSlot(tx.Read, "k", 1, 299, 0, 7)
}

// A view whose lookup has panicked has forgotten the blocks of that lookup, and remembers a bounded number of blocks.
func TestView_borrowed(t *testing.T) {
	s := openStore(t, inMemory())
	s.must(s.Write(kv.NoSync, [][]byte{[]byte("k")}, func(w *kv.Writer) error {
		layers := []kv.LayerSpec{{Blocks: 7, Lines: 128}}
		_, err := w.Create([]byte("k"), kv.Spec{Type: bitsType, Family: block.FamilyBits, Layers: layers})
		return err
	}))
	for _, blk := range []uint64{0, 5} {
		s.set("k", blk, 1)
		s.has("k", blk, 1)
	}
	tx, err := s.NewView(t.Context())
	s.must(err)
	defer tx.Rollback()
	most := 0
	look := func(r kv.Reader) {
		o, err := r.Lookup([]byte("k"))
		s.must(err)
		for i := range 20_000 {
			_, err = r.Load(o, o.Layers()[0], uint64(i%2*5))
			s.must(err)
			most = max(most, tx.BorrowedBlocks())
		}
	}
	func() {
		defer func() { _ = recover() }()
		_ = tx.Read(func(r kv.Reader) error { look(r); panic("on purpose") })
	}()
	if most == 0 || most > 10_000 {
		t.Errorf("a lookup remembered up to %d blocks", most)
	}
	s.set("k", 5, 2)
	runs := 0
	s.must(tx.Read(func(kv.Reader) error { runs++; return nil }))
	if runs != 1 {
		t.Errorf("a lookup of no block ran %d times", runs)
	}
}
