package kv_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/kv"
)

// While a transaction lasts objects are closed and opened again: its commit patches the one there is then.
func TestEvictObject_inTransaction(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	s.set("k", 1, 7)
	s.has("k", 1, 7)
	tx := s.exclusive()
	bit := func(blk uint64, p uint16) func(*kv.Writer, *kv.Object) error {
		return func(w *kv.Writer, o *kv.Object) error {
			l := o.Layers()[0]
			w.SetCounter(l, 0, w.Counter(l, 0)+1)
			_, err := w.SetBits(o, l, blk, []uint16{p})
			return err
		}
	}
	s.use(tx, "k", bit(1, 8))
	s.closeObject("k")
	s.use(tx, "k", bit(1, 9))
	s.has("k", 1, 7) // brings the block into the memory of the object there is now
	s.use(tx, "k", bit(2, 10))
	s.closeObject("k")
	s.has("k", 1, 7)
	s.has("k", 2, 7)
	s.must(tx.Commit())
	for p, blk := range map[uint16]uint64{7: 1, 8: 1, 9: 1, 10: 2} {
		if !s.has("k", blk, p) {
			t.Errorf("bit %d is lost of a transaction whose commit found its object closed", p)
		}
	}
	if n := s.layer("k").Counter(0); n != 3 {
		t.Errorf("counter is %d after a transaction that counted 3", n)
	}
	s.wantConsistent()
}

// A transaction that stages a counter alone holds off goroutines that open its object.
func TestEvictObject_counterInTransaction(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	tx := s.exclusive()
	s.use(tx, "k", func(w *kv.Writer, o *kv.Object) error {
		w.SetCounter(o.Layers()[0], 0, 1)
		return nil
	})
	s.closeObject("k")
	read := s.next("open: read")
	opening := s.begin(func() error {
		_, err := s.Lookup([]byte("k"))
		return err
	})
	opening.reaches(read)
	committing := s.begin(tx.Commit)
	until(func() bool { return committing.ended() || s.ApplyContended() })
	read.release()
	opening.wait()
	committing.wait()
	if n := s.layer("k").Counter(0); n != 1 {
		t.Errorf("counter is %d after a transaction that set it to 1", n)
	}
	s.wantConsistent()
}

// An object that is closed between the application of a transaction and the patch of memory is
// not the one that lookups find afterwards, whatever the transaction did with it.
func TestEvictObject_duringCommit(t *testing.T) {
	changes := map[string]func(w *kv.Writer, o *kv.Object) error{
		"bits":   func(*kv.Writer, *kv.Object) error { return nil },
		"rename": func(w *kv.Writer, _ *kv.Object) error { return w.Rename([]byte("k"), []byte("l")) },
		"expire": func(w *kv.Writer, _ *kv.Object) error {
			_, err := w.Expire([]byte("k"), 1<<50, kv.ExpireAlways)
			return err
		},
		"grow": func(w *kv.Writer, o *kv.Object) error {
			_, err := w.Grow(o, o.Layers()[0].Spec())
			return err
		},
		"delete": func(w *kv.Writer, _ *kv.Object) error {
			_, err := w.Delete([]byte("k"))
			return err
		},
	}
	for name, change := range changes {
		for _, lines := range []uint32{1, 128} { // a layer of one block is kept with its object
			for _, before := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, %d lines, closed before %t", name, lines, before), func(t *testing.T) {
					s := openStore(t, inMemory())
					spec := kv.LayerSpec{Blocks: 1, Lines: lines}
					if lines > 1 {
						spec.Blocks = 2
					}
					s.must(s.Write(kv.NoSync, [][]byte{[]byte("k")}, func(w *kv.Writer) error {
						_, err := w.Create([]byte("k"), kv.Spec{Type: bitsType, Family: block.FamilyBits, Layers: []kv.LayerSpec{spec}})
						return err
					}))
					s.set("k", 0, 7)
					s.has("k", 0, 7)
					tx := s.exclusive()
					s.use(tx, "k", func(w *kv.Writer, o *kv.Object) error {
						_, err := w.SetBits(o, o.Layers()[0], 0, []uint16{8})
						return errors.Join(err, change(w, o))
					})
					if before { // and not opened again
						s.closeObject("k")
					}
					applied := s.next("commit: applied")
					committing := s.begin(tx.Commit)
					committing.reaches(applied)
					if !before {
						s.evictOpen("k")
					}
					applied.release()
					committing.wait()
					key := map[string]string{"rename": "l"}[name]
					if key == "" {
						key = "k"
					}
					if name != "delete" && !(s.has(key, 0, 7) && s.has(key, 0, 8)) {
						t.Error("a bit is lost of an object that was closed during a commit")
					}
					if name == "delete" {
						if o, err := s.Lookup([]byte("k")); o != nil || err != nil {
							t.Errorf("a deleted key maps to %v, %v", o, err)
						}
						return
					}
					s.set(key, 0, 9)
					if !s.has(key, 0, 9) {
						t.Error("a bit is lost that was set after that")
					}
					s.wantKept(key)
					s.wantConsistent()
				})
			}
		}
	}
}

// wantKept checks that blocks stay in memory once they were looked at, unless the cache lets the object go: it may do so
// at any time, now and then.
func (s *store) wantKept(key string) {
	s.t.Helper()
	for range 1000 {
		s.has(key, 0, 7)
		before := s.BlocksRead()
		s.has(key, 0, 7)
		if s.BlocksRead() == before {
			return
		}
		runtime.Gosched()
	}
	s.t.Errorf("a block of %q is read again and again", key)
}

// A transaction goes on with the object that is open, in which blocks stay that it reads.
func TestEvictObject_readsInTransaction(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	s.set("k", 0, 7)
	s.set("k", 2, 7)
	tx := s.exclusive()
	s.use(tx, "k", func(w *kv.Writer, o *kv.Object) error {
		_, err := w.SetBits(o, o.Layers()[0], 1, []uint16{7})
		return err
	})
	s.closeObject("k")
	s.ReleaseEnded() // takes the blocks of the closed object out of memory
	s.Drain()
	before := s.BlocksRead()
	for range 10 {
		for _, blk := range []uint64{0, 2} {
			read := func(r interface {
				Load(*kv.Object, *kv.Layer, uint64) (*kv.Line, error)
			}, o *kv.Object) error {
				_, err := r.Load(o, o.Layers()[0], blk)
				return err
			}
			s.use(tx, "k", func(w *kv.Writer, o *kv.Object) error { return read(w, o) })
			s.must(tx.Read(func(r kv.Reader) error {
				o, err := r.Lookup([]byte("k"))
				return errors.Join(err, read(r, o))
			}))
		}
	}
	if n := s.BlocksRead() - before; n > 2 {
		t.Errorf("a transaction reads 2 blocks of an object %d times after it was closed", n)
	}
	s.must(tx.Commit())
	s.wantConsistent()
}

// Every key is missing in a transaction that has removed every key.
func TestAlone_everythingRemoved(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	s.create("changed")
	tx := s.exclusive()
	s.use(tx, "changed", func(w *kv.Writer, o *kv.Object) error {
		_, err := w.SetBits(o, o.Layers()[0], 1, []uint16{7})
		return err
	})
	look := func(want bool) {
		for _, key := range []string{"k", "changed"} {
			s.must(tx.Read(func(r kv.Reader) error {
				o, err := r.Lookup([]byte(key))
				if (o != nil) != want {
					t.Errorf("the transaction finds %v under %q, want something: %t", o, key, want)
				}
				return err
			}))
		}
	}
	s.use(tx, "k", func(w *kv.Writer, _ *kv.Object) error {
		w.DeleteEverything()
		return errRefused
	})
	look(true)
	s.use(tx, "k", func(w *kv.Writer, _ *kv.Object) error {
		w.DeleteEverything()
		return nil
	})
	look(false)
}

// A lookup of slots knows that a commit of a transaction changes the blocks of the object that is open by then.
func TestSlots_versionOpenedAgain(t *testing.T) {
	s := openStore(t, inMemory())
	s.createSlots("k")
	s.must(s.putSlot("k", 0, 1, 5, 7))
	tx := s.exclusive()
	s.use(tx, "k", func(w *kv.Writer, o *kv.Object) error { return put(w, o, 0, 1, 5, 8) })
	s.closeObject("k")
	o, l := s.object("k"), s.layer("k")
	started := s.next("commit: started")
	committing := s.begin(tx.Commit)
	committing.reaches(started)
	if o.ChangeAt(l, 1)%2 != 1 {
		t.Error("the version of a block that is opened again is even during a commit that changes it")
	}
	started.release()
	committing.wait()
	if o.ChangeAt(l, 1)%2 != 0 {
		t.Error("the version of a block that is opened again is odd after a commit that changed it")
	}
	s.wantSlot(s.Read, "k", 0, 1, 5, 8)
	s.wantConsistent()
}

// An object is closed whose key somebody waits to write to until a transaction has ended; but not once he goes on.
func TestEvictObject_writerWaits(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	s.set("k", 1, 7)
	tx := s.exclusive()
	writing := s.begin(func() error {
		return s.write("k", func(w *kv.Writer, o *kv.Object) error {
			w.SetCounter(o.Layers()[0], 0, 1)
			_, err := w.SetBits(o, o.Layers()[0], 1, []uint16{8})
			return err
		})
	})
	until(func() bool { return !s.KeyFree("k") })
	s.closeObject("k")
	s.has("k", 1, 7)

	alone, started := s.next("evict: alone"), s.next("commit: started")
	closing := s.begin(func() error {
		s.evictOpen("k")
		return nil
	})
	closing.reaches(alone)
	ending := s.begin(func() error {
		return tx.Rollback()
	})
	until(func() bool { return ending.ended() || s.GateFixed() })
	if ending.ended() {
		writing.reaches(started) // with the object that is about to be closed
	}
	alone.release()
	closing.wait()
	s.object("k")
	started.release()
	ending.wait()
	writing.wait()
	if !s.has("k", 1, 8) {
		t.Error("a bit is lost whose commit found its object closed")
	}
	if n := s.layer("k").Counter(0); n != 1 {
		t.Errorf("counter is %d after a commit set it to 1", n)
	}
	s.wantConsistent()

	// There was a transaction, but there is none now.
	o := s.object("k")
	s.must(s.write("k", func(*kv.Writer, *kv.Object) error {
		s.EvictObject(o)
		if o.Ended() {
			t.Error("an object is closed that somebody writes to")
		}
		return nil
	}))
}

// evictOpen asks for the open object under a key to be closed, without a lookup that would wait for a commit.
func (s *store) evictOpen(key string) {
	if o := s.OpenObject(key); o != nil {
		s.EvictObject(o)
	}
}

// Of two stores that do the same, in transactions, one has objects closed and opened again all the time.
func TestAlone_closedAnywhere(t *testing.T) {
	for round := range 30 {
		rng := rand.New(rand.NewPCG(14, uint64(round)))
		with, without := openStore(t, inMemory()), openStore(t, inMemory())
		for range 3 {
			committed := make(map[string][]string)
			for _, key := range randomKeys {
				committed[key] = with.contentsOf(with.Read, key)
			}
			a, b := with.exclusive(), without.exclusive()
			for range 1 + rng.IntN(60) {
				for _, key := range randomKeys {
					switch rng.IntN(4) {
					case 0:
						with.evictOpen(key)
					case 1:
						if got := with.contentsOf(with.Read, key); !slices.Equal(got, committed[key]) {
							t.Fatalf("round %d: beside the transaction others see %q, want what was committed, %q", round, got, committed[key])
						}
					}
				}
				use, err := randomUse(rng), error(nil)
				if rng.IntN(4) == 0 {
					err = errRefused
				}
				for s, tx := range map[*store]*kv.Transaction{with: a, without: b} {
					s.use(tx, "other", func(w *kv.Writer, _ *kv.Object) error { return errors.Join(use(w), err) })
				}
			}
			if got, want := with.contents(a.Read), without.contents(b.Read); !slices.Equal(got, want) {
				t.Fatalf("round %d: with objects closed the transaction sees %q, else %q", round, got, want)
			}
			with.must(a.Commit())
			without.must(b.Commit())
			if got, want := with.contents(with.Read), without.contents(without.Read); !slices.Equal(got, want) {
				t.Fatalf("round %d: after objects were closed there is %q, else %q", round, got, want)
			}
			with.wantConsistent()
		}
		with.must(with.Close())
		without.must(without.Close())
	}
}

// small makes objects of one block of 1 KiB, n of them, under keys that begin alike.
func (s *store) small(prefix string, n int) {
	s.t.Helper()
	for i := range n {
		key := fmt.Appendf(nil, "%s%d", prefix, i)
		s.must(s.Write(kv.NoSync, [][]byte{key}, func(w *kv.Writer) error {
			o, err := w.Create(key, kv.Spec{
				Type: bitsType, Family: block.FamilyBits, Layers: []kv.LayerSpec{{Blocks: 1, Lines: 16}},
			})
			if err == nil {
				_, err = w.SetBits(o, o.Layers()[0], 0, []uint16{7})
			}
			return err
		}))
	}
}

const smallCache = 1 << 20

// withSmallCache opens a store with n small objects, several times what its cache has room for.
func withSmallCache(t *testing.T, n int) *store {
	o := inMemory()
	o.CacheSize, o.MemTableSize = smallCache, 64<<20
	s := openStore(t, o)
	s.small("k", n)
	return s
}

// wantBounded checks that what is open fits into the cache. Some objects may be about to be
// closed, and a lookup of the test holds one or two.
func (s *store) wantBounded(when string) {
	s.t.Helper()
	s.AwaitCache()
	s.ReleaseEnded()
	s.AwaitCache()
	s.ReleaseEnded()
	if n := s.OpenBytes(); n > smallCache+smallCache/8 {
		s.t.Errorf("%s the open objects take %d bytes, at most %d", when, n, smallCache)
	}
}

// What others look up while a transaction is open, and what is looked up and changed in it,
// takes no more memory than the cache has.
func TestAlone_bounded(t *testing.T) {
	const n = 3000
	s := withSmallCache(t, n)
	tx := s.exclusive()
	for i := range n {
		s.has(fmt.Sprint("k", i), 0, 7)
	}
	s.wantBounded("while a transaction is open")
	for i := range n {
		s.must(tx.Read(func(r kv.Reader) error {
			o, err := r.Lookup(fmt.Appendf(nil, "k%d", i))
			if err == nil {
				_, err = r.Load(o, o.Layers()[0], 0)
			}
			return err
		}))
	}
	s.wantBounded("after lookups in a transaction")
	if v := tx.StagedKeys(); v != 0 {
		t.Errorf("a transaction that changed nothing remembers %d keys", v)
	}
	before := liveHeap()
	for i := range n {
		s.use(tx, fmt.Sprint("k", i), func(w *kv.Writer, o *kv.Object) error {
			_, err := w.SetBits(o, o.Layers()[0], 0, []uint16{8})
			return err
		})
	}
	s.wantBounded("after changes in a transaction")
	for i := range n {
		s.use(tx, fmt.Sprint("k", i), func(w *kv.Writer, o *kv.Object) error {
			_, err := w.Expire([]byte(o.Key()), 1<<50, kv.ExpireAlways)
			return err
		})
	}
	s.wantBounded("after expiries in a transaction")
	staged := liveHeap()
	if took := int64(staged - before); took > n*2500 {
		t.Errorf("%d objects changed in a transaction take %d bytes", n, took)
	}
	for i := range n {
		s.use(tx, fmt.Sprint("k", i), func(w *kv.Writer, o *kv.Object) error {
			_, err := w.Load(o, o.Layers()[0], 0)
			return err
		})
	}
	if took := int64(liveHeap() - staged); took > n*300 {
		t.Errorf("lookups of %d objects of 1 KiB that a transaction has changed take %d bytes", n, took)
	}
	s.must(tx.Commit())
	s.wantBounded("after the transaction")
	for i := range n {
		if key := fmt.Sprint("k", i); !(s.has(key, 0, 7) && s.has(key, 0, 8)) {
			t.Fatalf("a bit of %s is lost", key)
		}
	}
	s.wantConsistent()
}

// Copies that a transaction makes of objects are not in memory until they are looked up.
func TestAlone_copies(t *testing.T) {
	const n = 2000
	o := inMemory()
	o.MemTableSize = 64 << 20
	s := openStore(t, o)
	key := []byte("k")
	s.must(s.Write(kv.NoSync, [][]byte{key}, func(w *kv.Writer) error {
		o, err := w.Create(key, kv.Spec{
			Type: bitsType, Family: block.FamilyBits, Layers: []kv.LayerSpec{{Blocks: 1, Lines: 128}},
		})
		if err == nil {
			_, err = w.SetBits(o, o.Layers()[0], 0, []uint16{7})
		}
		return err
	}))
	tx := s.exclusive()
	before := liveHeap()
	for i := range n {
		s.use(tx, "k", func(w *kv.Writer, _ *kv.Object) error {
			_, err := w.Copy(t.Context(), key, fmt.Appendf(nil, "copy%d", i), false)
			return err
		})
	}
	if took := int64(liveHeap() - before); took > n*3000 {
		t.Errorf("%d copies of an object take %d bytes", n, took)
	}
	s.use(tx, "copy5", func(w *kv.Writer, o *kv.Object) error {
		there, err := w.HasBits(o, o.Layers()[0], 0, []uint16{7})
		if !there {
			t.Error("a bit of a copy is missing")
		}
		_, err2 := w.SetBits(o, o.Layers()[0], 0, []uint16{8})
		return errors.Join(err, err2)
	})
	s.must(tx.Commit())
	if !(s.has("copy5", 0, 7) && s.has("copy5", 0, 8)) {
		t.Error("a bit of a copy is lost")
	}
	s.wantKept("copy6")
	s.wantConsistent()
}

// Strings that a transaction reads are not kept.
func TestAlone_strings(t *testing.T) {
	const n, size = 300, 100_000
	s := openStore(t, inMemory())
	for i := range n {
		_, err := s.Set(kv.NoSync, fmt.Appendf(nil, "k%d", i), make([]byte, size), kv.SetOptions{})
		s.must(err)
	}
	tx := s.exclusive()
	before := liveHeap()
	for i := range n {
		key := fmt.Appendf(nil, "k%d", i)
		read := func(value []byte, err error) error {
			if err == nil && len(value) != size {
				err = fmt.Errorf("%d bytes are under a key, want %d", len(value), size)
			}
			return err
		}
		s.must(tx.Read(func(r kv.Reader) error { return read(r.Get(key)) }))
		s.use(tx, string(key), func(w *kv.Writer, _ *kv.Object) error { return read(w.Get(key)) })
		s.use(tx, string(key), func(w *kv.Writer, _ *kv.Object) error {
			_, err := w.Incr(key, 1)
			if !errors.Is(err, kv.ErrNotInteger) {
				return fmt.Errorf("a number is added to text: %w", err)
			}
			return errRefused
		})
	}
	if took, most := int64(liveHeap()-before), int64(n*size/2); took > most {
		t.Errorf("a transaction that has read %d strings of %d bytes takes %d, at most %d", n, size, took, most)
	}
	if v := tx.StagedKeys(); v != 0 {
		t.Errorf("a transaction that changed nothing remembers %d keys", v)
	}
}

// The blocks of an object stay in memory when another takes its place under a key.
func TestEvictObject_handedOn(t *testing.T) {
	changes := map[string]func(w *kv.Writer) error{
		"rename": func(w *kv.Writer) error { return w.Rename([]byte("k"), []byte("l")) },
		"expire": func(w *kv.Writer) error {
			_, err := w.Expire([]byte("k"), 1<<50, kv.ExpireAlways)
			return err
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, inMemory())
			s.create("k")
			s.set("k", 1, 7)
			s.has("k", 1, 7)
			s.AwaitCache()
			s.must(s.Write(kv.NoSync, [][]byte{[]byte("k"), []byte("l")}, change))
			s.AwaitCache()
			s.ReleaseEnded()
			key := map[string]string{"rename": "l", "expire": "k"}[name]
			before := s.BlocksRead()
			if !s.has(key, 1, 7) {
				t.Error("a bit is lost of an object that another took the place of")
			}
			if n := s.BlocksRead() - before; n != 0 {
				t.Errorf("%d blocks are read again of an object that another took the place of", n)
			}
			s.wantConsistent()
		})
	}
}
