package storage

import (
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/kv/block"
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
