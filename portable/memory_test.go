package portable_test

import (
	"bytes"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/sievekv/sievekv"
	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
)

// heap is how much memory is in use beyond what was in use at first. It is looked at from time to time.
type heap struct {
	first, most uint64
	seen, next  int
}

// inUse returns how much memory is in use.
func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// passed is called when the given number of bytes has been read or written. It looks after each MiB.
func (h *heap) passed(n int) {
	if h.seen += n; h.seen >= h.next {
		h.next = h.seen + 1<<20
		h.most = max(h.most, inUse())
	}
}

// used returns the most memory that was used.
func (h *heap) used() uint64 { return h.most - min(h.first, h.most) }

func (h *heap) Write(p []byte) (int, error) { h.passed(len(p)); return len(p), nil }

type heapReader struct {
	*bytes.Reader
	*heap
}

func (r heapReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.passed(n)
	return n, err
}

// Export and Import need as little memory for a large filter as for any other: a few chunks, beside what the store keeps
// in memory.
func TestMemory(t *testing.T) {
	const kept = 24 << 20 // memtables and caches, also if Pebble is behind
	from := open(t, 1)
	must(t, from.Bloom("k").Reserve(sievekv.Capacity(40_000_000, 0.01), nil))
	fill(t, from.Bloom("k"), 4_000_000)
	file := export(t, from, "k")
	if len(file) < 2*kept {
		t.Fatalf("the file has %d bytes, want %d and more", len(file), 2*kept)
	}
	b, err := sievekv.Open(filepath.Join(t.TempDir(), "b"), &sievekv.Options{CacheSize: 256 << 10, MemTableSize: 1 << 20, BallastSize: -1})
	must(t, err)
	defer func() { must(t, b.Close()) }()
	in := &heap{first: inUse()}
	must(t, b.Import(t.Context(), "k", heapReader{bytes.NewReader(file), in}))
	if in.seen < len(file) || in.used() > kept {
		t.Errorf("Import used %d bytes of memory for a file of %d", in.used(), in.seen)
	}
	out := &heap{first: inUse()}
	must(t, b.Export(t.Context(), "k", out))
	if out.seen != len(file) || out.used() > kept {
		t.Errorf("Export used %d bytes of memory for a file of %d", out.used(), out.seen)
	}
	runtime.KeepAlive(file)
}
