package bitmapext

import "github.com/sievekv/sievekv/kv"

// Loads is a reader that counts what it reads, and calls Before each time before it reads a block.
type Loads struct {
	kv.Reader
	N, Counters int
	Before      func(n int)
}

// Counter reads a counter.
func (r *Loads) Counter(l *kv.Layer, i int) uint64 {
	r.Counters++
	return r.Reader.Counter(l, i)
}

// Load reads a block.
func (r *Loads) Load(o *kv.Object, l *kv.Layer, blk uint64) (*kv.Line, error) {
	r.N++
	if r.Before != nil {
		r.Before(r.N)
	}
	return r.Reader.Load(o, l, blk)
}

// InBlocksBy is InBlocks for such a reader.
func InBlocksBy(r *Loads, o *kv.Object) *String {
	s := InBlocks(r.Reader, o)
	s.from = r
	return s
}

// KnownLines returns how many lines of a block with set bits are known of a string in blocks, -1 if they are not.
func KnownLines(s *String, blk uint64) int {
	layer, n := place(blk)
	known := s.object.Body().(*lineTable).of(blk)
	if known.since != s.object.Memory().LastChange(s.object.Layers()[layer], n)+1 {
		return -1
	}
	return known.lines.len()
}
