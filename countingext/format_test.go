package countingext

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
)

var goldenLayer = layerParams{hashes: 7, linesPerItem: 2, rate: 0.5, capacity: 1000}

// The stored bytes of versions 1 and 2. Changing them changes the format.
func TestLayerParams_golden(t *testing.T) {
	const want = "07" + "02" + "000000000000e03f" + "e807"
	if got := hex.EncodeToString(goldenLayer.append(nil)); got != "01"+want {
		t.Errorf("layer parameters are %s, want 01%s", got, want)
	}
	next := goldenLayer
	next.ordered = true
	if got := hex.EncodeToString(next.append(nil)); got != "02"+want {
		t.Errorf("layer parameters of a layer that was added are %s, want 02%s", got, want)
	}
	for _, p := range []layerParams{goldenLayer, {1, 1, math.SmallestNonzeroFloat64, 1, false}, {64, 3, 0.25, probe.MaxCapacity, true}} {
		if got, err := decodeLayerParams(p.append(nil)); err != nil || got != p {
			t.Errorf("decodeLayerParams = %+v, %v, want %+v", got, err, p)
		}
	}
}

// The positions of an item's counters are part of the format.
func TestLayout_golden(t *testing.T) {
	for _, tt := range []struct {
		capacity uint64
		rate     float64
		block    uint64
		want     []uint16
	}{
		{100, 0.01, 0, []uint16{394, 414, 446, 606, 615, 629}},
		{1e6, 0.001, 391, []uint16{580, 609, 613, 13066, 13086, 13116, 13118, 13401, 13427, 13436}},
	} {
		l, err := probe.SizeCounters(tt.capacity, tt.rate)
		if err != nil {
			t.Fatal(err)
		}
		h := probe.Sum64Seed([]byte("item"), 1)
		blk, _ := l.Block(h)
		if got := l.AppendPositions(nil, h); blk != tt.block || !slices.Equal(got, tt.want) {
			t.Errorf("%d items at %g: the counters are %v of block %d, want %v of %d", tt.capacity, tt.rate, got, blk, tt.want, tt.block)
		}
	}
}

func TestLayerParams_refused(t *testing.T) {
	golden := goldenLayer.append(nil)
	change := func(at int, to byte) []byte {
		b := bytes.Clone(golden)
		b[at] = to
		return b
	}
	tests := []struct {
		name string
		b    []byte
		want error
	}{
		{"empty", nil, kv.ErrCorrupt},
		{"no capacity", golden[:layerFixedLen], kv.ErrCorrupt},
		{"cut capacity", golden[:layerFixedLen+1], kv.ErrCorrupt},
		{"longer", append(bytes.Clone(golden), 0), kv.ErrCorrupt},
		{"long uvarint", append(golden[:layerFixedLen:layerFixedLen], 0x81, 0), kv.ErrCorrupt},
		{"newer", change(0, 3), kv.ErrUnsupportedVersion},
		{"version 0", change(0, 0), kv.ErrUnsupportedVersion},
		{"rate above 1", change(10, 0x40), kv.ErrCorrupt},
		{"rate 0", layerParams{7, 2, 0, 1000, false}.append(nil), kv.ErrCorrupt},
		{"rate NaN", layerParams{7, 2, math.NaN(), 1000, false}.append(nil), kv.ErrCorrupt},
		{"capacity 0", layerParams{7, 2, 0.5, 0, false}.append(nil), kv.ErrCorrupt},
		{"capacity too large", layerParams{7, 2, 0.5, probe.MaxCapacity + 1, false}.append(nil), kv.ErrCorrupt},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if p, err := decodeLayerParams(tt.b); !errors.Is(err, tt.want) {
				t.Errorf("decodeLayerParams = %+v, %v, want %v", p, err, tt.want)
			}
		})
	}
}

// Each value that can be decoded has only one encoding.
func FuzzLayerParams(f *testing.F) {
	f.Add(goldenLayer.append(nil))
	f.Add(layerParams{7, 2, 0.5, 1000, true}.append(nil))
	f.Add(layerParams{64, 3, 0.25, probe.MaxCapacity, false}.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := decodeLayerParams(b)
		if err != nil {
			if !errors.Is(err, kv.ErrCorrupt) && !errors.Is(err, kv.ErrUnsupportedVersion) {
				t.Fatalf("%x: %v is neither corruption nor an unsupported version", b, err)
			}
			return
		}
		if again := p.append(nil); !bytes.Equal(again, b) {
			t.Fatalf("%x decodes to %+v, which is stored as %x", b, p, again)
		}
	})
}

// Layers of a program that added new items to all layers may have items that seem to be in older ones.
func TestOrdered_version1(t *testing.T) {
	db, err := kv.Open("", &kv.Options{InMemory: true, Modules: coreext.With(Module())})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, ordered := range []bool{false, true} {
		f := New(db, fmt.Sprint(ordered))
		spec, err := Config{Capacity: 10, ErrorRate: 0.1}.spec(db)
		if err != nil {
			t.Fatal(err)
		}
		l, err := probe.SizeCounters(20, 0.01)
		if err != nil {
			t.Fatal(err)
		}
		next := specOf(l, 20, 0.01, ordered)
		next.Number = 1
		spec.Layers = append(spec.Layers, next)
		err = f.h.Write(kv.NoSync, func(w *kv.Writer) error {
			_, err := w.Create(f.h.Key, spec)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if info, err := f.Info(); err != nil || info.Ordered != ordered || len(info.Layers) != 2 {
			t.Errorf("Info = %+v, %v", info, err)
		}
	}
}
