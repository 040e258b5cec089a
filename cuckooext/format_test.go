package cuckooext

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"testing"

	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
)

var goldenLayer = layerParams{form: wholeBlocks, bucketSize: 4, maxIterations: 500, capacity: 1000}

// The stored bytes of versions 1 to 3. Changing them changes the format.
func TestLayerParams_golden(t *testing.T) {
	const want = "04" + "f401" + "e807"
	short, cut := goldenLayer, goldenLayer
	short.form, cut.form = shortBlock, cutBlocks
	for version, p := range map[string]layerParams{"01": goldenLayer, "02": short, "03": cut} {
		if got := hex.EncodeToString(p.append(nil)); got != version+want {
			t.Errorf("layer parameters are %s, want %s", got, version+want)
		}
	}
	for _, p := range []layerParams{goldenLayer, short, cut, {wholeBlocks, 1, 1, 1}, {cutBlocks, 255, math.MaxUint16, probe.MaxCapacity}} {
		if got, err := decodeLayerParams(p.append(nil)); err != nil || got != p {
			t.Errorf("decodeLayerParams = %+v, %v, want %+v", got, err, p)
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
		{"cut capacity", golden[:5], kv.ErrCorrupt},
		{"longer", append(bytes.Clone(golden), 0), kv.ErrCorrupt},
		{"long uvarint", append(golden[:layerFixedLen:layerFixedLen], 0x81, 0), kv.ErrCorrupt},
		{"newer", change(0, 4), kv.ErrUnsupportedVersion},
		{"version 0", change(0, 0), kv.ErrUnsupportedVersion},
		{"bucket size 0", change(1, 0), kv.ErrCorrupt},
		{"max iterations 0", layerParams{wholeBlocks, 4, 0, 1000}.append(nil), kv.ErrCorrupt},
		{"capacity 0", layerParams{cutBlocks, 4, 20, 0}.append(nil), kv.ErrCorrupt},
		{"capacity too large", layerParams{wholeBlocks, 4, 20, probe.MaxCapacity + 1}.append(nil), kv.ErrCorrupt},
		{"capacity beyond 64 bits", append(golden[:layerFixedLen:layerFixedLen],
			0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2), kv.ErrCorrupt},
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
	f.Add(layerParams{shortBlock, 255, math.MaxUint16, probe.MaxCapacity}.append(nil))
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
