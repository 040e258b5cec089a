package kv_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/kv"
)

// compactionFS tells of the first table that a compaction makes.
type compactionFS struct {
	vfs.FS
	once   sync.Once
	first  func()
	tables atomic.Int64 // made by compactions
}

func (c *compactionFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if category == "pebble-compaction" {
		c.tables.Add(1)
		if c.first != nil {
			c.once.Do(c.first)
		}
	}
	return c.FS.Create(name, category)
}

// fill writes n strings of 3,000 random bytes, under keys in random order.
func (s *store) fill(n int) error {
	rng := rand.NewChaCha8([32]byte{})
	for range n {
		value := make([]byte, 3000)
		rng.Read(value)
		if _, err := s.Set(kv.NoSync, fmt.Append(nil, rng.Uint64()), value, kv.SetOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// The compaction of a store that fails ends, whether it waits or is under way, no other begins, and nothing of them stays
// in memory.
func TestFailed_compaction(t *testing.T) {
	const memTable = 1 << 20
	broken := errors.New("broken by the test")
	for _, running := range []bool{false, true} {
		t.Run(fmt.Sprint("under way: ", running), func(t *testing.T) {
			disk := &compactionFS{FS: vfs.NewMem()}
			s := openStore(t, &kv.Options{FS: disk, MemTableSize: memTable})
			s.HoldCompactions()
			if err := s.fill(8 * memTable / 3000); err != nil {
				t.Fatal(err)
			}
			all := s.begin(func() error {
				if err := s.CompactTables(context.Background()); !errors.Is(err, kv.ErrFailed) {
					return fmt.Errorf("CompactTables = %w, want ErrFailed", err)
				}
				return nil
			})
			for !s.CompactionWaits() {
				runtime.Gosched()
			}
			if running {
				disk.first = func() {
					go s.Fail(broken) // waits for the call that this is part of
					for !s.Frozen() {
						runtime.Gosched()
					}
				}
				s.ReleaseCompactions()
				all.wait()
			} else {
				s.Fail(broken)
				all.wait()
				s.ReleaseCompactions()
			}
			s.AwaitCompactions()
			if n := s.KeptInMemory(); n > 3*memTable {
				t.Errorf("%d bytes of tables are in memory, more than the memtables", n)
			}
			if err := s.Close(); !errors.Is(err, kv.ErrFailed) {
				t.Errorf("Close = %v, want ErrFailed", err)
			}
		})
	}
}

// A commit that waits for level 0 to shrink when the store fails ends, though compactions do not begin any more.
func TestFailed_stalledCommit(t *testing.T) {
	s := openStore(t, &kv.Options{FS: vfs.NewMem(), MemTableSize: 256 << 10})
	s.HoldCompactions()
	writing := s.begin(func() error {
		if err := s.fill(1 << 20); !errors.Is(err, kv.ErrFailed) {
			return fmt.Errorf("Set = %w, want ErrFailed", err)
		}
		return nil
	})
	for !s.StalledByLevel0() {
		runtime.Gosched()
	}
	s.Fail(errors.New("broken by the test"))
	s.ReleaseCompactions()
	writing.wait()
	if err := s.Close(); !errors.Is(err, kv.ErrFailed) {
		t.Errorf("Close = %v, want ErrFailed", err)
	}
}

// Compactions go on after one was given up while it waited.
func TestScheduler_givenUp(t *testing.T) {
	s := openStore(t, &kv.Options{FS: vfs.NewMem()})
	if err := s.fill(10); err != nil {
		t.Fatal(err)
	}
	s.HoldCompactions()
	ctx, cancel := context.WithCancel(context.Background())
	givenUp := s.begin(func() error {
		if err := s.CompactTables(ctx); !errors.Is(err, context.Canceled) {
			return fmt.Errorf("CompactTables = %w, want Canceled", err)
		}
		return nil
	})
	for !s.CompactionWaits() {
		runtime.Gosched()
	}
	cancel()
	givenUp.wait()
	s.ReleaseCompactions()
	if err := s.CompactTables(context.Background()); err != nil {
		t.Errorf("CompactTables after one that was given up = %v", err)
	}
}

// Close waits neither for a compaction of the whole store, nor for its caller.
func TestClose_compactAll(t *testing.T) {
	for _, running := range []bool{false, true} {
		t.Run(fmt.Sprint("under way: ", running), func(t *testing.T) {
			disk := &compactionFS{FS: vfs.NewMem()}
			s := openStore(t, &kv.Options{FS: disk, MemTableSize: 2 << 20})
			s.HoldCompactions()
			if err := s.fill(12 << 20 / 3000); err != nil {
				t.Fatal(err)
			}
			all := s.begin(func() error {
				if err := s.CompactTables(context.Background()); !errors.Is(err, kv.ErrClosed) {
					return fmt.Errorf("CompactTables = %w, want ErrClosed", err)
				}
				return nil
			})
			for !s.CompactionAsked() {
				runtime.Gosched()
			}
			var closing *task
			if running {
				begun := make(chan struct{})
				disk.first = func() {
					closing = s.begin(s.DB.Close)
					for !s.GivenUp() {
						runtime.Gosched()
					}
					close(begun)
				}
				s.ReleaseCompactions()
				<-begun
			} else {
				closing = s.begin(s.DB.Close)
			}
			all.wait()
			closing.wait()
			if n := disk.tables.Load(); running && n > 1 {
				t.Errorf("%d tables were made by compactions, want the one that was begun", n)
			}
		})
	}
}

// While Pebble has a commit wait, lookups that open an object go on, also when others want to commit to several keys, or to
// have a view.
func TestStall_lookups(t *testing.T) {
	s := openStore(t, &kv.Options{FS: vfs.NewMem(), MemTableSize: 256 << 10})
	s.create("object")
	s.closeObject("object")
	s.HoldCompactions()
	stop := errors.New("enough")
	var enough atomic.Bool
	writing := s.begin(func() error {
		for !enough.Load() {
			if _, err := s.Set(kv.NoSync, []byte("a"), make([]byte, 3000), kv.SetOptions{}); err != nil {
				return err
			}
		}
		return stop
	})
	for !s.StalledByLevel0() {
		runtime.Gosched()
	}
	keys := [][]byte{s.KeyBeside("a", "b"), s.KeyBeside("a", "c")}
	begun := s.next("apply: wanted")
	several := s.begin(func() error {
		return s.DB.Write(kv.NoSync, keys, func(w *kv.Writer) error {
			_, err1 := w.Set(keys[0], nil, kv.SetOptions{})
			_, err2 := w.Set(keys[1], nil, kv.SetOptions{})
			return errors.Join(err1, err2)
		})
	})
	several.reaches(begun)
	begun.release()
	view := s.begin(func() error { return s.View(t.Context(), func(*kv.Transaction) error { return nil }) })
	wanted := false
	for i := 0; i < 1000 && !wanted; i++ {
		wanted = s.ApplyWanted()
		runtime.Gosched()
	}
	if wanted {
		t.Error("apply is wanted while a commit that waits shares it")
	} else if o, err := s.Lookup([]byte("object")); o == nil || err != nil {
		t.Errorf("Lookup = %v, %v", o, err)
	}
	enough.Store(true)
	s.ReleaseCompactions()
	if <-writing.done; !errors.Is(writing.err, stop) {
		t.Error(writing.err)
	}
	several.wait()
	view.wait()
}

// A commit that waits for level 0 to shrink when the disk gets full ends.
func TestStall_fullDisk(t *testing.T) {
	disk := &gauge{FS: vfs.NewMem()}
	disk.free.Store(1 << 40)
	s := &store{t: t, stops: newStops()}
	o := &kv.Options{FS: disk, BallastSize: -1, MinFreeSpace: 1 << 20, MemTableSize: 256 << 10, Logger: slog.New(slog.DiscardHandler)}
	var err error
	s.DB, err = kv.Open("store", eitherWay(o))
	s.must(err)
	s.HoldCompactions()
	writing := s.begin(func() error { return s.fill(1 << 20) })
	until(s.StalledByLevel0)
	disk.free.Store(1<<20 - 1)
	until(func() bool { return errors.Is(s.Health(), kv.ErrNoSpace) })
	s.ReleaseCompactions()
	if <-writing.done; !errors.Is(writing.err, kv.ErrNoSpace) {
		t.Errorf("Set = %v, want ErrNoSpace", writing.err)
	}
	_, err = s.Delete(kv.NoSync, []byte("k"))
	s.must(errors.Join(err, s.Close()))
}
