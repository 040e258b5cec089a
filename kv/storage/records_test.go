package storage

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/kv/format"
)

// randomKey returns one of few keys. Some begin alike, and one is the beginning of another.
func randomKey(rng *rand.Rand) []byte {
	switch rng.IntN(4) {
	case 0:
		return format.AppendKeyCountKey(nil, uint8(rng.IntN(5)))
	case 1:
		return format.AppendHeaderKey(nil, uint64(rng.IntN(3)), bytes.Repeat([]byte("k"), rng.IntN(5)))
	}
	hash := uint64(rng.IntN(300))
	return format.AppendHeaderKey(nil, hash*0x9e3779b97f4a7c15, fmt.Append(nil, "key:", hash))
}

// An index has the newest value of each key. Its batch has them in the order of the keys, and is not larger than was
// estimated.
func TestGroup_records(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	var g group
	for round := range 20 { // an index that was emptied is as good as a new one
		want := make(map[string][]byte)
		for range rng.IntN(1000) {
			c := &SmallCommit{}
			for range 1 + rng.IntN(2) {
				value := bytes.Repeat([]byte{byte(rng.IntN(256))}, rng.IntN(40))
				c.Records = append(c.Records, Record{randomKey(rng), value})
			}
			g.size += c.measure()
			before := len(want)
			for _, r := range c.Records {
				want[string(r.Key)] = r.Value
			}
			if n := g.add(c); n != len(want)-before {
				t.Fatalf("a commit has %d new keys, want %d", n, len(want)-before)
			}
			key := randomKey(rng)
			value, there := want[string(key)]
			if e := g.records.find(key); (e != nil) != there || e != nil && !bytes.Equal(g.records.valueOf(e), value) {
				t.Fatalf("round %d: key %x is found: %t, with another value or against what was set", round, key, e != nil)
			}
		}
		batch := new(pebble.Batch)
		new(flushScratch).build(batch, &g)
		if size := CommitSize(batch); size > g.size && !batch.Empty() {
			t.Errorf("the batch takes %d bytes, estimated were %d at most", size, g.size)
		}
		var keys []string
		EachChange(batch, func(kind Kind, key, value []byte) bool {
			if kind != KindSet || !bytes.Equal(want[string(key)], value) {
				t.Errorf("the batch has kind %d, %x = %x, want %x", kind, key, value, want[string(key)])
			}
			keys = append(keys, string(key))
			return true
		})
		if len(keys) != len(want) || !slices.IsSorted(keys) {
			t.Errorf("the batch has %d keys, sorted: %t, want %d", len(keys), slices.IsSorted(keys), len(want))
		}
		g.reset()
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
