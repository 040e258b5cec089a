package compaction

import (
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// While Pebble's compactions are behind, blocks that wait to be folded go on waiting.
func TestService_putsOff(t *testing.T) {
	dir := t.TempDir()
	open := func() (*kv.DB, *bloomext.Filter) {
		db, err := kv.Open(dir, &kv.Options{BallastSize: -1, CacheSize: 256 << 10, Modules: coreext.With(bloomext.Module())})
		if err != nil {
			t.Fatal(err)
		}
		return db, bloomext.New(db, "f")
	}
	db, f := open()
	if err := f.Reserve(bloomext.Config{Capacity: 1000, ErrorRate: 0.01, NonScaling: true}); err != nil {
		t.Fatal(err)
	}
	const adds = 200
	for i := range uint64(adds) {
		if _, err := f.Add(scalableext.Uint64(i)); err != nil { // an operand each
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db, f = open()
	defer db.Close()
	if ok, err := f.MayContain(scalableext.Uint64(1)); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if n := db.FoldBacklog(); n != 1 {
		t.Fatalf("%d blocks wait to be folded, want 1", n)
	}

	behind := true
	s := &service{db: db, behind: func() bool { return behind }}
	for want := 1; want >= 0; want-- {
		if err := s.fold(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := db.FoldBacklog(); n != want {
			t.Errorf("behind %t: %d blocks wait, want %d", behind, n, want)
		}
		if m, err := db.Metrics(); err != nil || m.PutOff != 1 {
			t.Errorf("behind %t: put off %d times, want once: %v", behind, m.PutOff, err)
		}
		behind = false
	}
	db.QueueCompact([]byte("f"))
	for want := 1; want >= 0; want-- {
		behind = want == 1
		if err := s.compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := db.CompactBacklog(); n != want {
			t.Errorf("behind %t: %d objects wait to be compacted, want %d", behind, n, want)
		}
	}
}
