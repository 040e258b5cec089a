package kv_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/kv"
)

// manyStaged opens a store that takes large commits.
func manyStaged(t *testing.T) *store {
	o := inMemory()
	o.MemTableSize = 256 << 20
	return openStore(t, o)
}

// What a step of a transaction takes does not depend on how much is staged: nothing is looked
// for among the rest, neither at the step nor when it is refused or committed.
func TestStaged_steps(t *testing.T) {
	const n, most = 5000, 40 // a few searches among 16
	large := kv.LayerSpec{Blocks: 1 << 20, Lines: 128}
	create := func(w *kv.Writer, key string, typ *kv.Type, family block.Family, l kv.LayerSpec) (*kv.Object, error) {
		return w.Create([]byte(key), kv.Spec{Type: typ, Family: family, Layers: []kv.LayerSpec{l}})
	}
	key := func(i int) []byte { return fmt.Appendf(nil, "k%d", i) }
	var one *kv.Object
	steps := map[string]struct {
		begin func(w *kv.Writer) error
		step  func(w *kv.Writer, i int) error
	}{
		"bits": {
			func(w *kv.Writer) (err error) {
				one, err = create(w, "bits", bitsType, block.FamilyBits, large)
				return err
			},
			func(w *kv.Writer, i int) error {
				l, blk := one.Layers()[0], uint64(i)
				_, err := w.SetBits(one, l, blk, []uint16{1, 2, 3})
				w.SetCounter(l, 0, w.Counter(l, 0)+1)
				there, err2 := w.HasBits(one, l, blk, []uint16{1, 2, 3})
				if !there {
					err2 = errors.Join(err2, errors.New("staged bits are not found"))
				}
				_, err3 := w.Load(one, l, blk/2)
				return errors.Join(err, err2, err3)
			},
		},
		"slots": {
			func(w *kv.Writer) (err error) {
				one, err = create(w, "slots", slotsType, slotFamily, large)
				return err
			},
			func(w *kv.Writer, i int) error {
				l := one.Layers()[0]
				taken, err := w.Load(one, l, n) // what is put there is refused each time
				if err == nil && block.SlotAt(l.Words(taken), slotFamily, 5) != 0 {
					err = errors.New("a slot has what was refused")
				}
				return errors.Join(err, put(w, one, 0, uint64(i), 5, 7))
			},
		},
		"objects": {
			func(*kv.Writer) error { return nil },
			func(w *kv.Writer, i int) error {
				o, err := create(w, string(key(i)), bitsType, block.FamilyBits, kv.LayerSpec{Blocks: 2, Lines: 1})
				if err != nil {
					return err
				}
				_, err = w.SetBits(o, o.Layers()[0], 1, []uint16{1})
				w.SetCounter(o.Layers()[0], 0, 1)
				return err
			},
		},
		"deletions": {
			func(w *kv.Writer) error {
				for i := range n + 1 {
					o, err := create(w, string(key(i)), bitsType, block.FamilyBits, kv.LayerSpec{Blocks: 2, Lines: 1})
					if err == nil {
						_, err = w.SetBits(o, o.Layers()[0], 1, []uint16{1})
					}
					if err != nil {
						return err
					}
				}
				return nil
			},
			func(w *kv.Writer, i int) error {
				_, err := w.Delete(key(i))
				return err
			},
		},
		"strings": {
			func(*kv.Writer) error { return nil },
			func(w *kv.Writer, i int) error {
				_, err := w.Set(key(i), []byte("value"), kv.SetOptions{})
				return err
			},
		},
	}
	for name, tt := range steps {
		t.Run(name, func(t *testing.T) {
			s := manyStaged(t)
			tx := s.exclusive()
			s.use(tx, "other", func(w *kv.Writer, _ *kv.Object) error { return tt.begin(w) })
			for i := range n {
				before := tx.Steps()
				if i%10 == 9 { // and what is refused
					s.use(tx, "other", func(w *kv.Writer, _ *kv.Object) error { return errors.Join(tt.step(w, n), errRefused) })
				}
				s.use(tx, "other", func(w *kv.Writer, _ *kv.Object) error { return tt.step(w, i) })
				if took := tx.Steps() - before; took > 4*most {
					t.Fatalf("with %d staged a step looks at %d things", i, took)
				}
			}
			before := tx.Steps()
			s.must(tx.Commit())
			if took := tx.Steps() - before; took > most*n {
				t.Errorf("the commit of %d looks at %d things", n, took)
			}
			s.wantConsistent()
		})
	}
}

// A use of a transaction may be refused: nothing of it is left, whatever it was and whatever
// was staged before and after. Of two stores one has uses refused that the other never sees.
func TestStaged_refused(t *testing.T) {
	const seed = 13
	for round := range 30 {
		rng := rand.New(rand.NewPCG(seed, uint64(round)))
		with, without := openStore(t, inMemory()), openStore(t, inMemory())
		for range 3 {
			a, b := with.exclusive(), without.exclusive()
			for range 1 + rng.IntN(60) {
				use := randomUse(rng)
				if rng.IntN(2) == 0 {
					with.use(a, "other", func(w *kv.Writer, _ *kv.Object) error { return errors.Join(use(w), errRefused) })
					continue
				}
				with.use(a, "other", func(w *kv.Writer, _ *kv.Object) error { return use(w) })
				without.use(b, "other", func(w *kv.Writer, _ *kv.Object) error { return use(w) })
			}
			if got, want := with.contents(a.Read), without.contents(b.Read); !slices.Equal(got, want) {
				t.Fatalf("round %d: with uses refused the transaction sees %q, without them %q", round, got, want)
			}
			with.must(a.Commit())
			without.must(b.Commit())
			if got, want := with.contents(with.Read), without.contents(without.Read); !slices.Equal(got, want) {
				t.Fatalf("round %d: after uses refused there is %q, without them %q", round, got, want)
			}
			with.wantConsistent()
		}
		with.must(with.Close())
		without.must(without.Close())
	}
}

// randomUse returns a use of a transaction that makes some changes, the same each time.
func randomUse(rng *rand.Rand) func(w *kv.Writer) error {
	seed := rng.Uint64()
	return func(w *kv.Writer) error {
		rng := rand.New(rand.NewPCG(seed, 0))
		for range 1 + rng.IntN(4) {
			if err := randomChange(w, rng); err != nil {
				return err
			}
		}
		return nil
	}
}

var randomKeys = []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"}

// randomChange stages one change of a key of a few.
func randomChange(w *kv.Writer, rng *rand.Rand) error {
	key := []byte(randomKeys[rng.IntN(len(randomKeys))])
	other := []byte(randomKeys[rng.IntN(len(randomKeys))])
	o, err := w.Object(key)
	if err != nil {
		return err
	}
	switch what := rng.IntN(40); {
	case what == 0 && rng.IntN(8) == 0:
		w.DeleteEverything()
		return nil
	case what < 3:
		_, err = w.Delete(key)
		return err
	case what < 6:
		_, err = w.Set(key, fmt.Append(nil, rng.Uint32()), kv.SetOptions{})
		return err
	case o == nil || len(o.Layers()) == 0 || what < 8:
		spec := bitsSpec()
		if rng.IntN(2) == 0 {
			spec = kv.Spec{Type: slotsType, Family: slotFamily, Layers: []kv.LayerSpec{slotLayer()}}
		}
		_, err = w.Create(key, spec)
		return err
	case what < 11:
		return w.Rename(key, other)
	case what < 13:
		_, err = w.Copy(context.Background(), key, other, true)
		return err
	case what < 16 && len(o.Layers()) < 4:
		_, err = w.Grow(o, o.Layers()[0].Spec())
		return err
	case what < 19 && len(o.Layers()) > 1:
		_, err = w.Shrink(o)
		return err
	case what < 21:
		_, err = w.Expire(key, 1<<50+int64(rng.IntN(1000)), kv.ExpireAlways)
		return err
	case what < 24:
		w.SetAttribute(o, "attribute", fmt.Append(nil, rng.Uint32()))
		return nil
	}
	l := o.Layers()[rng.IntN(len(o.Layers()))]
	w.SetCounter(l, rng.IntN(3), uint64(rng.IntN(100)))
	blk := rng.Uint64N(l.Spec().Blocks)
	if o.Family() == block.FamilyBits && rng.IntN(2) == 0 {
		layout, hashes := itemsOf(rng, l, blk, rng.IntN(400))
		_, _, err = w.SetItems(o, l, layout, blk, hashes, make([]bool, len(hashes)))
		return err
	}
	if o.Family() == block.FamilyBits {
		positions := make([]uint16, rng.IntN(2500)) // a block with more than 2048 is kept in another way
		for i := range positions {
			positions[i] = uint16(rng.IntN(1 << 16))
		}
		slices.Sort(positions)
		_, err = w.SetBits(o, l, blk, slices.Compact(positions))
		return err
	}
	for range 1 + rng.IntN(40) {
		slot := block.Slot{Index: uint16(rng.IntN(60)), Value: uint32(rng.IntN(1 << 16))}
		if err := w.SetSlots(o, l, blk, []block.Slot{slot}); err != nil {
			return err
		}
	}
	return nil
}

// contents are the keys, and what is in them.
func (s *store) contents(read func(func(kv.Reader) error) error) []string {
	s.t.Helper()
	return s.contentsOf(read, randomKeys...)
}

func (s *store) contentsOf(read func(func(kv.Reader) error) error, keys ...string) (list []string) {
	s.t.Helper()
	s.must(read(func(r kv.Reader) error {
		list = nil
		for _, key := range keys {
			o, err := r.Lookup([]byte(key))
			if err != nil {
				return err
			}
			if o == nil {
				continue
			}
			text := fmt.Sprint(key, " ", o.TypeName(), " ", o.Expiry())
			if len(o.Layers()) == 0 {
				value, err := r.Get([]byte(key))
				if err != nil {
					return err
				}
				text += " " + string(value)
			}
			for _, l := range o.Layers() {
				text += fmt.Sprint(" ", l.Number(), " ", r.Counter(l, 0), r.Counter(l, 1), r.Counter(l, 2))
				for blk := range l.Spec().Blocks {
					first, err := r.Load(o, l, blk)
					if err != nil {
						return err
					}
					sum := uint64(0)
					for i, word := range l.Words(first) {
						sum += word * (2*uint64(i) + 1)
					}
					text += fmt.Sprintf(" %x", sum)
				}
			}
			list = append(list, text)
		}
		return nil
	}))
	return list
}

// A layer that is removed and one that has its number then are told apart, be it among many.
func TestStaged_numberUsedAgain(t *testing.T) {
	s := openStore(t, inMemory())
	tx := s.exclusive()
	for i := range 40 {
		key := fmt.Appendf(nil, "k%d", i)
		s.use(tx, "other", func(w *kv.Writer, _ *kv.Object) error {
			o, err := w.Create(key, kv.Spec{
				Type: slotsType, Family: slotFamily, Layers: []kv.LayerSpec{{Blocks: 3, Lines: 128}, {Number: 1, Blocks: 3, Lines: 128}},
			})
			return errors.Join(err, put(w, o, 1, 0, 5, 7))
		})
		s.use(tx, string(key), func(w *kv.Writer, o *kv.Object) error {
			o, err := w.Shrink(o)
			if err == nil {
				o, err = w.Grow(o, slotLayer())
			}
			return errors.Join(err, put(w, o, 1, 0, 6, 8))
		})
		s.wantSlot(tx.Read, string(key), 1, 0, 5, 0)
		s.wantSlot(tx.Read, string(key), 1, 0, 6, 8)
	}
	s.must(tx.Commit())
	for i := range 40 {
		s.wantSlot(s.Read, fmt.Sprint("k", i), 1, 0, 5, 0)
		s.wantSlot(s.Read, fmt.Sprint("k", i), 1, 0, 6, 8)
	}
	s.wantConsistent()
}

// A second use of a transaction that changes the slots that the first changed takes no more
// memory: there is no copy of each block to go back to.
func TestStaged_slotsTwice(t *testing.T) {
	const blocks = 4 * kv.MaxBlockCopies // 32 MiB
	s := manyStaged(t)
	s.must(s.write("k", func(w *kv.Writer, _ *kv.Object) error {
		_, err := w.Create([]byte("k"), kv.Spec{
			Type: slotsType, Family: slotFamily, Layers: []kv.LayerSpec{{Blocks: blocks, Lines: 128}},
		})
		return err
	}))
	tx := s.exclusive()
	before := liveHeap()
	change := func(v uint32) func(w *kv.Writer, o *kv.Object) error {
		return func(w *kv.Writer, o *kv.Object) error {
			for blk := range uint64(blocks) {
				_, err := w.Slots(o, o.Layers()[0], blk) // makes a copy
				if err := errors.Join(err, put(w, o, 0, blk, 5, v)); err != nil {
					return err
				}
			}
			if n := w.BlockCopies(); n > kv.MaxBlockCopies {
				t.Errorf("the writer has copies of %d blocks, at most %d", n, kv.MaxBlockCopies)
			}
			if v == 0 {
				return nil
			}
			if took, most := liveHeap()-before, int64(kv.MaxBlockCopies*(8<<10)+8<<20); took > most {
				t.Errorf("%d blocks of slots staged twice take %d bytes, at most %d", blocks, took, most)
			}
			return errRefused
		}
	}
	s.use(tx, "k", change(0))
	s.use(tx, "k", change(7))
	s.wantSlot(tx.Read, "k", 0, 3, 5, 0)
	s.must(tx.Commit())
}

// liveHeap returns the bytes that are in use. They may become fewer, as what other tests left behind is collected.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Of a slot that is set again and again no more is noted than its value.
func TestStaged_slotAgain(t *testing.T) {
	s := openStore(t, inMemory())
	s.createSlots("k")
	tx := s.exclusive()
	for i := range 1000 {
		s.use(tx, "k", func(w *kv.Writer, o *kv.Object) error {
			err := errors.Join(put(w, o, 0, 1, 5, uint32(i)), put(w, o, 0, 1, uint16(i%20), uint32(i)))
			if n := w.LongestLog(); n > 200 {
				return fmt.Errorf("%d values are noted of 20 slots", n)
			}
			return err
		})
	}
	s.wantSlot(tx.Read, "k", 0, 1, 6, 986)
	s.must(tx.Commit())
	s.wantSlot(s.Read, "k", 0, 1, 5, 999)
	s.wantConsistent()
}

// A transaction that was refused once for what it staged commits nothing, also not the rest.
func TestStaged_tooLargeOnce(t *testing.T) {
	o := inMemory()
	o.MemTableSize = 1 << 20
	s := openStore(t, o)
	tx := s.exclusive()
	set := func(n int) error {
		return tx.Write(func(w *kv.Writer) error {
			for i := range n {
				if _, err := w.Set(fmt.Appendf(nil, "k%d", i), make([]byte, 1000), kv.SetOptions{}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	s.must(set(1))
	for _, n := range []int{1000, 1} {
		if err := set(n); !errors.Is(err, kv.ErrTooLarge) {
			t.Errorf("%d strings of 1000 bytes are answered by %v", n, err)
		}
	}
	if err := tx.Commit(); !errors.Is(err, kv.ErrTooLarge) {
		t.Errorf("the commit is answered by %v", err)
	}
	if n, err := s.Size(); n != 0 || err != nil {
		t.Errorf("%d keys are there, %v", n, err)
	}
}

// What a transaction has staged of objects that it then removes is not kept.
func TestStaged_removedAgain(t *testing.T) {
	const rounds, blocks = 200, 40
	o := inMemory()
	o.MemTableSize = 2 << 20
	s := openStore(t, o)
	tx := s.exclusive()
	spread := make([]uint16, 3000)
	for i := range spread {
		spread[i] = uint16(21 * i)
	}
	stage := func(key string, typ *kv.Type, family block.Family) {
		s.use(tx, "other", func(w *kv.Writer, _ *kv.Object) error {
			o, err := w.Create([]byte(key), kv.Spec{Type: typ, Family: family, Layers: []kv.LayerSpec{{Blocks: 1 << 20, Lines: 128}}})
			for blk := uint64(0); blk < blocks && err == nil; blk++ {
				if family == block.FamilyBits {
					_, err = w.SetBits(o, o.Layers()[0], blk, spread)
				} else {
					err = put(w, o, 0, blk, 5, 7)
				}
			}
			return err
		})
	}
	stage("bits", bitsType, block.FamilyBits)
	stage("slots", slotsType, slotFamily)
	before := liveHeap()
	for range rounds {
		stage("gone", bitsType, block.FamilyBits)
		stage("gone", slotsType, slotFamily)
	}
	s.use(tx, "gone", func(w *kv.Writer, _ *kv.Object) error {
		_, err := w.Delete([]byte("gone"))
		return err
	})
	if took := int64(liveHeap() - before); took > 16<<20 {
		t.Errorf("what is staged of %d objects of %d blocks that were removed takes %d bytes", rounds, blocks, took)
	}
	want := func(read func(func(kv.Reader) error) error) {
		s.wantSlot(read, "slots", 0, 9, 5, 7)
		s.must(read(func(r kv.Reader) error {
			o, err := r.Lookup([]byte("bits"))
			if err != nil {
				return err
			}
			l := o.Layers()[0]
			for blk := range uint64(blocks) {
				first, err := r.Load(o, l, blk)
				if err != nil {
					return err
				}
				if l.Words(first)[0]&1 == 0 {
					t.Errorf("block %d is lost", blk)
				}
			}
			return nil
		}))
	}
	want(tx.Read)
	s.must(tx.Commit())
	want(s.Read)
	s.wantConsistent()
}

// A transaction that stages more than a commit takes is refused before its end, when it is not
// much more, and one that stages the same again and again is not.
func TestStaged_tooLarge(t *testing.T) {
	large := func(typ *kv.Type, family block.Family) func(w *kv.Writer) (*kv.Object, error) {
		return func(w *kv.Writer) (*kv.Object, error) {
			return w.Create([]byte("large"), kv.Spec{Type: typ, Family: family, Layers: []kv.LayerSpec{{Blocks: 1 << 20, Lines: 128}}})
		}
	}
	spread := make([]uint16, 3000)
	for i := range spread {
		spread[i] = uint16(21 * i)
	}
	const endless = 20_000
	for name, tt := range map[string]struct {
		begin func(w *kv.Writer) (*kv.Object, error)
		step  func(w *kv.Writer, o *kv.Object, i int) error
		most  int // steps until it is refused; 0 if it is not
	}{
		"blocks": {large(bitsType, block.FamilyBits), func(w *kv.Writer, o *kv.Object, i int) error {
			_, err := w.SetBits(o, o.Layers()[0], uint64(i), []uint16{1})
			return err
		}, 2000},
		"full blocks": {large(bitsType, block.FamilyBits), func(w *kv.Writer, o *kv.Object, i int) error {
			_, err := w.SetBits(o, o.Layers()[0], uint64(i), spread)
			return err
		}, 120},
		"slots": {large(slotsType, slotFamily), func(w *kv.Writer, o *kv.Object, i int) error {
			return put(w, o, 0, uint64(i), 5, 7)
		}, 2000},
		"strings": {nil, func(w *kv.Writer, _ *kv.Object, i int) error {
			_, err := w.Set(fmt.Appendf(nil, "k%d", i), make([]byte, 1000), kv.SetOptions{})
			return err
		}, 500},
		"objects": {nil, func(w *kv.Writer, _ *kv.Object, i int) error {
			_, err := w.Create(fmt.Appendf(nil, "k%d", i), bitsSpec())
			return err
		}, 2000},
		"deletions": {nil, func(w *kv.Writer, _ *kv.Object, i int) error {
			key := fmt.Appendf(nil, "k%d", i)
			_, err := w.Set(key, nil, kv.SetOptions{})
			if err == nil && i%2 == 0 {
				_, err = w.Delete(key)
			}
			return err
		}, 4000},
		"the same bits": {large(bitsType, block.FamilyBits), func(w *kv.Writer, o *kv.Object, i int) error {
			_, err := w.SetBits(o, o.Layers()[0], uint64(i%50), spread[:100+i%50])
			return err
		}, 0},
		"the same slots": {large(slotsType, slotFamily), func(w *kv.Writer, o *kv.Object, i int) error {
			return put(w, o, 0, uint64(i%50), uint16(i%99), uint32(i))
		}, 0},
		"the same strings": {nil, func(w *kv.Writer, _ *kv.Object, i int) error {
			_, err := w.Set(fmt.Appendf(nil, "k%d", i%50), make([]byte, 1000), kv.SetOptions{})
			return err
		}, 0},
		"what is refused": {nil, func(w *kv.Writer, _ *kv.Object, i int) error {
			_, err := w.Set(fmt.Appendf(nil, "k%d", i), make([]byte, 1000), kv.SetOptions{})
			return errors.Join(err, errRefused)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			o := inMemory()
			o.MemTableSize = 1 << 20 // 256 KiB a commit
			s := openStore(t, o)
			tx := s.exclusive()
			if tt.begin != nil {
				s.must(tx.Write(func(w *kv.Writer) error {
					_, err := tt.begin(w)
					return err
				}))
			}
			steps := 0
			var err error
			for ; steps < endless; steps++ {
				err = tx.Write(func(w *kv.Writer) error {
					o, err := w.Object([]byte("large"))
					return errors.Join(err, tt.step(w, o, steps))
				})
				if errors.Is(err, kv.ErrTooLarge) {
					break
				}
				if err != nil && !errors.Is(err, errRefused) {
					t.Fatal(err)
				}
			}
			if tt.most == 0 && errors.Is(err, kv.ErrTooLarge) {
				t.Fatalf("refused after %d steps that stage the same: %v", steps, err)
			}
			if tt.most > 0 && steps > tt.most {
				t.Errorf("refused after %d steps, want at most %d", steps, tt.most)
			}
			err = tx.Commit()
			if tooLarge := errors.Is(err, kv.ErrTooLarge); tooLarge != (tt.most > 0) || err != nil && !tooLarge {
				t.Errorf("the commit after %d steps is answered by %v", steps, err)
			}
			if n, err := s.Size(); tt.most > 0 && (n != 0 || err != nil) {
				t.Errorf("%d keys are there after a transaction that was refused, %v", n, err)
			}
			s.wantConsistent()
		})
	}
}
