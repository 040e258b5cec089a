package kv_test

import (
	"testing"

	"github.com/sievekv/sievekv/kv"
)

// A block read before a commit must not get into memory after the commit, whose patch found nothing there.
func TestLoad_commitMeanwhile(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	s.set("k", 1, 7)
	w := s.stage(kv.NoSync, "k", 1, 8)
	s.forget("k")

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

// The same for a commit that had begun when the loader remembered the counters,
// but was applied after the loader's read and over before it came to install.
func TestLoad_commitUnderWay(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	s.set("k", 1, 7)
	w := s.stage(kv.NoSync, "k", 1, 8)
	s.forget("k")

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
	s := openStore(t, inMemory())
	s.create("k")
	s.set("k", 1, 7)
	w := s.stage(kv.NoSync, "k", 1, 8)
	s.forget("k")

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

// A writer's bits appear in memory only once they are in the log: who sees them
// and is told "already there" relies on that.
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
	if l.Resident(1) != nil {
		t.Fatal("an evicted block is in memory")
	}
	s.has("k", 1, 7)
	now := l.Resident(1)
	if now == nil {
		t.Fatal("a block just read is not in memory")
	}
	old()
	if l.Resident(1) != now {
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
	if l.Resident(1) != nil {
		t.Error("a block of an evicted chunk is found")
	}
	if !s.has("k", 1, 7) {
		t.Error("a bit is lost with an evicted chunk")
	}
	now := l.Resident(1)
	old()
	if now == nil || l.Resident(1) != now {
		t.Error("the eviction of an older chunk took the one in its place")
	}
	s.set("k", 1, 8)
	if !s.has("k", 1, 8) {
		t.Error("a bit set after the eviction of a chunk is not seen")
	}
	s.wantConsistent()
}
