package cuckooext

import (
	"errors"
	"testing"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// detached opens a filter with the compatible layout that belongs to no store, with layers of so many buckets of 4.
func detached(expansion uint32, change func(h *format.Header), buckets ...uint64) (*kv.Object, error) {
	p := scalableext.Params{Capacity: 4 * buckets[0], ErrorRate: 0.5, Expansion: expansion, Hash: compatibleHash()}
	h := &format.Header{TypeName: cuckooType.Name, Module: "cf", TypeVersion: 1, ID: 1, Family: compatibleFamily, Params: p.Append(nil)}
	for i, n := range buckets {
		l := compatibleSpec(4, 20, n)
		l.Number = uint64(i)
		h.Layers = append(h.Layers, l)
	}
	change(h)
	o, _, err := kv.Detached(cuckooType, h, make([][format.NumCounters]uint64, len(h.Layers)), nil)
	return o, err
}

// Layers that no filter has are not opened.
func TestCompatible_damaged(t *testing.T) {
	same := func(*format.Header) {}
	for name, tt := range map[string]struct {
		expansion uint32
		change    func(h *format.Header)
		buckets   []uint64
		want      error
	}{
		"whole":                    {2, same, []uint64{8, 16, 32}, nil},
		"large":                    {1, same, []uint64{1 << 12, 1 << 12}, nil},
		"another expansion":        {2, same, []uint64{8, 32}, kv.ErrCorrupt},
		"no power of two":          {2, same, []uint64{12}, kv.ErrCorrupt},
		"too many buckets":         {2, same, []uint64{1 << 30}, kv.ErrCorrupt},
		"a slot more":              {2, func(h *format.Header) { h.Layers[0].Params = layerParams{wholeBlocks, 4, 20, 33}.append(nil) }, []uint64{8}, kv.ErrCorrupt},
		"no slots":                 {2, func(h *format.Header) { h.Layers[0].Params = layerParams{wholeBlocks, 4, 20, 3}.append(nil) }, []uint64{8}, kv.ErrCorrupt},
		"another number of lines":  {2, func(h *format.Header) { h.Layers[0].Lines++ }, []uint64{8}, kv.ErrCorrupt},
		"another number of blocks": {2, func(h *format.Header) { h.Layers[0].Blocks++ }, []uint64{1 << 12}, kv.ErrCorrupt},
		"a native layer": {1, func(h *format.Header) {
			h.Layers[1] = kv.LayerSpec{Number: 1, Blocks: 1, Lines: 128, Params: layerParams{wholeBlocks, 4, 20, 8192}.append(nil)}
		}, []uint64{1 << 11, 1 << 11}, kv.ErrCorrupt},
		"a layer of a later layout": {1, func(h *format.Header) { h.Layers[0].Layout = 2 }, []uint64{8}, kv.ErrUnsupportedVersion},
	} {
		if _, err := detached(tt.expansion, tt.change, tt.buckets...); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}

	o, err := detached(1, same, 8)
	if err != nil {
		t.Fatal(err)
	}
	words := make([]uint64, 8) // a line, of which 32 slots are used
	words[3] = 1 << 56
	if err := verify(o).Block(o.Layers()[0], 0, words); err != nil {
		t.Errorf("the last slot is taken: %v", err)
	}
	words[4] = 1
	if err := verify(o).Block(o.Layers()[0], 0, words); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("a slot behind the last bucket is taken: %v", err)
	}
}
