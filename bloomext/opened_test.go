package bloomext

import (
	"errors"
	"testing"
	"time"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/format"
	"github.com/sievekv/sievekv/kv/hash"
	"github.com/sievekv/sievekv/scalableext"
)

// openForged opens a filter that has these parameters and layers, of which the oldest comes first, and returns the error.
func openForged(p scalableext.Params, layers ...kv.LayerSpec) error {
	p.Capacity, p.ErrorRate, p.Hash = max(p.Capacity, 1), 0.5, hash.NewXXH64(7)
	h := &format.Header{TypeName: bloomType.Name, Module: "bf", TypeVersion: 1, ID: 1, Family: block.FamilyBits, Params: p.Append(nil), Layers: layers}
	for i := range h.Layers {
		h.Layers[i].Number = uint64(i)
	}
	_, _, err := kv.Detached(bloomType, h, make([][format.NumCounters]uint64, len(h.Layers)), nil)
	return err
}

// compatibleLayer is a layer with the compatible layout.
func compatibleLayer(t *testing.T) kv.LayerSpec {
	t.Helper()
	p, ok := newFlat(100, 0.01, optionForce64, 2)
	if !ok {
		t.Fatal("no compatible layer")
	}
	return p.spec()
}

// Slices that no window has are not opened.
func TestOpenSlices_damaged(t *testing.T) {
	slices := func(starts ...int64) (layers []kv.LayerSpec) {
		for _, start := range starts {
			spec, err := startedSpec(100, 0.01, start)
			if err != nil {
				t.Fatal(err)
			}
			layers = append(layers, spec)
		}
		return layers
	}
	span := scalableext.Params{Growth: scalableext.Windowed, Expansion: 2, Window: scalableext.Window{Span: time.Second, Slices: 2}}
	last := scalableext.Params{Growth: scalableext.Windowed, Capacity: 10, Window: scalableext.Window{Last: 10, Slices: 2}}
	for name, c := range map[string]struct {
		params scalableext.Params
		layers []kv.LayerSpec
		want   error
	}{
		"as many slices as there may be":       {span, slices(1000, 1500, 2000), nil},
		"one slice more":                       {span, slices(1000, 1500, 2000, 2500), kv.ErrCorrupt},
		"several layers of a slice":            {span, slices(1000, 1000, 1500, 1500, 2000, 2000), nil},
		"a slice that began too soon":          {span, slices(1000, 1499), kv.ErrCorrupt},
		"a slice that began before the last":   {span, slices(2000, 1000), kv.ErrCorrupt},
		"one slice that never began":           {span, slices(0), nil},
		"an older slice that never began":      {span, slices(0, 1000), kv.ErrCorrupt},
		"another layout":                       {span, append([]kv.LayerSpec{compatibleLayer(t)}, slices(2000)...), kv.ErrCorrupt},
		"last, as many slices as there may be": {last, slices(1, 2, 3), nil},
		"last, one slice more":                 {last, slices(1, 2, 3, 4), kv.ErrCorrupt},
		"last, a slice twice":                  {last, slices(2, 1), kv.ErrCorrupt},
		"last, a slice without a number":       {last, slices(0), kv.ErrCorrupt},
	} {
		if err := openForged(c.params, c.layers...); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// A log that is not as parameters say, and what is filled from none, are not opened.
func TestOpenLog_damaged(t *testing.T) {
	layer, err := layerSpec(100, 0.01)
	if err != nil {
		t.Fatal(err)
	}
	logged := scalableext.Params{Growth: scalableext.Logged, Expansion: 2, Log: scalableext.Log{Limit: 100_000}}
	log := logged.LogSpec()
	narrow, short, one := log, log, log
	narrow.Lines--
	short.Blocks--
	one.Blocks = 1
	compatible := compatibleLayer(t)
	of := func(limit, filling uint64) scalableext.Params {
		p := logged
		p.Log = scalableext.Log{Limit: limit, Filling: filling}
		return p
	}
	native := logged
	native.Growth, native.Log = scalableext.Native, scalableext.Log{}
	for name, c := range map[string]struct {
		params scalableext.Params
		layers []kv.LayerSpec
		want   error
	}{
		"no log yet":                       {logged, []kv.LayerSpec{layer}, nil},
		"a log":                            {logged, []kv.LayerSpec{layer, log, layer}, nil},
		"what is filled":                   {of(100_000, 4), []kv.LayerSpec{layer, log, layer, layer, layer}, nil},
		"two logs":                         {logged, []kv.LayerSpec{layer, log, layer, log}, kv.ErrCorrupt},
		"a log of another rule":            {native, []kv.LayerSpec{log, layer}, kv.ErrCorrupt},
		"a log of other blocks":            {logged, []kv.LayerSpec{narrow, layer}, kv.ErrCorrupt},
		"a log too short for its limit":    {logged, []kv.LayerSpec{short, layer}, kv.ErrCorrupt},
		"a log of one block":               {of(8, 0), []kv.LayerSpec{one, layer}, kv.ErrCorrupt},
		"a log that should have ended":     {of(0, 0), []kv.LayerSpec{log, layer}, kv.ErrCorrupt},
		"a log alone":                      {logged, []kv.LayerSpec{log}, kv.ErrCorrupt},
		"what is filled is not there":      {of(100_000, 9), []kv.LayerSpec{log, layer}, kv.ErrCorrupt},
		"what is filled from no log":       {of(100_000, 2), []kv.LayerSpec{layer, layer}, kv.ErrCorrupt},
		"what is filled from a later log":  {of(100_000, 2), []kv.LayerSpec{layer, layer, log, layer}, kv.ErrCorrupt},
		"what is filled in another layout": {of(100_000, 3), []kv.LayerSpec{layer, log, compatible, layer}, kv.ErrCorrupt},
		"layers in another layout":         {logged, []kv.LayerSpec{log, compatible}, kv.ErrCorrupt},
	} {
		if err := openForged(c.params, c.layers...); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
