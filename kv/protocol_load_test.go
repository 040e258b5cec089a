package kv_test

import (
	"fmt"
	"testing"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/kv"
)

// openCold opens a store with a block that is not in memory, in which bit 7 is set, and stages a commit that sets bit 8.
func openCold(t *testing.T) (*store, *kv.Writer) {
	t.Helper()
	s := openStore(t, inMemory())
	s.create("k")
	s.set("k", 1, 7)
	w := s.stage(kv.NoSync, "k", 1, 8)
	s.forget("k")
	return s, w
}

// A block read before a commit must not get into memory after the commit, whose patch found nothing there.
func TestLoad_commitMeanwhile(t *testing.T) {
	s, w := openCold(t)

	read := s.next("load: read")
	asking := s.beginFind("k", 1, 7)
	asking.reaches(read)
	s.must(w.Commit())
	read.release()
	asking.wait()

	if !s.has("k", 1, 8) {
		t.Error("a bit set while another lookup was reading the block is not seen")
	}
	s.wantConsistent()
}

// The same for a commit that had begun before the loader, but was applied after the loader's read and over before it came
// to install.
func TestLoad_commitUnderWay(t *testing.T) {
	s, w := openCold(t)

	started := s.next("commit: started")
	committing := s.begin(w.Commit)
	committing.reaches(started)
	read := s.next("load: read")
	asking := s.beginFind("k", 1, 7)
	asking.reaches(read)
	started.release()
	committing.wait()
	read.release()
	asking.wait()

	if !s.has("k", 1, 8) {
		t.Error("a bit set while another lookup was reading the block is not seen")
	}
	s.wantConsistent()
}

// A lookup shares another's load only if nothing was committed since that load
// began: what it would get lacks the commit.
func TestLoad_sharedTooLate(t *testing.T) {
	s, w := openCold(t)

	read := s.next("load: read")
	first := s.beginFind("k", 1, 7)
	first.reaches(read)
	s.must(w.Commit())
	shared := s.next("load: shared")
	second := s.beginFind("k", 1, 8)
	// The second lookup reads for itself; were it to share the first one's read, it would be about to wait for it.
	until(func() bool { return second.ended() || shared.wasReached() })
	s.releaseAll()
	first.wait()
	second.wait()
	s.wantConsistent()
}

// A lookup that does not find a block may find it when it comes to load it. A load then would not be cancelled by a commit
// that finds the block, and would bring back what was before the commit once the block is evicted.
func TestLoad_installedMeanwhile(t *testing.T) {
	s, w := openCold(t)

	missing := s.next("load: missing")
	asking := s.beginFind("k", 1, 7)
	asking.reaches(missing)
	if !s.has("k", 1, 7) { // which loads the block
		t.Error("a bit is lost")
	}
	read := s.next("load: read")
	missing.release()
	until(func() bool { return asking.ended() || read.wasReached() })
	s.must(w.Commit())
	s.forget("k")
	s.releaseAll()
	asking.wait()
	if !s.has("k", 1, 8) {
		t.Error("a bit is lost")
	}
	s.wantConsistent()
}

// The same for a commit that looks for a block while it is loaded, and does not find it.
func TestCommit_installedMeanwhile(t *testing.T) {
	s, w := openCold(t)

	read := s.next("load: read")
	asking := s.beginFind("k", 1, 7)
	asking.reaches(read)
	missing := s.next("patch: missing")
	committing := s.begin(w.Commit)
	committing.reaches(missing)
	read.release()
	asking.wait()
	missing.release()
	committing.wait()
	if !s.has("k", 1, 8) {
		t.Error("a bit is lost")
	}
	s.wantConsistent()
}

// Lookups of one block share one read if nothing is committed.
func TestLoad_shared(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	s.set("k", 1, 7)
	s.Drain()
	s.forget("k")
	before := s.BlocksRead()
	read := s.next("load: read")
	first := s.beginFind("k", 1, 7)
	first.reaches(read)
	var others [3]*task
	for i := range others {
		shared := s.next("load: shared")
		others[i] = s.beginFind("k", 1, 7)
		others[i].reaches(shared)
	}
	s.releaseAll()
	first.wait()
	for i := range others {
		others[i].wait()
	}
	if n := s.BlocksRead() - before; n != 1 {
		t.Errorf("%d reads for %d lookups, want 1", n, 1+len(others))
	}
}

// A lookup that has found a layer may read its block when the layer is gone, and another has its number whose blocks are
// longer.
func TestLoad_numberUsedAgain(t *testing.T) {
	const last = 128*block.LineBits/16 - 1 // slot of the longer block
	for _, family := range []block.Family{block.FamilyBits, slotFamily} {
		s := openStore(t, inMemory())
		s.must(s.write("k", func(w *kv.Writer, _ *kv.Object) error {
			_, err := w.Create([]byte("k"), kv.Spec{Type: bitsType, Family: family, Layers: []kv.LayerSpec{{Blocks: 1, Lines: 8}}})
			return err
		}))
		grow := func(lines uint32) {
			t.Helper()
			s.must(s.write("k", func(w *kv.Writer, o *kv.Object) error {
				_, err := w.Grow(o, kv.LayerSpec{Blocks: 1, Lines: lines})
				return err
			}))
		}
		grow(8)
		s.closeObject("k") // a new layer's blocks are in memory
		number := s.object("k").Layers()[1].Number()
		begun := s.next("load: begun")
		words := 0
		asking := s.begin(func() error {
			return s.Read(func(r kv.Reader) error {
				o, err := r.Lookup([]byte("k"))
				if err != nil {
					return err
				}
				l := o.Layers()[1]
				first, err := r.Load(o, l, 0)
				if err == nil {
					words = len(l.Words(first))
					if w := l.Words(first)[words-1]; w != 1<<63 {
						err = fmt.Errorf("the last word of the block is %x", w)
					}
				}
				return err
			})
		})
		asking.reaches(begun)
		s.must(s.write("k", shrink))
		grow(128)
		s.must(s.write("k", func(w *kv.Writer, o *kv.Object) (err error) {
			l := o.Layers()[1]
			if l.Number() != number {
				t.Errorf("the layer has number %d, not that of the one taken away, %d", l.Number(), number)
			}
			if family == slotFamily {
				return w.SetSlots(o, l, 0, []block.Slot{{Index: last, Value: 1 << 15}})
			}
			_, err = w.SetBits(o, l, 0, []uint16{128*block.LineBits - 1})
			return err
		}))
		begun.release()
		asking.wait()
		if words != block.MaxWords {
			t.Errorf("%v: the lookup found a block of %d words, want %d", family, words, block.MaxWords)
		}
		s.wantConsistent()
	}
}

// A writer's bits appear in memory only once they are in the log: a caller that sees them and is told "already there"
// relies on that.
func TestCommit_patchAfterApply(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	s.set("k", 1, 7)
	w := s.stage(kv.NoSync, "k", 1, 8)
	before := s.Changes()

	started := s.next("commit: started")
	committing := s.begin(w.Commit)
	committing.reaches(started)
	if s.has("k", 1, 8) {
		t.Error("a bit is seen before its commit is in the log")
	}
	applied := s.next("commit: applied")
	started.release()
	committing.reaches(applied)
	if s.has("k", 1, 8) {
		t.Error("a bit is in memory before the sequence of its commit is known")
	}
	if s.Changes() == before {
		t.Error("the sequence of an applied commit is not counted before its bits appear")
	}
	applied.release()
	committing.wait()
	if !s.has("k", 1, 8) {
		t.Error("a committed bit is not seen")
	}
	s.wantConsistent()
}

// Evicting a block that has been evicted before must not take the one that was
// loaded in its place: the cache counts that one.
func TestEvict_olderBlock(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	s.set("k", 1, 7)
	l := s.layer("k")
	old := s.BlockEviction(l, 1)
	s.forget("k")
	if l.InMemory(1) != nil {
		t.Fatal("an evicted block is in memory")
	}
	s.has("k", 1, 7)
	now := l.InMemory(1)
	if now == nil {
		t.Fatal("a block just read is not in memory")
	}
	old()
	if l.InMemory(1) != now {
		t.Error("the eviction of an older block took the one in its place")
	}
}

// Blocks under a chunk of the table that was evicted cannot be found, and the
// eviction of an older chunk leaves the newer alone.
func TestEvict_olderChunk(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	s.set("k", 1, 7)
	l := s.layer("k")
	old := s.ChunkEviction(l, 1)
	old()
	if l.InMemory(1) != nil {
		t.Error("a block of an evicted chunk is found")
	}
	if !s.has("k", 1, 7) {
		t.Error("a bit is lost with an evicted chunk")
	}
	now := l.InMemory(1)
	old()
	if now == nil || l.InMemory(1) != now {
		t.Error("the eviction of an older chunk took the one in its place")
	}
	s.set("k", 1, 8)
	if !s.has("k", 1, 8) {
		t.Error("a bit set after the eviction of a chunk is not seen")
	}
	s.wantConsistent()
}

// A long lookup of slots whose object is closed meanwhile begins again. Otherwise it would read the same blocks again for each
// item, as blocks of a closed object are not kept.
func TestRead_closedMeanwhile(t *testing.T) {
	s := openStore(t, inMemory())
	s.createSlots("k")
	s.must(s.putSlot("k", 0, 1, 7, 8))
	s.forget("k")
	runs := 0
	s.must(s.Read(func(r kv.Reader) error {
		o, err := r.Lookup([]byte("k"))
		if err != nil {
			return err
		}
		if runs++; runs == 1 {
			s.EvictObject(o)
		}
		if _, err := r.Load(o, o.Layers()[0], 1); err != nil {
			return err
		}
		if o.Layers()[0].InMemory(1) == nil {
			t.Errorf("run %d: the block is not in memory", runs)
		}
		return nil
	}))
	if runs != 2 {
		t.Errorf("the lookup ran %d times, want 2", runs)
	}
}

// An object that grows right after it was opened stays open: the cache may not have counted the one before yet.
func TestApply_grownWhenOpened(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	for i := range 300 {
		s.forget("k")
		s.must(s.write("k", func(w *kv.Writer, o *kv.Object) error {
			_, err := w.ReplaceLayers(o, []byte{byte(i)}, func(int) bool { return true })
			return err
		}))
		s.AwaitCache()
		if s.Opened([]byte("k")) == nil {
			t.Fatalf("round %d: the object is closed", i)
		}
	}
}
