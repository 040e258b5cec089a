package kv_test

import (
	"fmt"
	"testing"

	"github.com/sievekv/sievekv/kv"
)

// A header read before its key was deleted must not become an open object after that: what is added to it would
// belong to no key. So the deletion waits for the reading.
func TestOpen_deletedMeanwhile(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	s.closeObject("k")

	read := s.next("open: read")
	asking := s.begin(func() error {
		_, err := s.Lookup([]byte("k"))
		return err
	})
	asking.reaches(read)
	deleting := s.begin(func() error {
		_, err := s.Delete(kv.NoSync, []byte("k"))
		return err
	})
	until(func() bool { return deleting.ended() || s.ApplyContended() })
	read.release()
	asking.wait()
	deleting.wait()

	o, err := s.Lookup([]byte("k"))
	s.must(err)
	if o != nil {
		t.Error("a deleted key maps to an object")
	}
	s.wantConsistent()
}

// Counters read before a commit must not become an open object's after the object that the commit patched was closed.
func TestOpen_writtenAndClosedMeanwhile(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	s.closeObject("k")

	read := s.next("open: read")
	asking := s.begin(func() error {
		_, err := s.Lookup([]byte("k"))
		return err
	})
	asking.reaches(read)
	w := s.stage(kv.NoSync, "k", 1, 7)
	o, err := w.Object([]byte("k"))
	s.must(err)
	w.SetCounter(o.Layers()[0], 0, 1)
	s.must(w.Commit())
	s.closeObject("k")
	read.release()
	asking.wait()

	if n := s.layer("k").Counter(0); n != 1 {
		t.Errorf("counter is %d after a commit set it to 1", n)
	}
	s.wantConsistent()
}

// Of two lookups that open an object at the same time both get the same: only one is patched by commits.
func TestOpen_twice(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	s.closeObject("k")

	read := s.next("open: read")
	var late *kv.Object
	asking := s.begin(func() (err error) {
		late, err = s.Lookup([]byte("k"))
		return err
	})
	asking.reaches(read)
	now := s.object("k")
	read.release()
	asking.wait()
	if late != now {
		t.Error("two lookups opened an object each")
	}
}

// What is counted of an object goes on when it is closed to save memory.
func TestEvictObject_uses(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	s.object("k").Uses().Adds(1, 0)
	s.closeObject("k")
	s.object("k").Uses().Adds(1, 0)
	if n := s.object("k").Uses().Totals().New; n != 2 {
		t.Errorf("%d adds are counted, want 2", n)
	}
}

// An object somebody is writing to is not closed: the commit would patch one that no lookup reads.
func TestEvictObject_whileWriting(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	s.set("k", 1, 7)
	w := s.stage(kv.NoSync, "k", 1, 8)
	s.EvictObject(s.object("k"))
	s.has("k", 1, 7) // brings the block into the memory of the object there is now
	s.must(w.Commit())
	if !s.has("k", 1, 8) {
		t.Error("a bit is lost whose commit found its object closed")
	}
	s.wantConsistent()

	old := s.object("k")
	s.ReleaseEnded()
	if s.object("k") == old {
		t.Error("an object that could not be closed when it had to go stays open")
	}
	s.wantConsistent()
}

// A handle that resolved its key before the object was closed, and one that did so after, see the same bits.
func TestEvictObject_lookupMeanwhile(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	s.set("k", 1, 7)
	s.forget("k")

	begun := s.next("load: begun")
	asking := s.beginFind("k", 1, 7)
	asking.reaches(begun)
	old := s.object("k")
	s.closeObject("k")
	s.set("k", 1, 8)
	begun.release()
	asking.wait()
	if s.object("k") == old {
		t.Error("a closed object is still under its key")
	}
	if !s.has("k", 1, 8) {
		t.Error("a committed bit is not seen")
	}
	s.wantConsistent()
}

// What is left of a closed object is taken out of memory later, and what is there
// of the same object, opened again by then, stays.
func TestEvictObject_openedAgain(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	s.set("k", 1, 7)
	s.has("k", 1, 7)
	s.AwaitCache()
	old := s.layer("k")
	s.closeObject("k")
	s.has("k", 1, 7)
	s.AwaitCache()
	now := s.object("k")
	s.ReleaseEnded()
	if s.object("k") != now {
		t.Error("the remains of a closed object took the object opened again with them")
	}
	if now.Layers()[0].InMemory(1) == nil {
		t.Error("the remains of a closed object took a block with them that was read again")
	}
	if old.InMemory(1) != nil {
		t.Error("a block of a closed object is in memory")
	}
	s.wantConsistent()
}

// A commit may change any number of objects.
func TestCommit_manyObjects(t *testing.T) {
	s := openStore(t, inMemory())
	keys := make([][]byte, 600)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "k%d", i)
		s.create(string(keys[i]))
	}
	w, err := s.Begin(kv.NoSync, keys...)
	s.must(err)
	for i, key := range keys {
		o, err := w.Object(key)
		s.must(err)
		_, err = w.SetBits(o, o.Layers()[0], uint64(i%3), []uint16{uint16(i % 500)})
		s.must(err)
	}
	s.must(w.Commit())
	for i, key := range keys {
		if !s.has(string(key), uint64(i%3), uint16(i%500)) {
			t.Errorf("the bit of object %d of a commit is lost", i)
		}
	}
	s.wantConsistent()
}

// A lookup of several keys sees all of a commit that moves one over another, or nothing of it.
func TestRead_renameMeanwhile(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("a")
	s.create("b")
	s.set("a", 1, 7)

	// The lookup sees that there is no c, then the commit moves a to c, then it sees that there is no a.
	var seen []string
	first := true
	err := s.Read(func(r kv.Reader) error {
		seen = nil
		for _, key := range []string{"c", "a", "b"} {
			o, err := r.Lookup([]byte(key))
			if err != nil {
				return err
			}
			if o != nil {
				seen = append(seen, key)
			}
			if first {
				first = false
				if err := s.Rename(kv.NoSync, []byte("a"), []byte("c")); err != nil {
					return err
				}
			}
		}
		return nil
	})
	s.must(err)
	if len(seen) != 2 || seen[0] != "c" {
		t.Errorf("a lookup during a rename of a to c sees %q, want c and b", seen)
	}
	s.wantConsistent()
}
