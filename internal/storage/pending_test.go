package storage

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/probe"
)

// A commit counts as pending before it has a number. Otherwise a sync could read the number, find nothing to flush,
// and count the commit as durable while it is still pending.
func TestPend_countedFirst(t *testing.T) {
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
	var b Batch
	b.SetCounters(1, 0, [format.NumCounters]uint64{7})
	if r, err := s.Commit(&b, Later); r.Number != 1 || err != nil || paused != 1 {
		t.Errorf("commit %d, %v, and paused %d times, want once", r.Number, err, paused)
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
func TestPend_limits(t *testing.T) {
	layout, err := probe.NewLayout(50, 128, 6, 1)
	if err != nil {
		t.Fatal(err)
	}
	for name, draw := range map[string]func(rng *rand.Rand, b *Batch){
		"items": func(rng *rand.Rand, b *Batch) {
			bits, h := new(block.BitSet), rng.Uint64()
			blk, _ := layout.Block(h)
			bits.AddItems(&layout, []uint64{h}, []bool{true}, 1, 1)
			b.SetBits(1, 0, blk, bits, true, nil)
		},
		"many items": func(rng *rand.Rand, b *Batch) {
			bits, hashes, added := new(block.BitSet), make([]uint64, 100), make([]bool, 100)
			for i := range hashes {
				hashes[i], added[i] = rng.Uint64()/layout.Blocks, true
			}
			bits.AddItems(&layout, hashes, added, len(hashes), len(hashes))
			b.SetBits(1, 0, 0, bits, true, nil)
		},
		"bits": func(rng *rand.Rand, b *Batch) {
			bits := new(block.BitSet)
			for range 1000 {
				bits.Add(uint16(rng.Uint32()))
			}
			b.SetBits(1, 0, rng.Uint64N(50), bits, true, nil)
		},
		"slots": func(rng *rand.Rand, b *Batch) {
			slots := []block.Slot{{Index: uint16(rng.IntN(1024)), Value: rng.Uint32()}, {Index: uint16(1024 + rng.IntN(1024)), Value: rng.Uint32()}}
			b.SetSlots(1, 0, rng.Uint64N(50), block.FamilySlots32, slots)
		},
		"records": func(rng *rand.Rand, b *Batch) {
			b.Set(format.AppendHeaderKey(nil, rng.Uint64(), []byte("key")), make([]byte, 1000))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, rng := openPending(t), rand.New(rand.NewPCG(1, 3))
			pend := func() (pending, full bool) {
				var b Batch
				draw(rng, &b)
				r, pending := s.pend(&b)
				return pending, r.full
			}
			s.pending.flushes.Lock() // as if a flush were under way
			asked := 0
			for n := 1; ; n++ {
				appended, full := pend()
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
			if appended, _ := pend(); !appended {
				t.Error("a commit has no room when all others are flushed")
			}
		})
	}
}

// A batch is pending if it only changes blocks and sets records that are found by their keys, and these are short.
func TestPend_what(t *testing.T) {
	s := openPending(t)
	items := func() *block.BitSet {
		layout, err := probe.NewLayout(5, 128, 6, 1)
		if err != nil {
			t.Fatal(err)
		}
		set := new(block.BitSet)
		set.AddItems(&layout, []uint64{7}, []bool{true}, 1, 6)
		return set
	}
	header := format.AppendHeaderKey(nil, 7, []byte("k"))
	for name, tt := range map[string]struct {
		change func(b *Batch)
		want   bool
	}{
		"items":         {func(b *Batch) { b.SetBits(1, 0, 0, items(), true, nil) }, true},
		"items at once": {func(b *Batch) { b.SetBits(1, 0, 0, items(), false, new([]uint16)) }, false},
		"many bits": {func(b *Batch) {
			var set block.BitSet
			for p := range 3 * block.MaxFew {
				set.Add(uint16(3 * p))
			}
			b.SetBits(1, 0, 0, &set, true, nil)
		}, true},
		"slots":           {func(b *Batch) { b.SetSlots(1, 0, 0, block.FamilySlots8, make([]block.Slot, 1)) }, true},
		"counters":        {func(b *Batch) { b.SetCounters(1, 0, [format.NumCounters]uint64{1}) }, true},
		"string":          {func(b *Batch) { b.Set(header, make([]byte, maxPendingRecord-len(header))) }, true},
		"long string":     {func(b *Batch) { b.Set(header, make([]byte, maxPendingRecord+1-len(header))) }, false},
		"number of keys":  {func(b *Batch) { b.Set(format.AppendKeyCountKey(nil, 9), []byte{1}) }, true},
		"identity":        {func(b *Batch) { b.Set(format.AppendMetaKey(nil, format.MetaStore), []byte{1}) }, false},
		"attribute":       {func(b *Batch) { b.Set(format.AppendAttributeKey(nil, 1, "a"), []byte{1}) }, false},
		"block":           {func(b *Batch) { b.Set(format.AppendBlockKey(nil, 1, 0, 0), []byte{1}) }, false},
		"expiry":          {func(b *Batch) { b.Set(format.AppendExpiryKey(nil, 7, []byte("k")), nil) }, false},
		"delete":          {func(b *Batch) { b.Delete(header) }, false},
		"range":           {func(b *Batch) { b.DeleteRange(header, []byte{format.TagHeader + 1}) }, false},
		"any operand":     {func(b *Batch) { b.Merge(format.AppendBlockKey(nil, 1, 0, 0), []byte{1}) }, false},
		"one that is not": {func(b *Batch) { b.SetCounters(1, 0, [format.NumCounters]uint64{1}); b.Delete(header) }, false},
	} {
		var b Batch
		tt.change(&b)
		if _, pending := s.pend(&b); pending != tt.want {
			t.Errorf("%s: pending is %t, want %t", name, pending, tt.want)
		}
	}
}

// Whoever reads a record finds the newest value: while it is pending, while it is flushed and a newer one is pending,
// and after that.
func TestPend_records(t *testing.T) {
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
		var b Batch
		b.Set(key, []byte(value))
		if _, err := s.Commit(&b, Later); err != nil {
			t.Fatal(err)
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
