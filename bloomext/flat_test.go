package bloomext

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
	"github.com/sievekv/sievekv/tests/redisbloom"
)

// The stored bytes of version 1. Changing them changes the format.
func TestFlatParams_golden(t *testing.T) {
	p, ok := newFlat(100, 0.005, optionNoRound|optionForce64, 2)
	if !ok {
		t.Fatal("too large")
	}
	const want = "7b14ae47e17a743f" + "e9862fb2350e2640" + "6400000000000000" + "8004000000000000" + "08000000" + "00" + "05000000" + "02000000"
	if got := hex.EncodeToString(p.append(nil)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, err := decodeFlatParams(p.append(nil)); got != p || err != nil {
		t.Errorf("decoded %+v, %v, want %+v", got, err, p)
	}
}

// Whatever is decoded is valid, and is encoded as it was.
func FuzzFlatParams(f *testing.F) {
	p, _ := newFlat(100, 0.005, optionNoRound|optionForce64, 2)
	f.Add(p.append(nil))
	f.Add(p.append(nil)[:flatParamsLen-1])
	f.Add(append(p.append(nil), 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := decodeFlatParams(b)
		if err != nil {
			if !errors.Is(err, kv.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if !p.valid() || string(p.append(nil)) != string(b) {
			t.Errorf("%x decodes to %+v", b, p)
		}
	})
}

// A layer has the size of RedisBloom's, whatever the capacity and the error rate.
func TestNewFlat(t *testing.T) {
	for _, rate := range []float64{0.25, 0.1, 0.01, 0.001, 1e-9, 1e-300} {
		for capacity := uint64(1); capacity < 700; capacity++ {
			p, ok := newFlat(capacity, rate, optionForce64|optionNonScaling, 0)
			b, err := redisbloom.NewBloom(capacity, rate, 0, true)
			if err != nil || !ok {
				t.Fatal(err, ok)
			}
			got := fmt.Sprintf("bytes:%d bits:%d hashes:%d hashwidth:64 capacity:%d size:0 ratio:%g", p.bits/8, p.bits, p.hashes, p.capacity, p.rate)
			if want := b.Debug()[1]; got != want {
				t.Fatalf("%s, want %s", got, want)
			}
		}
	}
	for _, tt := range []struct {
		capacity uint64
		rate     float64
		ok       bool
	}{{1 << 36, 1e-300, false}, {1 << 35, 1e-300, true}, {1 << 63, 0.01, false}} {
		if _, ok := newFlat(tt.capacity, tt.rate, optionForce64, 2); ok != tt.ok {
			t.Errorf("capacity %d, error rate %g: fits %t", tt.capacity, tt.rate, ok)
		}
	}
}

// The remainder is exact for every divisor and dividend.
func TestFlat_place(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	edges := []uint64{0, 1, 2, 63, 64, 1 << 16, 1<<32 - 1, 1 << 32, 1<<46 - 64, 1 << 63, math.MaxUint64 - 1, math.MaxUint64}
	for range 20_000 {
		length := 1 + r.Uint64N(1<<r.IntN(47))
		l := flat{length: length, inverse: math.MaxUint64 / length}
		for _, x := range append(edges, length-1, length, length+1, length*(math.MaxUint64/length), length*(math.MaxUint64/length)-1, r.Uint64()) {
			if got := l.place(x); got != x%length {
				t.Fatalf("%d modulo %d is %d, want %d", x, length, got, x%length)
			}
		}
	}
}

// The logarithm is near that of package math, which is wrong by about a bit, and by far for the lowest rates.
func TestLogarithm(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	rates := []float64{0.01, 0.005, 0.001, 0.25, 0.5, 1e-300, math.Nextafter(1, 0)}
	for range 300 {
		rates = append(rates, math.Exp(-40*r.Float64()))
	}
	for _, rate := range rates {
		got := logarithm(rate)
		if want := math.Log(rate); math.Abs(got-want) > 4e-16*math.Abs(want) {
			t.Errorf("logarithm of %g is %g, want about %g", rate, got, want)
		}
	}
	for rate, want := range map[float64]float64{0.01: -4.605170185988091, 5e-324: -744.4400719213812} {
		if got := logarithm(rate); got != want {
			t.Errorf("logarithm of %g is %v, want %v", rate, got, want)
		}
	}
}

// detached opens a filter with the compatible layout that belongs to no store.
func detached(change func(h *format.Header), layers ...flatParams) (*kv.Object, error) {
	p := scalableext.Params{Capacity: 10, ErrorRate: 0.5, Expansion: 2, Growth: scalableext.Halving, Hash: compatibleHash()}
	h := &format.Header{TypeName: bloomType.Name, Module: "bf", TypeVersion: 1, ID: 1, Family: block.FamilyBits, Params: p.Append(nil)}
	for i := range layers {
		l := layers[i].spec()
		l.Number = uint64(i)
		h.Layers = append(h.Layers, l)
	}
	change(h)
	o, _, err := kv.Detached(bloomType, h, make([][format.NumCounters]uint64, len(h.Layers)), nil)
	return o, err
}

// Layers that no filter has are not opened.
func TestCompatible_damaged(t *testing.T) {
	same := func(*format.Header) {}
	first, _ := newFlat(10, 0.01, 5, 2)
	second, _ := newFlat(20_000, 0.005, 5, 2)
	with := func(change func(p *flatParams)) []flatParams {
		p := second
		change(&p)
		return []flatParams{first, p}
	}
	native, err := layerSpec(100, 0.01)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(h *format.Header)
		layers []flatParams
		want   error
	}{
		"whole":                     {same, []flatParams{first, second}, nil},
		"another option":            {same, with(func(p *flatParams) { p.options = 7 }), kv.ErrCorrupt},
		"another expansion":         {same, with(func(p *flatParams) { p.expansion = 3 }), kv.ErrCorrupt},
		"no 64-bit hashes":          {same, with(func(p *flatParams) { p.options = 1 }), kv.ErrCorrupt},
		"another k":                 {same, with(func(p *flatParams) { p.hashes++ }), kv.ErrCorrupt},
		"no capacity":               {same, with(func(p *flatParams) { p.capacity = 0 }), kv.ErrCorrupt},
		"bits within a byte":        {same, with(func(p *flatParams) { p.bits++ }), kv.ErrCorrupt},
		"rate 1":                    {same, with(func(p *flatParams) { p.rate = 1 }), kv.ErrCorrupt},
		"n2 too large":              {same, with(func(p *flatParams) { p.n2 = 40 }), kv.ErrCorrupt},
		"another number of lines":   {func(h *format.Header) { h.Layers[0].Lines++ }, []flatParams{first}, kv.ErrCorrupt},
		"another number of blocks":  {func(h *format.Header) { h.Layers[1].Blocks++ }, []flatParams{first, second}, kv.ErrCorrupt},
		"a byte less":               {func(h *format.Header) { h.Layers[0].Params = h.Layers[0].Params[1:] }, []flatParams{first}, kv.ErrCorrupt},
		"a native layer":            {func(h *format.Header) { native.Number = 1; h.Layers[1] = native }, []flatParams{first, second}, kv.ErrCorrupt},
		"a layer of a later layout": {func(h *format.Header) { h.Layers[0].Layout = 4 }, []flatParams{first}, kv.ErrUnsupportedVersion},
	} {
		if _, err := detached(tt.change, tt.layers...); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

// Bits behind the end of the array are damage.
func TestCompatible_verifyEnd(t *testing.T) {
	p, _ := newFlat(10, 0.01, 5, 2) // 128 bits in a line of 512
	o, err := detached(func(*format.Header) {}, p)
	if err != nil {
		t.Fatal(err)
	}
	words := make([]uint64, 8)
	words[1] = 1 << 63
	if err := verify(o).Block(o.Layers()[0], 0, words); err != nil {
		t.Errorf("the last bit is set: %v", err)
	}
	words[2] = 1
	if err := verify(o).Block(o.Layers()[0], 0, words); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("a bit behind the end is set: %v", err)
	}
	p.bits = 8 * 13 // of a loaded filter
	if o, err = detached(func(*format.Header) {}, p); err != nil {
		t.Fatal(err)
	}
	for bit, want := range map[int]error{103: nil, 104: kv.ErrCorrupt} {
		clear(words)
		words[1] = 1 << (bit % 64)
		if err := verify(o).Block(o.Layers()[0], 0, words); !errors.Is(err, want) {
			t.Errorf("bit %d of 104: %v", bit, err)
		}
	}
}

// Lookups in resident blocks do not allocate, nor do adds of items that are present.
func TestCompatible_allocations(t *testing.T) {
	db, err := kv.Open("", &kv.Options{InMemory: true, Modules: coreext.With(Module())})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	f := New(db, "f").With(kv.NoSync)
	if err := f.Reserve(Config{Capacity: 50_000, ErrorRate: 0.01, Layout: scalableext.LayoutCompatible}); err != nil {
		t.Fatal(err)
	}
	items, present := make([][]byte, 10_000), make([]bool, 10_000)
	for i := range items {
		items[i] = scalableext.Uint64(uint64(i))
	}
	if _, err := f.AddMany(items, nil); err != nil {
		t.Fatal(err)
	}
	if err := f.MayContainMany(items, present); err != nil { // reads every block
		t.Fatal(err)
	}
	item := []byte("absent")
	for name, call := range map[string]func() error{
		"MayContain":     func() error { _, err := f.MayContain(item); return err },
		"MayContainMany": func() error { return f.MayContainMany(items[:5], present[:5]) },
		"Add":            func() error { _, err := f.Add(items[5]); return err },
	} {
		var err error
		if n := testing.AllocsPerRun(2000, func() { err = call() }); n != 0 || err != nil {
			t.Errorf("%s: %v allocations, %v", name, n, err)
		}
	}
}

// A filter that is full, and whose next layer would be larger than a layer can be, says so and keeps what it has.
func TestCompatible_cannotGrow(t *testing.T) {
	db, err := kv.Open("", &kv.Options{InMemory: true, Modules: coreext.With(Module()), MaxFilterBytes: 1 << 50})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		capacity  uint64
		expansion uint32
		want      string
	}{
		"more bits than a layer can have": {1 << 48, 2, "a layer of capacity 562949953421312 and error rate 0.005 would be too large"},
		"a capacity above 2^64":           {1 << 51, 1 << 13, "after a layer of capacity 2251799813685248 and error rate 0.01"},
	} {
		p, _ := newFlat(10, 0.01, optionForce64, tt.expansion)
		p.capacity = tt.capacity // as a dump may have it
		chain := scalableext.Params{Capacity: 10, ErrorRate: 0.01, Expansion: tt.expansion, Growth: scalableext.Halving, Hash: compatibleHash()}
		err := db.Write(kv.NoSync, [][]byte{[]byte(name)}, func(w *kv.Writer) error {
			o, err := w.Create([]byte(name), kv.Spec{Type: bloomType, Family: block.FamilyBits, Params: chain.Append(nil), Layers: []kv.LayerSpec{p.spec()}})
			if err == nil {
				w.SetCounter(o.Layers()[0], itemsCounter, tt.capacity)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		f := New(db, name)
		if ok, err := f.Add([]byte("item")); ok || !errors.Is(err, scalableext.ErrCannotGrow) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %t, %v, want %s", name, ok, err, tt.want)
		}
		if info, err := f.Info(); len(info.Layers) != 1 || err != nil {
			t.Errorf("%s: %+v, %v", name, info, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
