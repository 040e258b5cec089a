package kv_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// ended returns a context that has ended.
func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// Folding ends where its budget does, and what is left is folded by the next call.
func TestFold_budget(t *testing.T) {
	s := openStore(t, inMemory())
	for _, key := range []string{"a", "b", "c"} {
		s.create(key)
	}
	s.collectOperands("a")
	for i, key := range []string{"b", "c"} {
		for bit := range uint16(100) {
			s.set(key, 1, bit)
			s.Drain()
		}
		s.forget(key)
		s.has(key, 1, 0)
		if n := s.FoldBacklog(); n != 2+i {
			t.Fatalf("%d blocks wait for folding, want %d", n, 2+i)
		}
	}
	for left := 2; left >= 0; left-- {
		n, err := s.Fold(t.Context(), 1)
		s.must(err)
		if n == 0 || s.FoldBacklog() != left {
			t.Errorf("Fold of one byte wrote %d bytes and left %d blocks, want %d", n, s.FoldBacklog(), left)
		}
	}
	s.wantConsistent()
}

// Folding ends where its context has ended.
func TestFold_canceled(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	s.collectOperands("k")
	if n, err := s.Fold(ended(t), 1<<20); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("Fold = %d, %v, want %v", n, err, context.Canceled)
	}
	if n := s.FoldBacklog(); n != 1 {
		t.Errorf("%d blocks wait for folding, want 1", n)
	}
}

// A block with few operands is left as it is, and so is the block of another object than the requested one.
func TestFold_needless(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	s.collectOperands("k")
	_, err := s.Delete(kv.NoSync, []byte("k"))
	s.must(err)
	s.create("k")
	for bit := range uint16(100) {
		s.set("k", 1, bit)
		s.Drain()
	}
	s.must(s.fold())
	if folds, _, _ := s.MaintenanceStats(); folds != 0 {
		t.Errorf("%d blocks of another object were folded", folds)
	}
	s.forget("k")
	s.has("k", 1, 0)
	for range 2 {
		s.must(s.fold())
		s.forget("k")
		s.AskFold("k", s.layer("k"), 1)
	}
	s.must(s.fold())
	if folds, _, _ := s.MaintenanceStats(); folds != 1 {
		t.Errorf("a block was folded %d times, want 1", folds)
	}
	s.wantConsistent()
}

// compactions is a type whose Compact a test chooses.
type compactions struct {
	compact func(w *kv.Writer, o *kv.Object, budget int) (more bool, err error)
	typ     *kv.Type
}

// openCompactions opens a store with objects of the type under keys, which are to be compacted.
func openCompactions(t *testing.T, keys int) (*store, *compactions) {
	t.Helper()
	c := &compactions{}
	c.typ = &kv.Type{
		Name: "test-compactions", Version: 1, Open: func(o *kv.Object) (any, error) { return o, nil },
		Compact: func(w *kv.Writer, o *kv.Object, budget int) (bool, error) { return c.compact(w, o, budget) },
	}
	o := inMemory()
	o.Modules = coreext.With(module.Module{Name: "compactions", Types: []*kv.Type{c.typ}})
	s := openStore(t, o)
	for i := range keys {
		key := fmt.Sprint("k", i)
		s.must(s.write(key, func(w *kv.Writer, _ *kv.Object) error {
			_, err := w.Create([]byte(key), kv.Spec{Type: c.typ, Family: slotFamily, Layers: []kv.LayerSpec{slotLayer()}})
			return err
		}))
		s.QueueCompact([]byte(key))
	}
	return s, c
}

// An object that cannot be compacted keeps no other from it.
func TestCompact_oneFails(t *testing.T) {
	const keys = 5
	s, c := openCompactions(t, keys)
	seen := make(map[string]int)
	c.compact = func(_ *kv.Writer, o *kv.Object, _ int) (bool, error) {
		seen[o.Key()]++
		if len(seen) == 1 {
			return false, errCompact
		}
		return false, nil
	}
	if m, err := s.Metrics(); err != nil || m.CompactBacklog != keys {
		t.Errorf("%d objects wait to be compacted, %v, want %d", m.CompactBacklog, err, keys)
	}
	if more, err := s.CompactQueued(t.Context(), 1<<10); !more || !errors.Is(err, errCompact) {
		t.Errorf("CompactQueued = %t, %v, want more to do, and the type's error", more, err)
	}
	s.compactAll()
	if len(seen) != keys {
		t.Errorf("Compact was called for %d of %d objects: %v", len(seen), keys, seen)
	}
}

// What a type is told to write fits into a commit.
func TestCompact_budget(t *testing.T) {
	s, c := openCompactions(t, 1)
	var got []int
	c.compact = func(_ *kv.Writer, _ *kv.Object, budget int) (bool, error) {
		got = append(got, budget)
		return len(got) < 2, nil
	}
	for _, budget := range []int{1 << 10, 1 << 30} {
		_, err := s.CompactQueued(t.Context(), budget)
		s.must(err)
	}
	if len(got) != 2 || got[0] != 1<<10 || got[1] <= 0 || got[1] >= s.MaxCommit() {
		t.Errorf("Compact was given %d bytes, want 1024, then less than a commit takes, %d", got, s.MaxCommit())
	}
}

// Compact ends what a service is in the middle of.
func TestCompact_besideService(t *testing.T) {
	s, c := openCompactions(t, 1)
	const steps = 3
	var made atomic.Int32
	begun, done := make(chan struct{}), make(chan struct{})
	c.compact = func(*kv.Writer, *kv.Object, int) (bool, error) {
		if made.Load() == 0 {
			close(begun)
			select {
			case <-done:
				t.Error("Compact returned while a service was compacting an object")
			case <-time.After(100 * time.Millisecond): // a Compact that does not wait is done by then, mostly
			}
		}
		return made.Add(1) < steps, nil
	}
	service := make(chan error, 1)
	go func() {
		_, err := s.CompactQueued(t.Context(), 1<<10)
		service <- err
	}()
	<-begun
	s.must(s.Compact(t.Context()))
	close(done)
	s.must(<-service)
	if n := made.Load(); n != steps {
		t.Errorf("Compact returned after %d of %d commits", n, steps)
	}
}

// Nothing is compacted where the context has ended.
func TestCompact_canceled(t *testing.T) {
	s, c := openCompactions(t, 3)
	c.compact = func(*kv.Writer, *kv.Object, int) (bool, error) {
		t.Error("Compact is called")
		return false, nil
	}
	if _, err := s.CompactQueued(ended(t), 1<<20); !errors.Is(err, context.Canceled) {
		t.Errorf("CompactQueued = %v, want %v", err, context.Canceled)
	}
}

// One call of Reclaim deals with this number of notes.
func TestReclaim_notes(t *testing.T) {
	s := openStore(t, inMemory())
	const more = 10
	for range kv.MaxNotes + more {
		s.must(s.Write(kv.NoSync, [][]byte{[]byte("k")}, func(w *kv.Writer) error {
			_, err := w.Create([]byte("k"), bitsSpec()) // in the place of the one before
			return err
		}))
	}
	reclaimed := func() uint64 {
		found, err := s.Reclaim(t.Context())
		s.must(err)
		_, _, n := s.MaintenanceStats()
		if !found {
			t.Error("nothing was reclaimed")
		}
		return n
	}
	backlog := func(want int) {
		m, err := s.Metrics()
		s.must(err)
		if m.ReclaimBacklog != want {
			t.Errorf("%d objects wait to be reclaimed, want %d", m.ReclaimBacklog, want)
		}
	}
	backlog(1000) // or more
	if n := reclaimed(); n != kv.MaxNotes {
		t.Errorf("%d objects were reclaimed by one call, want %d", n, kv.MaxNotes)
	}
	backlog(more - 1)
	if n := reclaimed(); n != kv.MaxNotes+more-1 {
		t.Errorf("%d objects were reclaimed by two calls, want %d", n, kv.MaxNotes+more-1)
	}
	backlog(0)
}

// buildLarge builds an object of n blocks that do not compress.
func (s *store) buildLarge(ctx context.Context, key string, blocks uint64, after func(*kv.Builder)) error {
	return s.Write(kv.NoSync, [][]byte{[]byte(key)}, func(w *kv.Writer) error {
		spec := kv.Spec{Type: bitsType, Family: block.FamilyBits, Layers: []kv.LayerSpec{{Blocks: blocks, Lines: 128}}}
		_, err := w.Build(ctx, []byte(key), spec, func(b *kv.Builder) error {
			words := make([]uint64, block.MaxWords)
			for blk := range blocks {
				for i := range words {
					words[i] = (blk<<16 + uint64(i) + 1) * 0x9e3779b97f4a7c15
				}
				if err := b.Put(b.Object().Layers()[0], blk, words); err != nil {
					return err
				}
				after(b)
			}
			return nil
		})
		return err
	})
}

// The space of a large object that was removed comes back with Reclaim.
func TestReclaim_large(t *testing.T) {
	const size = 4 << 20
	s := openStore(t, &kv.Options{FS: vfs.NewMem(), Durability: kv.NoSync})
	s.must(s.buildLarge(t.Context(), "k", size/(8<<10), func(*kv.Builder) {}))
	s.must(s.CompactTables(t.Context()))
	tables := func() uint64 {
		m, err := s.Metrics()
		s.must(err)
		return uint64(m.TableBytes)
	}
	if n := tables(); n < size {
		t.Fatalf("%d bytes in tables, want %d and more", n, size)
	}
	_, err := s.Delete(kv.NoSync, []byte("k"))
	s.must(err)
	if !s.reclaim() {
		t.Error("nothing was reclaimed")
	}
	if n := tables(); n > size/10 {
		t.Errorf("%d bytes in tables after an object of %d bytes was reclaimed", n, size)
	}
	s.wantConsistent()
}

// A build keeps no more than some of what it writes in memory, and writes none of it twice.
func TestBuild_ahead(t *testing.T) {
	s := openStore(t, inMemory())
	most, flushes, last := 0, 0, 0
	s.must(s.buildLarge(t.Context(), "k", 3*kv.BuildBatch/(8<<10), func(b *kv.Builder) {
		n := b.Staged()
		if most = max(most, n); n < last {
			flushes++
		}
		last = n
	}))
	if most > kv.BuildBatch || flushes != 3 && flushes != 2 {
		t.Errorf("a build had up to %d bytes in memory, and wrote some %d times ahead", most, flushes)
	}
	s.wantConsistent()
}

// A build ends where its context has ended, and leaves nothing.
func TestBuild_canceled(t *testing.T) {
	s := openStore(t, inMemory())
	ctx, cancel := context.WithCancel(t.Context())
	blocks := 0
	err := s.buildLarge(ctx, "k", 3, func(*kv.Builder) {
		blocks++
		cancel()
	})
	if blocks != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("Build took %d blocks, and returned %v, want 1 and %v", blocks, err, context.Canceled)
	}
	s.wantMissing("k")
	s.reclaim()
	s.wantConsistent()
}

// What is being built keeps nothing else from being reclaimed.
func TestReclaim_besideBuild(t *testing.T) {
	s := openStore(t, inMemory())
	w := s.build("k", 1, 7)
	other := s.KeyBeside("k", "other") // the writer holds the lock of k
	s.create(string(other))
	_, err := s.Delete(kv.NoSync, other)
	s.must(err)
	if !s.reclaim() {
		t.Error("nothing was reclaimed while an object is built")
	}
	s.must(w.Commit())
	if !s.has("k", 1, 7) {
		t.Error("a bit of an object that was built is lost")
	}
	s.wantConsistent()
}

// The space of everything comes back after everything was removed.
func TestReclaim_all(t *testing.T) {
	const size = 2 << 20
	s := openStore(t, &kv.Options{FS: vfs.NewMem(), Durability: kv.NoSync})
	s.must(s.buildLarge(t.Context(), "k", size/(8<<10), func(*kv.Builder) {}))
	s.must(s.CompactTables(t.Context()))
	s.must(s.DeleteAll(kv.NoSync))
	if !s.reclaim() {
		t.Error("nothing was reclaimed")
	}
	m, err := s.Metrics()
	s.must(err)
	if m.TableBytes > size/10 {
		t.Errorf("%d bytes in tables after everything was removed", m.TableBytes)
	}
	s.wantConsistent()
}

// What was staged for an object that could not be built goes with what was written of it.
func TestBuild_refused(t *testing.T) {
	s := openStore(t, inMemory())
	s.must(s.Write(kv.NoSync, [][]byte{[]byte("k")}, func(w *kv.Writer) error {
		_, err := w.Build(t.Context(), []byte("k"), bitsSpec(), func(b *kv.Builder) error {
			w.SetCounter(b.Object().Layers()[0], 0, 7)
			return errRefused
		})
		if !errors.Is(err, errRefused) {
			t.Errorf("Build = %v, want %v", err, errRefused)
		}
		_, err = w.Set([]byte("k"), []byte("v"), kv.SetOptions{})
		return err
	}))
	s.wantString("k", "v", 0)
	s.wantConsistent()
	if !s.reclaim() {
		t.Error("nothing was reclaimed of an object that could not be built")
	}
	if s.reclaim() {
		t.Error("something is left of an object that could not be built")
	}
	s.wantConsistent()
}

// clocked returns a store, and its clock in milliseconds.
func clocked(t *testing.T) (*store, *atomic.Int64) {
	t.Helper()
	now := &atomic.Int64{}
	now.Store(1_700_000_000_000)
	o := inMemory()
	o.Clock = func() time.Time { return time.UnixMilli(now.Load()) }
	return openStore(t, o), now
}

// sweep removes what has expired, and returns how many keys are left.
func (s *store) sweep() uint64 {
	s.t.Helper()
	sweepAll(s.t, s.DB)
	n, err := s.Size()
	s.must(err)
	return n
}

// A sweep waits for no transaction, which it would hold up others for, and removes what it left when that has ended.
func TestSweep_besideTransaction(t *testing.T) {
	s, now := clocked(t)
	at := now.Load() + 1000
	_, err := s.Set(kv.NoSync, []byte("k"), []byte("v"), kv.SetOptions{Expiry: at})
	s.must(err)
	now.Store(at)
	tx := s.exclusive()
	s.each("gate: waiting", func() {
		t.Error("a sweep waits for a transaction")
		_ = tx.Rollback()
	})
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Errorf("Sweep beside a transaction = %v", err)
	}
	s.must(tx.Rollback())
	if n := s.sweep(); n != 0 {
		t.Errorf("%d keys are left after a sweep", n)
	}
}

// A sweep of strings does not make lookups wait, which one of filters does.
func TestSweep_lookups(t *testing.T) {
	for _, filters := range []bool{false, true} {
		s, now := clocked(t)
		at := now.Load() + 1000
		for _, key := range []string{"a", "b"} {
			if filters {
				s.create(key)
				_, err := s.Expire(kv.NoSync, []byte(key), at, kv.ExpireAlways)
				s.must(err)
				continue
			}
			_, err := s.Set(kv.NoSync, []byte(key), []byte("v"), kv.SetOptions{Expiry: at})
			s.must(err)
		}
		now.Store(at)
		var ready []bool
		s.each("commit: started", func() { ready = append(ready, s.Ready()) })
		if n := s.sweep(); n != 0 {
			t.Errorf("%d keys are left after a sweep", n)
		}
		// A key whose lock is taken for a moment, by a commit that is being applied, is left to the next commit.
		if len(ready) == 0 || slices.Contains(ready, filters) {
			t.Errorf("filters %t: lookups go on during the commits of a sweep: %v", filters, ready)
		}
		s.wantConsistent()
	}
}

// What takes the place of a key that expires at the same moment is removed for what it is.
func TestSweep_sameTime(t *testing.T) {
	s, now := clocked(t)
	at := now.Load() + 1000
	expire := func(key string) {
		s.t.Helper()
		_, err := s.Expire(kv.NoSync, []byte(key), at, kv.ExpireAlways)
		s.must(err)
	}
	for _, key := range []string{"was a string", "stays a string", "source"} {
		s.must(setString(s, key, "v"))
		expire(key)
	}
	for _, key := range []string{"object", "was an object"} {
		s.create(key)
		s.set(key, 1, 7)
		expire(key)
	}
	s.must(s.Rename(kv.NoSync, []byte("object"), []byte("was a string")))
	s.must(s.Rename(kv.NoSync, []byte("source"), []byte("was an object")))
	s.wantConsistent()
	now.Store(at)
	if n := s.sweep(); n != 0 {
		t.Errorf("%d keys are left after a sweep", n)
	}
	s.wantConsistent()
}

// A sweep that could not write removes its keys when it can.
func TestSweep_fullDisk(t *testing.T) {
	disk := &gauge{FS: vfs.NewMem()}
	disk.free.Store(1 << 30)
	now := &atomic.Int64{}
	now.Store(1_700_000_000_000)
	db, err := kv.Open("store", eitherWay(&kv.Options{
		FS: disk, BallastSize: -1, MinFreeSpace: 1 << 20, Durability: kv.NoSync,
		Clock: func() time.Time { return time.UnixMilli(now.Load()) }, Logger: slog.New(slog.DiscardHandler),
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	at := now.Load() + 1000
	if _, err := db.Set(kv.NoSync, []byte("k"), []byte("v"), kv.SetOptions{Expiry: at}); err != nil {
		t.Fatal(err)
	}
	now.Store(at)
	disk.free.Store(0)
	for !errors.Is(db.Health(), kv.ErrNoSpace) {
		time.Sleep(time.Millisecond)
	}
	if _, err := db.Sweep(t.Context()); !errors.Is(err, kv.ErrNoSpace) {
		t.Errorf("Sweep = %v, want ErrNoSpace", err)
	}
	disk.free.Store(1 << 30)
	for db.Health() != nil {
		time.Sleep(time.Millisecond)
	}
	if _, err := db.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if n, err := db.Size(); n != 0 || err != nil {
		t.Errorf("%d keys, %v, after a sweep with room", n, err)
	}
}

// A reset of the counts that comes while they are read makes none of them negative.
func TestMetrics_resetMeanwhile(t *testing.T) {
	s := openStore(t, inMemory())
	done := make(chan struct{})
	s.create("k")
	writing := s.begin(func() error {
		defer close(done)
		for bit := range uint16(3000) {
			s.set("k", 1, bit)
			if err := s.Sync(); err != nil {
				return err
			}
			s.ResetStats()
		}
		return nil
	})
	for {
		m, err := s.Metrics()
		s.must(err)
		if m.Syncs > 1<<40 || m.CommitBytes > 1<<40 {
			t.Fatalf("%d syncs, %d bytes committed", m.Syncs, m.CommitBytes)
		}
		select {
		case <-done:
			writing.wait()
			return
		default:
		}
	}
}
