package bloomext

import (
	"errors"
	"math"
	"testing"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// A check compares the bits that are set with the counters of each layer, and makes a note of what is not likely.
func TestVerify_counters(t *testing.T) {
	spec, err := layerSpec(1000, 0.01)
	if err != nil {
		t.Fatal(err)
	}
	native := scalableext.Params{Growth: scalableext.Native, Expansion: 2}
	logged := scalableext.Params{Growth: scalableext.Logged, Expansion: 2, Log: scalableext.Log{Limit: 1 << 20, Filling: 3}}
	one, filling := []kv.LayerSpec{spec}, []kv.LayerSpec{logged.LogSpec(), spec, spec}
	halving, compatible := scalableext.Params{Growth: scalableext.Halving, Expansion: 2}, compatibleLayer(t)
	flat, err := decodeFlatParams(compatible.Params)
	if err != nil {
		t.Fatal(err)
	}
	o, err := openCounted(native, make([][format.NumCounters]uint64, 1), spec)
	if err != nil {
		t.Fatal(err)
	}
	l := &o.Body().(*filter).newest
	const items = 500
	mean, deviation := l.layout.ExpectedSet(l.layout.TriedItems(items))
	likely, more := uint64(mean), uint64(mean+7*deviation+0.02*items+2)
	if most := items * uint64(l.layout.Hashes); likely == 0 || more > most {
		t.Fatalf("%d bits, or %d, are not set by %d items", likely, more, items)
	}
	all := 2 * uint64(flat.hashes) // bits of two items
	type counters = [format.NumCounters]uint64
	for name, c := range map[string]struct {
		params   scalableext.Params
		layers   []kv.LayerSpec
		counters []counters // those of the last layer are compared
		set      uint64     // bits of the last layer
		hidden   bool
		want     error
		note     bool
	}{
		"what is likely":                    {params: native, layers: one, counters: []counters{{items, likely}}, set: likely},
		"a bit more than counted":           {params: native, layers: one, counters: []counters{{items, likely}}, set: likely + 1, want: kv.ErrCorrupt},
		"a bit less than counted":           {params: native, layers: one, counters: []counters{{items, likely}}, set: likely - 1, want: kv.ErrCorrupt},
		"hidden, a bit less than counted":   {params: native, layers: one, counters: []counters{{items, likely}}, set: likely - 1, hidden: true, want: kv.ErrCorrupt},
		"more items than bits":              {params: native, layers: one, counters: []counters{{2, 1}}, set: 1, want: kv.ErrCorrupt},
		"more items than bits, estimated":   {params: native, layers: one, counters: []counters{{2, 1, flagEstimated}}, set: 1},
		"more items than bits, half-loaded": {params: native, layers: one, counters: []counters{{2, 1}}, set: 1, hidden: true},
		"more bits than are likely":         {params: native, layers: one, counters: []counters{{items, more}}, set: more, note: true},
		"fewer bits than are likely":        {params: native, layers: one, counters: []counters{{items, items}}, set: items, note: true},
		"filled in, what is likely":         {params: logged, layers: filling, counters: []counters{{items}, {}, {items, likely, 0, items}}, set: likely},
		"filled in, a bit more":             {params: logged, layers: filling, counters: []counters{{items}, {}, {items, likely, 0, items}}, set: likely + 1, want: kv.ErrCorrupt},
		"filled in, more than there is":     {params: logged, layers: filling, counters: []counters{{items}, {}, {items, likely, 0, items + 1}}, set: likely, want: kv.ErrCorrupt},
		"filled in, fewer than are likely":  {params: logged, layers: filling, counters: []counters{{items}, {}, {items, items, 0, items}}, set: items, note: true},
		"filled in block by block":          {params: logged, layers: filling, counters: []counters{{items}, {}, {items, items}}, set: items},
		"filled in from no item":            {params: logged, layers: filling, counters: []counters{{items}, {}, {2, 1}}, set: 1, want: kv.ErrCorrupt},
		"compatible, as many as hashes": {
			params: halving, layers: []kv.LayerSpec{compatible}, counters: []counters{{2, all}}, set: all,
		},
		"compatible, more than hashes": {
			params: halving, layers: []kv.LayerSpec{compatible}, counters: []counters{{2, all + 1}}, set: all + 1, note: true,
		},
		"compatible, more than hashes, estimated": {
			params: halving, layers: []kv.LayerSpec{compatible}, counters: []counters{{2, all + 1, flagEstimated}}, set: all + 1,
		},
	} {
		h := forgedHeader(c.params, c.layers)
		h.Hidden = c.hidden
		o, _, err := kv.Detached(bloomType, h, c.counters, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		v, last := verify(o), o.Layers()[len(c.layers)-1]
		if err := v.Block(last, 0, withSet(int(last.Spec().Lines)*8, c.set)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if note, err := v.Done(); !errors.Is(err, c.want) || note != "" != c.note {
			t.Errorf("%s: %q, %v, want a note: %t, %v", name, note, err, c.note, c.want)
		}
	}
}

// withSet returns words of which the first bits are set.
func withSet(words int, set uint64) []uint64 {
	w := make([]uint64, words)
	for i := range set {
		w[i/64] |= 1 << (i % 64)
	}
	return w
}

// Nothing is behind the end of a log, unless the filter is lossy.
func TestVerify_log(t *testing.T) {
	spec, err := layerSpec(100, 0.01)
	if err != nil {
		t.Fatal(err)
	}
	logged := scalableext.Params{Growth: scalableext.Logged, Expansion: 2, Log: scalableext.Log{Limit: 1 << 20}}
	for name, c := range map[string]struct {
		blk   uint64
		last  int // the word of the block that is not 0
		lossy bool
		want  error
	}{
		"the last hash":                   {1, 9, false, nil},
		"a hash behind the end":           {1, 10, false, kv.ErrCorrupt},
		"an earlier block":                {0, 1023, false, nil},
		"a later block":                   {2, 0, false, kv.ErrCorrupt},
		"lossy, a hash behind the end":    {1, 10, true, nil},
		"the largest block that there is": {math.MaxUint64 / 1024, 0, false, kv.ErrCorrupt},
	} {
		h := forgedHeader(logged, []kv.LayerSpec{logged.LogSpec(), spec})
		h.Lossy = c.lossy
		o, _, err := kv.Detached(bloomType, h, [][format.NumCounters]uint64{{1034}, {}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		words := make([]uint64, 1024)
		words[c.last] = 1
		if err := verify(o).Block(o.Layers()[0], c.blk, words); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
