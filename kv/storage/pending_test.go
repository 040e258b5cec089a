package storage

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/format"
	"github.com/sievekv/sievekv/kv/probe"
)

// A commit counts as pending before it has a number. Otherwise a sync could read the number, find nothing to flush,
// and count the commit as durable while it is still pending.
func TestAppend_countedFirst(t *testing.T) {
	var s *Store
	paused := 0
	opts := Options{
		FS: vfs.NewMem(), InMemory: true, TableCacheSize: 1 << 20, MemTableSize: 1 << 20,
		Logger: slog.New(slog.DiscardHandler), Failed: func(error) {},
		Pause: func(point string) {
			if point != "append: numbered" {
				return
			}
			paused++
			if last, _ := s.Numbers(); last != 1 || Pending(s) != 1 {
				t.Errorf("the last commit has number %d and %d are pending, want 1 and 1", last, Pending(s))
			}
		},
	}
	var err error
	s, err = Open("store", opts)
	if err != nil {
		t.Fatal(err)
	}
	var bits block.BitSet
	bits.Add(7)
	c := SmallCommit{Blocks: []BlockBits{{Layer: Layer{Object: 1}, Bits: &bits}}}
	if appended, _ := s.Append(&c, new(atomic.Uint64)); !appended || paused != 1 {
		t.Errorf("appended %t, and paused %d times, want once", appended, paused)
	}
	s.End(func() bool { return false })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func openPending(t *testing.T) *Store {
	t.Helper()
	s, err := Open("store", Options{
		FS: vfs.NewMem(), InMemory: true, TableCacheSize: 1 << 20, MemTableSize: 256 << 20,
		Logger: slog.New(slog.DiscardHandler), Failed: func(error) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.End(func() bool { return false })
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// However much is pending while a flush is under way, it fits into a batch, and nothing is lost. The commit that makes it
// much asks for a flush.
func TestAppend_limits(t *testing.T) {
	layout, err := probe.NewLayout(50, 128, 6, 1)
	if err != nil {
		t.Fatal(err)
	}
	for name, draw := range map[string]func(rng *rand.Rand) *SmallCommit{
		"items": func(rng *rand.Rand) *SmallCommit {
			bits, h := new(block.BitSet), rng.Uint64()
			blk, _ := layout.Block(h)
			bits.AddItems(&layout, []uint64{h}, []bool{true}, 1, 1)
			return &SmallCommit{Blocks: []BlockBits{{Layer{Object: 1}, blk, bits}}}
		},
		"many items": func(rng *rand.Rand) *SmallCommit {
			bits, hashes, added := new(block.BitSet), make([]uint64, 100), make([]bool, 100)
			for i := range hashes {
				hashes[i], added[i] = rng.Uint64()/layout.Blocks, true
			}
			bits.AddItems(&layout, hashes, added, len(hashes), len(hashes))
			return &SmallCommit{Blocks: []BlockBits{{Layer{Object: 1}, 0, bits}}}
		},
		"bits": func(rng *rand.Rand) *SmallCommit {
			bits := new(block.BitSet)
			for range 1000 {
				bits.Add(uint16(rng.Uint32()))
			}
			return &SmallCommit{Blocks: []BlockBits{{Layer{Object: 1}, rng.Uint64N(50), bits}}}
		},
		"slots": func(rng *rand.Rand) *SmallCommit {
			slots := []block.Slot{{Index: uint16(rng.IntN(2048)), Value: rng.Uint32()}, {Index: uint16(rng.IntN(2048)), Value: rng.Uint32()}}
			return &SmallCommit{Slots: []BlockSlots{{Layer{Object: 1}, rng.Uint64N(50), block.FamilySlots32, slots}}}
		},
		"records": func(rng *rand.Rand) *SmallCommit {
			return &SmallCommit{Records: []Record{{format.AppendHeaderKey(nil, rng.Uint64(), []byte("key")), make([]byte, 1000)}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, changed, rng := openPending(t), new(atomic.Uint64), rand.New(rand.NewPCG(1, 3))
			s.pending.flushes.Lock() // as if a flush were under way
			asked := 0
			for n := 1; ; n++ {
				appended, full := s.Append(draw(rng), changed)
				if full && asked == 0 {
					asked = n
				}
				if x := &s.pending.filling; len(x.data) > maxPendingBytes || len(x.changes) > maxPendingChanges || x.commits > MaxPending {
					t.Fatalf("%d bytes, %d changes, %d commits are pending", len(x.data), len(x.changes), x.commits)
				}
				if !appended {
					if asked < n/3 || asked > n*2/3 {
						t.Errorf("commit %d of %d asked for a flush", asked, n)
					}
					break
				}
			}
			size := s.pending.filling.size
			s.pending.flushes.Unlock()
			s.Flush()
			if got := int(s.stats.flushedBytes.Load()); got > size || got == 0 {
				t.Errorf("the batch has %d bytes, estimated were %d", got, size)
			}
			if err := s.failure(); err != nil {
				t.Error(err)
			}
			if appended, _ := s.Append(draw(rng), changed); !appended {
				t.Error("a commit has no room when all others are flushed")
			}
		})
	}
}

// A commit that sets many bits of one block, or changes many slots, is not pending.
func TestAppend_large(t *testing.T) {
	s := openPending(t)
	for _, n := range []int{1, MaxSmallBits, MaxSmallBits + 1, 3 * MaxSmallBits} {
		var bits block.BitSet
		for p := range n {
			bits.Add(uint16(p))
		}
		c := SmallCommit{Blocks: []BlockBits{{Layer: Layer{Object: 1}, Bits: &bits}}}
		if appended, _ := s.Append(&c, new(atomic.Uint64)); appended != (n <= MaxSmallBits) {
			t.Errorf("a commit of %d bits is pending: %t", n, appended)
		}
	}
	for _, n := range []int{1, MaxSmallSlots, MaxSmallSlots + 1} {
		c := SmallCommit{Slots: []BlockSlots{{Layer: Layer{Object: 2}, Family: block.FamilySlots8, Slots: make([]block.Slot, n)}}}
		if appended, _ := s.Append(&c, new(atomic.Uint64)); appended != (n <= MaxSmallSlots) {
			t.Errorf("a commit of %d slots is pending: %t", n, appended)
		}
	}
}

// Whoever reads a record finds the newest value: while it is pending, while it is flushed and a newer one is pending,
// and after that.
func TestAppend_records(t *testing.T) {
	var s *Store
	flushing := func() {}
	s, err := Open("store", Options{
		FS: vfs.NewMem(), InMemory: true, TableCacheSize: 1 << 20, MemTableSize: 1 << 20, FlushAfter: 1 << 62,
		Logger: slog.New(slog.DiscardHandler), Failed: func(error) {},
		Pause: func(point string) {
			if point == "flush: taken" {
				flushing()
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	key, never := format.AppendHeaderKey(nil, 7, []byte("k")), format.AppendHeaderKey(nil, 8, []byte("l"))
	set := func(value string) {
		t.Helper()
		c := &SmallCommit{Records: []Record{{key, []byte(value)}}}
		if appended, _ := s.Append(c, new(atomic.Uint64)); !appended {
			t.Fatal("no room")
		}
	}
	wantOf := func(what string, r Reader, want string) {
		t.Helper()
		value, closer, err := r.Get(key)
		if err != nil || string(value) != want {
			t.Errorf("%s: %q, %v, want %q", what, value, err, want)
			return
		}
		_ = closer.Close()
		if value, _, err := r.Get(never); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: a key that was never set has %q, %v", what, value, err)
		}
	}
	inRange := func(what, want string) {
		t.Helper()
		it, err := s.NewIterWithContext(t.Context(), &IterOptions{LowerBound: []byte{format.TagHeader}, UpperBound: []byte{format.TagHeader + 1}})
		if err != nil {
			t.Fatal(err)
		}
		if !it.First() || string(it.Value()) != want {
			t.Errorf("%s: a range begins with another value than %q", what, want)
		}
		_ = it.Close()
	}
	set("one")
	wantOf("pending", s, "one")
	inRange("pending", "one")
	set("two")
	keys, done := s.Keys()
	wantOf("keys", keys, "two")
	set("three")
	wantOf("keys, later", keys, "two")
	done()
	snap, _ := s.Snapshot()
	set("four")
	wantOf("snapshot", snap, "three")
	_ = snap.Close()
	flushes := 0
	flushing = func() {
		flushes++
		wantOf("being flushed", s, "four")
		if flushes == 1 {
			set("five")
			wantOf("being flushed, and newer", s, "five")
		}
	}
	s.Flush()
	flushing = func() {}
	wantOf("newer", s, "five")
	s.Flush()
	wantOf("flushed", s, "five")
	if n := s.pending.recorded.Load(); n != 0 || flushes != 1 {
		t.Errorf("%d records are pending after %d flushes, want 0 after 1", n, flushes)
	}
	s.End(func() bool { return false })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
