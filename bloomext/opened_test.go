package bloomext

import (
	"errors"
	"testing"
	"time"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// openForged opens a filter that has these parameters and layers, of which the oldest comes first, and returns the error.
func openForged(p scalableext.Params, layers ...kv.LayerSpec) error {
	_, err := openCounted(p, make([][format.NumCounters]uint64, len(layers)), layers...)
	return err
}

// openCounted is openForged for layers with counters.
func openCounted(p scalableext.Params, counters [][format.NumCounters]uint64, layers ...kv.LayerSpec) (*kv.Object, error) {
	o, _, err := kv.Detached(bloomType, forgedHeader(p, layers), counters, nil)
	return o, err
}

func forgedHeader(p scalableext.Params, layers []kv.LayerSpec) *format.Header {
	p.Capacity, p.ErrorRate, p.Hash = max(p.Capacity, 1), 0.5, hash.NewXXH64(7)
	h := &format.Header{TypeName: bloomType.Name, Module: "bf", TypeVersion: 1, ID: 1, Family: block.FamilyBits, Params: p.Append(nil), Layers: layers}
	for i := range h.Layers {
		h.Layers[i].Number = uint64(i)
	}
	return h
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

// Layers of several layouts are not opened, nor blocks of slots.
func TestOpenFilter_damaged(t *testing.T) {
	layer, err := layerSpec(100, 0.01)
	if err != nil {
		t.Fatal(err)
	}
	compatible := compatibleLayer(t)
	native := scalableext.Params{Growth: scalableext.Native, Expansion: 2}
	halving := scalableext.Params{Growth: scalableext.Halving, Expansion: 2}
	for name, c := range map[string]struct {
		params scalableext.Params
		family block.Family
		layers []kv.LayerSpec
		want   error
	}{
		"native layers":                  {native, block.FamilyBits, []kv.LayerSpec{layer, layer}, nil},
		"compatible layers":              {halving, block.FamilyBits, []kv.LayerSpec{compatible, compatible}, nil},
		"a native layer is the newest":   {native, block.FamilyBits, []kv.LayerSpec{compatible, layer}, kv.ErrCorrupt},
		"a compatible one is the newest": {halving, block.FamilyBits, []kv.LayerSpec{layer, compatible}, kv.ErrCorrupt},
		"slots":                          {native, block.FamilySlots8, []kv.LayerSpec{layer}, kv.ErrCorrupt},
		"slots of the compatible layout": {halving, block.FamilySlots8, []kv.LayerSpec{compatible}, kv.ErrCorrupt},
	} {
		h := forgedHeader(c.params, c.layers)
		h.Family = c.family
		if _, _, err := kv.Detached(bloomType, h, make([][format.NumCounters]uint64, len(c.layers)), nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
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
		"no layers":                        {logged, nil, kv.ErrCorrupt},
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

// Counters that no layer can have are not opened, and those that a layer cannot have beside others are found by a check.
func TestCounters_damaged(t *testing.T) {
	layer, err := layerSpec(100, 0.01)
	if err != nil {
		t.Fatal(err)
	}
	params, err := decodeLayerParams(layer.Params)
	if err != nil {
		t.Fatal(err)
	}
	hashes := uint64(params.hashes)
	native := scalableext.Params{Growth: scalableext.Native, Expansion: 2}
	logged := scalableext.Params{Growth: scalableext.Logged, Expansion: 2, Log: scalableext.Log{Limit: 1 << 20, Filling: 3}}
	type counters = [format.NumCounters]uint64
	one := func(items, ones, flags, filled uint64) []counters { return []counters{{items, ones, flags, filled}} }
	const most = 1 << 17 // hashes of the log
	log := func(length, items, filled uint64) []counters {
		return []counters{{length}, {items, items}, {0, 0, 0, filled}}
	}
	compatible, spec := compatibleLayer(t), []kv.LayerSpec{layer}
	withLog := []kv.LayerSpec{logged.LogSpec(), layer, layer}
	for name, c := range map[string]struct {
		params       scalableext.Params
		layers       []kv.LayerSpec
		counters     []counters
		open, verify error
	}{
		"nothing":                   {native, spec, one(0, 0, 0, 0), nil, nil},
		"full":                      {native, spec, one(100, 100*hashes, 0, 0), nil, nil},
		"one bit for each item":     {native, spec, one(100, 100, 0, 0), nil, nil},
		"more items than capacity":  {native, spec, one(101, 101, 0, 0), nil, kv.ErrCorrupt},
		"too many bits for items":   {native, spec, one(1, hashes+1, 0, 0), nil, kv.ErrCorrupt},
		"too few bits for items":    {native, spec, one(2, 1, 0, 0), nil, kv.ErrCorrupt},
		"items beyond all":          {native, spec, one(scalableext.MaxCount+1, 0, 0, 0), kv.ErrCorrupt, nil},
		"bits beyond the layer":     {native, spec, one(1, layer.Bytes()*8+1, 0, 0), kv.ErrCorrupt, nil},
		"an unknown flag":           {native, spec, one(1, 1, flagEstimated+1, 0), kv.ErrCorrupt, nil},
		"filled from the longest":   {native, spec, one(1, 1, 0, scalableext.MaxLogBytes/8), nil, nil},
		"filled beyond the longest": {native, spec, one(1, 1, 0, scalableext.MaxLogBytes/8+1), kv.ErrCorrupt, nil},
		"compatible, any items": {
			scalableext.Params{Growth: scalableext.Halving, Expansion: 2}, []kv.LayerSpec{compatible}, one(1<<63, 1, 0, 0), nil, nil,
		},
		"a log, filled in":             {logged, withLog, log(100, 100, 100), nil, nil},
		"more filled in than there is": {logged, withLog, log(100, 100, 101), nil, kv.ErrCorrupt},
		"a log as long as may be":      {logged, withLog, log(most, 100, 0), nil, kv.ErrCorrupt}, // of a hundred items
		"a log beyond its limit":       {logged, withLog, log(most+1, 100, 0), kv.ErrCorrupt, nil},
		"a log of as many hashes":      {logged, withLog, log(1<<16+800, 100, 0), nil, nil},
		"a log of a hash more":         {logged, withLog, log(1<<16+801, 100, 0), nil, kv.ErrCorrupt},
		"a layer that is filled":       {logged, withLog, []counters{{1}, {1, 1}, {scalableext.MaxCount + 1}}, kv.ErrCorrupt, nil},
	} {
		o, err := openCounted(c.params, c.counters, c.layers...)
		if !errors.Is(err, c.open) {
			t.Errorf("%s: opened: %v, want %v", name, err, c.open)
		}
		if err != nil {
			continue
		}
		f := o.Body().(*filter)
		err = f.checkFilled()
		if l := &f.layers[0]; l.flat == nil {
			err = errors.Join(err, l.checkItems(l.table.Counter(itemsCounter), l.table.Counter(onesCounter)))
		}
		if !errors.Is(err, c.verify) {
			t.Errorf("%s: checked: %v, want %v", name, err, c.verify)
		}
	}
}
