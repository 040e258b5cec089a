package kv_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/memory"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// A type of plain slots. Compacting moves a block of the newest layer to the oldest, and
// takes the layer away when it is empty.
var (
	slotsType = &kv.Type{
		Name: "test-slots", Version: 1, Open: func(o *kv.Object) (any, error) { return o, nil }, Compact: compactSlots,
	}
	slotsModule = module.Module{Name: "slots", Types: []*kv.Type{slotsType}}
)

const slotFamily = block.FamilySlots16

func slotLayer() kv.LayerSpec { return kv.LayerSpec{Blocks: 3, Lines: 128} }

var errCompact = errors.New("the type's own error")

func compactSlots(w *kv.Writer, o *kv.Object, _ int) (more bool, err error) {
	layers := o.Layers()
	oldest, newest := layers[0], layers[len(layers)-1]
	if oldest == newest {
		return false, errCompact
	}
	for blk := range newest.Spec().Blocks {
		words, err := w.Slots(o, newest, blk)
		if err != nil {
			return false, err
		}
		var moved, emptied []block.Slot
		for i := range slotFamily.Slots(128) {
			if v := block.SlotAt(words, slotFamily, i); v != 0 {
				moved = append(moved, block.Slot{Index: uint16(i), Value: v})
				emptied = append(emptied, block.Slot{Index: uint16(i)})
			}
		}
		if len(moved) > 0 {
			return true, errors.Join(w.SetSlots(o, oldest, blk, moved), w.SetSlots(o, newest, blk, emptied))
		}
	}
	_, err = w.Shrink(o)
	return false, err
}

// A small object or layer is removed without a range deletion, because thousands of these make reads slow.
func TestDrop_small(t *testing.T) {
	s := openStore(t, &kv.Options{FS: vfs.NewMem()})
	s.createSlots("k")
	s.must(s.write("k", grow))
	s.must(s.putSlot("k", 0, 0, 1, 1))
	s.must(s.putSlot("k", 1, 0, 1, 1))
	for name, stage := range map[string]func(w *kv.Writer, o *kv.Object) error{
		"Shrink": shrink,
		"Delete": func(w *kv.Writer, _ *kv.Object) error { _, err := w.Delete([]byte("k")); return err },
	} {
		w, err := s.Begin(kv.NoSync, []byte("k"))
		s.must(err)
		o, err := w.Object([]byte("k"))
		s.must(err)
		s.must(stage(w, o))
		if n, err := w.RangeDeletions(); n > 0 || err != nil {
			t.Errorf("%s: %d range deletions, %v, want none", name, n, err)
		}
		w.Discard()
	}
}

// write makes a commit.
func (s *store) write(key string, stage func(w *kv.Writer, o *kv.Object) error) error {
	w, err := s.Begin(kv.NoSync, []byte(key))
	if err != nil {
		return err
	}
	o, err := w.Object([]byte(key))
	if err == nil {
		err = stage(w, o)
	}
	if err != nil {
		w.Discard()
		return err
	}
	return w.Commit()
}

// createSlots makes an object of one layer.
func (s *store) createSlots(key string) {
	s.t.Helper()
	s.must(s.write(key, func(w *kv.Writer, _ *kv.Object) error {
		_, err := w.Create([]byte(key), kv.Spec{Type: slotsType, Family: slotFamily, Layers: []kv.LayerSpec{slotLayer()}})
		return err
	}))
}

func grow(w *kv.Writer, o *kv.Object) error {
	_, err := w.Grow(o, slotLayer())
	return err
}

func shrink(w *kv.Writer, o *kv.Object) error {
	_, err := w.Shrink(o)
	return err
}

// put stages a value of a slot.
func put(w *kv.Writer, o *kv.Object, layer int, blk uint64, i uint16, v uint32) error {
	return w.SetSlots(o, o.Layers()[layer], blk, []block.Slot{{Index: i, Value: v}})
}

// putSlot makes a commit of a value of a slot.
func (s *store) putSlot(key string, layer int, blk uint64, i uint16, v uint32) error {
	return s.write(key, func(w *kv.Writer, o *kv.Object) error { return put(w, o, layer, blk, i, v) })
}

// slotOf looks a slot up.
func slotOf(r kv.Reader, key string, layer int, blk uint64, i int) (uint32, error) {
	o, err := r.Lookup([]byte(key))
	if err != nil || o == nil || layer >= len(o.Layers()) {
		return 0, errors.Join(err, fmt.Errorf("key %q has no layer %d: %v", key, layer, o))
	}
	l := o.Layers()[layer]
	first, err := r.Load(o, l, blk)
	if err != nil {
		return 0, err
	}
	return block.SlotAt(l.Words(first), slotFamily, i), nil
}

// wantSlot checks a slot through a reader, of the store or a transaction.
func (s *store) wantSlot(
	read func(func(kv.Reader) error) error, key string, layer int, blk uint64, i int, want uint32,
) {
	s.t.Helper()
	s.must(read(func(r kv.Reader) error {
		s.t.Helper()
		got, err := slotOf(r, key, layer, blk, i)
		if err == nil && got != want {
			s.t.Errorf("slot %d of block %d of layer %d of %q is %d, want %d", i, blk, layer, key, got, want)
		}
		return err
	}))
}

// exclusive begins a transaction that is rolled back unless it is committed.
func (s *store) exclusive() *kv.Transaction {
	s.t.Helper()
	tx, err := s.BeginExclusive(s.t.Context(), kv.NoSync)
	s.must(err)
	s.t.Cleanup(func() { _ = tx.Rollback() }) // the store may have failed
	return tx
}

// use does something with the writer of a transaction, and refuses it if f does.
func (s *store) use(tx *kv.Transaction, key string, f func(w *kv.Writer, o *kv.Object) error) {
	s.t.Helper()
	err := tx.Write(func(w *kv.Writer) error {
		o, err := w.Object([]byte(key))
		if err != nil {
			return err
		}
		return f(w, o)
	})
	if !errors.Is(err, errRefused) {
		s.must(err)
	}
}

var errRefused = errors.New("refused")

// The version of a block is odd from before Pebble has a commit to it until memory has
// it: one that became odd later would let pass what was read of the disk in between.
func TestSlots_version(t *testing.T) {
	s := openStore(t, inMemory())
	s.createSlots("k")
	s.must(s.putSlot("k", 0, 1, 5, 7))
	o, l := s.object("k"), s.layer("k")
	before, other := o.ChangeAt(l, 1), o.ChangeAt(l, 2)
	started, applied := s.next("commit: started"), s.next("commit: applied")
	putting := s.begin(func() error { return s.putSlot("k", 0, 1, 6, 8) })
	putting.reaches(started)
	if before%2 != 0 || o.ChangeAt(l, 1)%2 != 1 {
		t.Errorf("version is %d, then %d when a commit starts, want an even and an odd one", before, o.ChangeAt(l, 1))
	}
	started.release()
	putting.reaches(applied)
	if o.ChangeAt(l, 1)%2 != 1 {
		t.Errorf("version is %d before memory has the commit, want an odd one", o.ChangeAt(l, 1))
	}
	if o.ChangeAt(l, 2) != other {
		t.Errorf("version of a block not changed is %d, was %d", o.ChangeAt(l, 2), other)
	}
	applied.release()
	putting.wait()
	if v := o.ChangeAt(l, 1); v%2 != 0 || v == before {
		t.Errorf("version is %d after the commit, want an even one other than %d", v, before)
	}
	s.wantConsistent()
}

// A lookup in memory that looks into one slot before an entry is moved there, and into
// the one it comes from after that, knows by the version that it must look again.
func TestSlots_movedMeanwhile(t *testing.T) {
	s := openStore(t, inMemory())
	s.createSlots("k")
	s.must(s.putSlot("k", 0, 1, 3, 7))
	s.wantSlot(s.Read, "k", 0, 1, 3, 7) // brings the block into memory
	o, l := s.object("k"), s.layer("k")
	holds := func(in *memory.SlotSection, i int) bool {
		return block.SlotAt(l.Words(in.Block(l, 1)), slotFamily, i) == 7
	}
	moves := 0
	find := func() bool {
		for {
			in := o.Memory().BeginSlots()
			found := holds(&in, 5)
			if moves++; moves == 1 {
				s.must(s.write("k", func(w *kv.Writer, o *kv.Object) error {
					return errors.Join(put(w, o, 0, 1, 5, 7), put(w, o, 0, 1, 3, 0))
				}))
			}
			found = found || holds(&in, 3)
			if found || in.Valid() {
				return found
			}
		}
	}
	if !find() {
		t.Error("an entry that moves during a lookup is not found")
	}
	s.wantConsistent()
}

// A lookup that does not find its item waits for a commit that is changing its block: an
// entry on its way from bucket to bucket is in none, or in both.
func TestSlots_lookupDuringCommit(t *testing.T) {
	lookups := map[string]func(f *cuckooext.Filter, item string) (copies int, err error){
		"MayContain": func(f *cuckooext.Filter, item string) (int, error) {
			there, err := f.MayContain([]byte(item))
			return map[bool]int{true: 1}[there], err
		},
		"MayContainMany": func(f *cuckooext.Filter, item string) (int, error) {
			there := make([]bool, 2)
			err := f.MayContainMany([][]byte{[]byte("old"), []byte(item)}, there)
			if err == nil && !there[0] {
				err = errors.New("an item that was there before is not found")
			}
			return map[bool]int{true: 1}[there[1]], err
		},
		"Count": func(f *cuckooext.Filter, item string) (int, error) { return f.Count([]byte(item)) },
	}
	for name, lookup := range lookups {
		for _, resident := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, resident %t", name, resident), func(t *testing.T) {
				s := openStore(t, inMemory())
				f := cuckooext.New(s.DB, "f")
				s.must(f.Reserve(cuckooext.Config{Capacity: 1000, ErrorRate: 1e-7}))
				_, err := f.Add([]byte("old"))
				s.must(err)
				if _, err := f.MayContain([]byte("old")); err != nil {
					t.Fatal(err)
				}
				applied, waiting := s.next("commit: applied"), s.next("apply: wanted")
				adding := s.begin(func() error { _, err := f.Add([]byte("new")); return err })
				adding.reaches(applied)
				item, copies := "new", 1 // which memory does not have yet
				if !resident {
					s.forget("f")
					item, copies = "absent", 0
				}
				looking := s.begin(func() error {
					n, err := lookup(f, item)
					if err == nil && n != copies {
						err = fmt.Errorf("%d copies of %q are found after the commit, want %d", n, item, copies)
					}
					return err
				})
				looking.reaches(waiting)
				waiting.release()
				applied.release()
				adding.wait()
				looking.wait()
				s.wantConsistent()
			})
		}
	}
}

// What is to be seen together, and a transaction, is seen by a lookup of several blocks
// as a whole or not at all, be it of a single object.
func TestSlots_seenTogether(t *testing.T) {
	move := func(w *kv.Writer, o *kv.Object) error {
		return errors.Join(put(w, o, 0, 0, 5, 7), put(w, o, 0, 1, 5, 0))
	}
	commits := map[string]func(s *store){
		"together": func(s *store) {
			s.must(s.write("k", func(w *kv.Writer, o *kv.Object) error {
				w.TogetherOnly()
				return move(w, o)
			}))
		},
		"transaction": func(s *store) {
			tx := s.exclusive()
			s.use(tx, "k", move)
			s.must(tx.Commit())
		},
		"compaction": func(s *store) {
			_, err := s.CompactQueued(s.t.Context(), 1<<20)
			s.must(err)
		},
	}
	for name, commit := range commits {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, inMemory())
			s.createSlots("k")
			s.must(s.write("k", grow))
			s.must(s.putSlot("k", 0, 1, 5, 7))
			layer, blk := 0, uint64(1)
			if name == "compaction" {
				s.must(s.putSlot("k", 0, 1, 5, 0))
				s.must(s.putSlot("k", 1, 0, 5, 7))
				layer, blk = 1, 0
				s.QueueCompact([]byte("k"))
			}
			var sum uint32
			begun := false
			s.must(s.Read(func(r kv.Reader) error {
				to, err := slotOf(r, "k", 0, 0, 5)
				if err == nil && !begun {
					begun = true
					commit(s)
				}
				from, err2 := slotOf(r, "k", layer, blk, 5)
				sum = to + from
				return errors.Join(err, err2)
			}))
			if sum != 7 {
				t.Errorf("a lookup during a move of 7 sees %d in both slots together", sum)
			}
			s.wantConsistent()
		})
	}
}

// What a user of a transaction's writer stages and takes back leaves blocks of slots as they were staged before.
func TestSlots_refused(t *testing.T) {
	s := openStore(t, inMemory())
	s.createSlots("k")
	s.must(s.putSlot("k", 0, 0, 1, 1))
	tx := s.exclusive()
	s.use(tx, "k", func(w *kv.Writer, o *kv.Object) error { return put(w, o, 0, 0, 2, 2) })
	s.use(tx, "k", func(w *kv.Writer, o *kv.Object) error {
		words, err := w.Slots(o, o.Layers()[0], 0)
		s.must(err)
		changed := []block.Slot{{Index: 1}, {Index: 2, Value: 20}, {Index: 3, Value: 30}}
		block.SetSlots(words, slotFamily, changed)
		s.must(w.SetSlots(o, o.Layers()[0], 0, changed))
		for blk := range uint64(3) { // one block that was changed before, and others
			s.must(put(w, o, 0, blk, 4, 40))
		}
		return errRefused
	})
	want := func(read func(func(kv.Reader) error) error) {
		t.Helper()
		for i, v := range []uint32{0, 1, 2, 0, 0, 5} {
			s.wantSlot(read, "k", 0, 0, i, v)
		}
		s.wantSlot(read, "k", 0, 1, 4, 0)
	}
	s.use(tx, "k", func(w *kv.Writer, o *kv.Object) error { return put(w, o, 0, 0, 5, 5) })
	want(tx.Read)
	s.must(tx.Commit())
	want(s.Read)
	s.wantConsistent()
	s.forget("k")
	want(s.Read)
}

// A writer that changes more blocks than it may have copies of gives copies up, and goes on
// from what it had staged: in lookups, in changes, in what is taken back, and in a copy.
func TestSlots_manyBlocks(t *testing.T) {
	const blocks = kv.MaxBlockCopies + 100
	s := openStore(t, inMemory())
	s.must(s.write("k", func(w *kv.Writer, _ *kv.Object) error {
		layers := []kv.LayerSpec{{Blocks: blocks, Lines: 128}}
		_, err := w.Create([]byte("k"), kv.Spec{Type: slotsType, Family: slotFamily, Layers: layers})
		return err
	}))
	s.must(s.putSlot("k", 0, 0, 9, 9))
	putAll := func(w *kv.Writer, o *kv.Object, i uint16, v uint32) (err error) {
		for blk := range uint64(blocks) {
			_, lerr := w.Load(o, o.Layers()[0], blk) // makes a copy, if the block has changes
			err = errors.Join(err, lerr, put(w, o, 0, blk, i, v))
		}
		if n := w.BlockCopies(); n == 0 || n > kv.MaxBlockCopies {
			t.Errorf("a writer that changed %d blocks has copies of %d, want 1 to %d", blocks, n, kv.MaxBlockCopies)
		}
		return err
	}
	tx := s.exclusive()
	s.use(tx, "k", func(w *kv.Writer, o *kv.Object) error {
		return errors.Join(put(w, o, 0, 0, 7, 7), putAll(w, o, 1, 1), putAll(w, o, 1, 2), putAll(w, o, 0, 3))
	})
	s.use(tx, "k", func(w *kv.Writer, o *kv.Object) error {
		return errors.Join(put(w, o, 0, 0, 7, 8), putAll(w, o, 2, 4), putAll(w, o, 1, 5), errRefused)
	})
	s.use(tx, "k", func(w *kv.Writer, o *kv.Object) error {
		_, err := w.Copy(context.Background(), []byte("k"), []byte("copy"), false)
		return errors.Join(err, put(w, o, 0, blocks-1, 2, 6))
	})
	want := func(read func(func(kv.Reader) error) error) {
		t.Helper()
		for _, key := range []string{"k", "copy"} {
			for _, blk := range []uint64{0, 1, blocks / 2, blocks - 1} {
				s.wantSlot(read, key, 0, blk, 0, 3)
				s.wantSlot(read, key, 0, blk, 1, 2)
			}
			s.wantSlot(read, key, 0, 0, 2, 0)
			s.wantSlot(read, key, 0, 0, 7, 7)
			s.wantSlot(read, key, 0, 0, 9, 9)
		}
		s.wantSlot(read, "k", 0, blocks-1, 2, 6)
		s.wantSlot(read, "copy", 0, blocks-1, 2, 0)
	}
	want(tx.Read)
	s.must(tx.Commit())
	want(s.Read)
	s.wantConsistent()
	s.forget("k")
	want(s.Read)
}

// A copy made in a transaction has what that has staged, and goes its own way from then.
func TestSlots_copied(t *testing.T) {
	s := openStore(t, inMemory())
	s.createSlots("k")
	s.must(s.putSlot("k", 0, 0, 1, 1))
	s.must(s.putSlot("k", 0, 2, 1, 1))
	tx := s.exclusive()
	s.use(tx, "k", func(w *kv.Writer, o *kv.Object) error {
		return errors.Join(put(w, o, 0, 0, 2, 2), put(w, o, 0, 1, 2, 2))
	})
	s.use(tx, "k", func(w *kv.Writer, _ *kv.Object) error {
		_, err := w.Copy(context.Background(), []byte("k"), []byte("copy"), false)
		return err
	})
	s.use(tx, "copy", func(w *kv.Writer, o *kv.Object) error { return put(w, o, 0, 0, 1, 3) })
	s.use(tx, "k", func(w *kv.Writer, o *kv.Object) error { return put(w, o, 0, 0, 2, 4) })
	want := func(read func(func(kv.Reader) error) error) {
		t.Helper()
		s.wantSlot(read, "k", 0, 0, 1, 1)
		s.wantSlot(read, "k", 0, 0, 2, 4)
		s.wantSlot(read, "copy", 0, 0, 1, 3)
		s.wantSlot(read, "copy", 0, 0, 2, 2)
		s.wantSlot(read, "copy", 0, 1, 2, 2)
		s.wantSlot(read, "copy", 0, 2, 1, 1)
	}
	want(tx.Read)
	s.must(tx.Commit())
	want(s.Read)
	s.wantConsistent()
	s.forget("copy")
	want(s.Read)
}

// A view has slots, and layers, as they were.
func TestSlots_view(t *testing.T) {
	for _, resident := range []bool{true, false} {
		t.Run(fmt.Sprint("resident ", resident), func(t *testing.T) {
			s := openStore(t, inMemory())
			s.createSlots("k")
			s.must(s.write("k", grow))
			s.must(s.putSlot("k", 0, 0, 1, 1))
			s.must(s.putSlot("k", 1, 0, 1, 2))
			s.wantSlot(s.Read, "k", 0, 0, 1, 1)
			if !resident {
				s.forget("k")
			}
			view, err := s.NewView(t.Context())
			s.must(err)
			s.wantSlot(view.Read, "k", 0, 0, 1, 1)
			s.must(s.putSlot("k", 0, 0, 1, 3))
			s.must(s.putSlot("k", 0, 1, 1, 3))
			s.must(s.write("k", shrink))
			s.must(s.write("k", grow))
			s.must(s.putSlot("k", 1, 0, 1, 4))
			s.wantSlot(view.Read, "k", 0, 0, 1, 1)
			s.wantSlot(view.Read, "k", 0, 1, 1, 0)
			s.wantSlot(view.Read, "k", 1, 0, 1, 2)
			view.Rollback()
			s.wantSlot(s.Read, "k", 0, 0, 1, 3)
			s.wantSlot(s.Read, "k", 1, 0, 1, 4)
			s.wantConsistent()
		})
	}
}

// A block of slots is folded as one of bits is: with an operand that comes meanwhile.
func TestFold_slots(t *testing.T) {
	s := openStore(t, inMemory())
	s.createSlots("k")
	for i := range uint32(200) {
		s.must(s.putSlot("k", 0, 1, uint16(i%50), i+1))
		s.Drain() // an operand each
	}
	s.forget("k")
	s.wantSlot(s.Read, "k", 0, 1, 0, 151)
	if n := s.FoldBacklog(); n != 1 {
		t.Fatalf("%d blocks wait for folding, want 1", n)
	}
	read := s.next("fold: read")
	folding := s.begin(s.fold)
	folding.reaches(read)
	putting := s.begin(func() error { return s.putSlot("k", 0, 1, 1, 0) })
	if s.KeyFree("k") {
		putting.wait() // nothing keeps it from coming between
	}
	read.release()
	folding.wait()
	putting.wait()
	if folds, _, _ := s.MaintenanceStats(); folds != 1 {
		t.Errorf("%d blocks folded, want 1", folds)
	}
	s.wantConsistent()
	s.forget("k")
	s.wantSlot(s.Read, "k", 0, 1, 0, 151)
	s.wantSlot(s.Read, "k", 0, 1, 1, 0)
	s.wantSlot(s.Read, "k", 0, 1, 49, 200)
	s.wantConsistent()
}

// Slots are what they were after their block, their object and the store were closed.
func TestSlots_openedAgain(t *testing.T) {
	o := inMemory()
	o.FS = vfs.NewMem()
	s := openStore(t, o)
	s.createSlots("k")
	s.must(s.write("k", grow))
	s.must(s.putSlot("k", 0, 0, 1, 1))
	s.must(s.putSlot("k", 1, 2, 4095, 2))
	want := func(s *store) {
		t.Helper()
		s.wantSlot(s.Read, "k", 0, 0, 1, 1)
		s.wantSlot(s.Read, "k", 1, 2, 4095, 2)
		s.wantSlot(s.Read, "k", 1, 0, 1, 0)
		s.wantConsistent()
	}
	want(s)
	s.forget("k")
	want(s)
	s.closeObject("k")
	want(s)
	s.closeObject("k")
	s.must(s.putSlot("k", 0, 0, 2, 3)) // of a block that is not in memory
	s.wantSlot(s.Read, "k", 0, 0, 2, 3)
	want(s)
	s.must(s.Close())
	again := inMemory()
	again.FS = o.FS
	want(openStore(t, again))
}

// A layer that has the number of one taken away has nothing of that, neither in memory
// nor stored, be they of one commit; nor has a copy of it.
func TestShrink_numberUsedAgain(t *testing.T) {
	commits := map[string]func(s *store){
		"two commits": func(s *store) {
			s.must(s.write("k", shrink))
			s.must(s.write("k", grow))
			s.must(s.putSlot("k", 1, 1, 9, 9))
		},
		"one transaction": func(s *store) {
			tx := s.exclusive()
			s.use(tx, "k", func(w *kv.Writer, o *kv.Object) error { return put(w, o, 1, 2, 8, 8) })
			s.use(tx, "k", shrink)
			s.use(tx, "k", grow)
			s.use(tx, "k", func(w *kv.Writer, o *kv.Object) error {
				if n := w.Counter(o.Layers()[1], 0); n != 0 {
					s.t.Errorf("counter of a new layer is %d", n)
				}
				return put(w, o, 1, 1, 9, 9)
			})
			s.use(tx, "k", func(w *kv.Writer, _ *kv.Object) error {
				_, err := w.Copy(context.Background(), []byte("k"), []byte("copy"), false)
				return err
			})
			s.wantSlot(tx.Read, "k", 1, 0, 5, 0)
			s.wantSlot(tx.Read, "copy", 1, 0, 5, 0)
			s.must(tx.Commit())
		},
	}
	for name, commit := range commits {
		for _, resident := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, resident %t", name, resident), func(t *testing.T) {
				s := openStore(t, inMemory())
				s.createSlots("k")
				s.must(s.write("k", grow))
				number := s.object("k").Layers()[1].Number()
				s.must(s.write("k", func(w *kv.Writer, o *kv.Object) error {
					w.SetCounter(o.Layers()[1], 0, 3)
					return errors.Join(put(w, o, 1, 0, 5, 7), put(w, o, 1, 1, 5, 7), put(w, o, 0, 0, 5, 6))
				}))
				s.wantSlot(s.Read, "k", 1, 0, 5, 7)
				if !resident {
					s.forget("k")
				}
				commit(s)
				if n := s.object("k").Layers()[1].Number(); n != number {
					t.Errorf("the layer has number %d, not that of the one taken away, %d", n, number)
				}
				keys := []string{"k"}
				if name == "one transaction" {
					keys = append(keys, "copy")
				}
				for range 2 {
					for _, key := range keys {
						s.wantSlot(s.Read, key, 0, 0, 5, 6)
						s.wantSlot(s.Read, key, 1, 0, 5, 0)
						s.wantSlot(s.Read, key, 1, 1, 5, 0)
						s.wantSlot(s.Read, key, 1, 1, 9, 9)
						s.wantSlot(s.Read, key, 1, 2, 8, 0)
						if n := s.object(key).Layers()[1].Counter(0); n != 0 {
							t.Errorf("counter of the new layer of %q is %d", key, n)
						}
						s.wantConsistent()
						s.closeObject(key)
					}
				}
			})
		}
	}
}

// A layer whose removal is taken back is there with what was staged before.
func TestShrink_refused(t *testing.T) {
	s := openStore(t, inMemory())
	s.createSlots("k")
	s.must(s.write("k", grow))
	s.must(s.putSlot("k", 1, 0, 5, 7))
	tx := s.exclusive()
	s.use(tx, "k", func(w *kv.Writer, o *kv.Object) error {
		w.SetCounter(o.Layers()[1], 0, 2)
		return put(w, o, 1, 0, 6, 8)
	})
	s.use(tx, "k", func(w *kv.Writer, o *kv.Object) error {
		w.SetCounter(o.Layers()[1], 0, 3)
		return errors.Join(put(w, o, 1, 0, 7, 9), shrink(w, o), errRefused)
	})
	want := func(read func(func(kv.Reader) error) error) {
		t.Helper()
		for i, v := range []uint32{7, 8, 0} {
			s.wantSlot(read, "k", 1, 0, 5+i, v)
		}
	}
	want(tx.Read)
	s.must(tx.Commit())
	want(s.Read)
	if n := s.object("k").Layers()[1].Counter(0); n != 2 {
		t.Errorf("counter is %d, want 2", n)
	}
	s.wantConsistent()
	s.forget("k")
	want(s.Read)
}

// An object always has a layer.
func TestShrink_last(t *testing.T) {
	s := openStore(t, inMemory())
	s.createSlots("k")
	if err := s.write("k", shrink); err == nil {
		t.Error("the only layer of an object was removed")
	}
	s.wantConsistent()
}

// compactAll compacts what is queued, and returns the number of commits.
func (s *store) compactAll() (commits int) {
	s.t.Helper()
	for more := true; more; commits++ {
		var err error
		more, err = s.CompactQueued(s.t.Context(), 1<<20)
		s.must(err)
	}
	return commits
}

// Queued objects are compacted until there is no more to do. Watchers of the key are not told: nothing has changed for
// them.
func TestCompact_queued(t *testing.T) {
	s := openStore(t, inMemory())
	s.createSlots("k")
	s.must(s.write("k", grow))
	for blk := range uint64(3) {
		s.must(s.putSlot("k", 1, blk, uint16(blk), 7))
	}
	watch := s.NewWatch()
	defer watch.Stop()
	s.must(watch.Add([]byte("k")))
	s.QueueCompact([]byte("k"))
	if n := s.compactAll(); n != 4 {
		t.Errorf("%d commits for three blocks and their layer, want 4", n)
	}
	if n := s.Compactions(); n != 4 {
		t.Errorf("%d compactions counted, want 4", n)
	}
	if n := len(s.object("k").Layers()); n != 1 {
		t.Errorf("%d layers are left, want 1", n)
	}
	for blk := range uint64(3) {
		s.wantSlot(s.Read, "k", 0, blk, int(blk), 7)
	}
	s.must(s.Read(func(r kv.Reader) error {
		changed, err := watch.Changed(r)
		if changed {
			t.Error("who watches a key is told that it was compacted")
		}
		return err
	}))
	s.wantConsistent()
}

// Keys that are not there any more, or hold what cannot be compacted, are passed over.
func TestCompact_others(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("bits")
	_, err := s.Set(kv.NoSync, []byte("string"), []byte("v"), kv.SetOptions{})
	s.must(err)
	for _, key := range []string{"bits", "string", "missing"} {
		s.QueueCompact([]byte(key))
	}
	if n := s.compactAll(); n != 1 {
		t.Errorf("%d rounds, want 1", n)
	}
	if n := s.Compactions(); n != 0 {
		t.Errorf("%d compactions of what cannot be compacted", n)
	}
}

// The error of a type is told with the key, once.
func TestCompact_error(t *testing.T) {
	s := openStore(t, inMemory())
	s.createSlots("k")
	s.QueueCompact([]byte("k"))
	if _, err := s.CompactQueued(t.Context(), 1<<20); !errors.Is(err, errCompact) {
		t.Errorf("CompactQueued = %v, want the type's error", err)
	}
	if more, err := s.CompactQueued(t.Context(), 1<<20); more || err != nil {
		t.Errorf("CompactQueued again = %t, %v", more, err)
	}
	s.wantConsistent()
}

// An item that is said to be there was there at one moment: if the block changes while it is
// looked for, halves of two fingerprints may look like one.
func TestSlots_addIfAbsentMeanwhile(t *testing.T) {
	s := openStore(t, inMemory())
	f := cuckooext.New(s.DB, "f")
	s.must(f.Reserve(cuckooext.Config{Capacity: 1000}))
	items := make([]string, 50)
	for i := range items {
		items[i] = fmt.Sprint("item ", i)
		_, err := f.Add([]byte(items[i]))
		s.must(err)
	}
	touched := s.next("touch: begun")
	var item string // the one that is looked for when its lookup is one of those that are counted
	var added bool
	adding := s.begin(func() (err error) {
		for i := 0; err == nil && !touched.wasReached(); i++ {
			item = items[i%len(items)]
			added, err = f.AddIfAbsent([]byte(item))
		}
		return err
	})
	adding.reaches(touched)
	deleted, err := f.Delete([]byte(item))
	s.must(err)
	touched.release()
	adding.wait()
	if !deleted || !added {
		t.Errorf("%s was deleted: %t, and then added: %t", item, deleted, added)
	}
	s.wantConsistent()
}
