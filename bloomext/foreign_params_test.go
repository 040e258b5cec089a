package bloomext

import (
	"encoding/hex"
	"errors"
	"math"
	"testing"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// The stored bytes of version 1. Changing them changes the format.
func TestForeignParams_golden(t *testing.T) {
	for s, want := range map[scheme]string{
		schemeGuava32:       "01" + "0300" + "8002000000000000" + "000000000000c03f" + "9300000000000000",
		schemeGuava64:       "02" + "0300" + "8002000000000000" + "000000000000c03f" + "9300000000000000",
		schemeBitsAndBlooms: "03" + "0300" + "8002000000000000" + "000000000000c03f" + "9300000000000000",
		schemeRedisson:      "04" + "0300" + "8002000000000000" + "000000000000c03f" + "9300000000000000",
	} {
		p := newForeign(s, 640, 3)
		if got := hex.EncodeToString(p.appendForeign(nil)); got != want {
			t.Errorf("%v: %s, want %s", s, got, want)
		}
		if got, err := decodeForeignParams(p.appendForeign(nil)); got != p || err != nil {
			t.Errorf("%v: decoded %+v, %v, want %+v", s, got, err, p)
		}
		if l := p.spec(); l.Layout != 2 || l.Blocks != 1 || l.Lines != 2 {
			t.Errorf("%v: layout %d, %d blocks of %d lines", s, l.Layout, l.Blocks, l.Lines)
		}
	}
}

// Whatever is decoded is encoded as it was.
func FuzzForeignParams(f *testing.F) {
	for s := schemeGuava32; s < numSchemes; s++ {
		f.Add(newForeign(s, 640, 3).appendForeign(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := decodeForeignParams(b)
		switch {
		case err != nil && !errors.Is(err, kv.ErrCorrupt) && !errors.Is(err, kv.ErrUnsupportedVersion):
			t.Fatal(err)
		case err == nil && string(p.appendForeign(nil)) != string(b):
			t.Errorf("%x decodes to %+v", b, p)
		case err == nil:
			_ = p.scheme.String() // does not panic
		}
	})
}

// A filter with the lowest number of bits, or the highest of hashes, has a capacity and an error rate.
func TestNewForeign(t *testing.T) {
	for _, tt := range []struct {
		bits, hashes, capacity uint64
		rate                   float64
	}{{1, 1, 1, 0.5}, {1, 1100, 1, math.SmallestNonzeroFloat64}, {1 << 46, 7, 6967985232327, 1.0 / 128}} {
		p := newForeign(schemeBitsAndBlooms, tt.bits, tt.hashes)
		if p.capacity != tt.capacity || p.rate != tt.rate {
			t.Errorf("%d bits, %d hashes: capacity %d, rate %g, want %d and %g", tt.bits, tt.hashes, p.capacity, p.rate, tt.capacity, tt.rate)
		}
		if _, err := decodeForeignParams(p.appendForeign(nil)); err != nil {
			t.Error(err)
		}
		s := p.spec()
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	}
}

// Layers that no filter has are not opened.
func TestForeign_damaged(t *testing.T) {
	open := func(p scalableext.Params, layers ...kv.LayerSpec) error {
		h := &format.Header{TypeName: bloomType.Name, Module: "bf", TypeVersion: 1, ID: 1, Family: block.FamilyBits, Params: p.Append(nil), Layers: layers}
		for i := range h.Layers {
			h.Layers[i].Number = uint64(i)
		}
		_, _, err := kv.Detached(bloomType, h, make([][format.NumCounters]uint64, len(h.Layers)), nil)
		return err
	}
	murmur := scalableext.Params{Capacity: 10, ErrorRate: 0.5, Hash: hash.NewMurmur3()}
	highway := murmur
	highway.Hash = hash.NewHighway()
	grows := murmur
	grows.Expansion = 2
	halving := murmur
	halving.Growth = scalableext.Halving
	guava, redisson := newForeign(schemeGuava64, 640, 3), newForeign(schemeRedisson, 640, 3)
	with := func(at int, v ...byte) kv.LayerSpec {
		s := guava.spec()
		copy(s.Params[at:], v)
		return s
	}
	short, lines, blocks := guava.spec(), guava.spec(), guava.spec()
	short.Params = short.Params[1:]
	lines.Lines++
	blocks.Blocks++
	for name, tt := range map[string]struct {
		chain  scalableext.Params
		layers []kv.LayerSpec
		want   error
	}{
		"whole":                   {murmur, []kv.LayerSpec{guava.spec()}, nil},
		"whole, of Redisson":      {highway, []kv.LayerSpec{redisson.spec()}, nil},
		"two layers":              {murmur, []kv.LayerSpec{guava.spec(), guava.spec()}, kv.ErrCorrupt},
		"grows":                   {grows, []kv.LayerSpec{guava.spec()}, kv.ErrCorrupt},
		"RedisBloom's growth":     {halving, []kv.LayerSpec{guava.spec()}, kv.ErrCorrupt},
		"another hash":            {highway, []kv.LayerSpec{guava.spec()}, kv.ErrCorrupt},
		"Redisson's other hash":   {murmur, []kv.LayerSpec{redisson.spec()}, kv.ErrCorrupt},
		"a later scheme":          {murmur, []kv.LayerSpec{with(0, 5)}, kv.ErrUnsupportedVersion},
		"no scheme":               {murmur, []kv.LayerSpec{with(0, 0)}, kv.ErrCorrupt},
		"no hashes":               {murmur, []kv.LayerSpec{with(1, 0)}, kv.ErrCorrupt},
		"too many hashes":         {murmur, []kv.LayerSpec{with(1, 77, 4)}, kv.ErrCorrupt},
		"no bits":                 {murmur, []kv.LayerSpec{with(3, 0, 0)}, kv.ErrCorrupt},
		"too many bits":           {murmur, []kv.LayerSpec{with(9, 0xff)}, kv.ErrCorrupt},
		"rate 0":                  {murmur, []kv.LayerSpec{with(17, 0, 0)}, kv.ErrCorrupt},
		"no capacity":             {murmur, []kv.LayerSpec{with(19, 0)}, kv.ErrCorrupt},
		"another number of lines": {murmur, []kv.LayerSpec{lines}, kv.ErrCorrupt},
		"more blocks":             {murmur, []kv.LayerSpec{blocks}, kv.ErrCorrupt},
		"a byte less":             {murmur, []kv.LayerSpec{short}, kv.ErrCorrupt},
	} {
		if err := open(tt.chain, tt.layers...); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

// Numbers of MURMUR128_MITZ_32 are below 2^31: in a larger array they are the bits themselves, and the estimate of the items
// counts those alone.
func TestForeign_large(t *testing.T) {
	p := newForeign(schemeGuava32, 1<<33, 5)
	h := &format.Header{
		TypeName: bloomType.Name, Module: "bf", TypeVersion: 1, ID: 1, Family: block.FamilyBits,
		Params: scalableext.Params{Capacity: 10, ErrorRate: 0.5, Hash: hash.NewMurmur3()}.Append(nil), Layers: []kv.LayerSpec{p.spec()},
	}
	o, _, err := kv.Detached(bloomType, h, make([][format.NumCounters]uint64, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	l := o.Body().(*filter).newest.flat
	highest := uint64(0)
	for i := range uint64(200) {
		item := hash.NewXXH64(i).Sum(scalableext.Uint64(i))
		p := l.scheme.pair([]byte{byte(item), byte(item >> 8), byte(item >> 16)})
		for j := range uint64(5) {
			n := l.number(p, j)
			if l.place(n) != n {
				t.Fatalf("number %d is bit %d", n, l.place(n))
			}
			highest = max(highest, n)
		}
	}
	if highest >= 1<<31 || highest < 1<<30 || l.length != 1<<31 {
		t.Errorf("the highest number is %d, the length %d", highest, l.length)
	}
}
