package bloomext

import (
	"encoding/hex"
	"errors"
	"testing"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

var goldenLayer = layerParams{hashes: 6, linesPerItem: 1, rate: 0.5, capacity: 1000}

// The stored bytes of version 1. Changing them changes the format.
func TestLayerParams_golden(t *testing.T) {
	const want = "0601" + "000000000000e03f" + "e807"
	if got := hex.EncodeToString(goldenLayer.append(nil)); got != want {
		t.Errorf("layer parameters are %s, want %s", got, want)
	}
	if got, err := decodeLayerParams(goldenLayer.append(nil)); err != nil || got != goldenLayer {
		t.Errorf("decodeLayerParams = %+v, %v, want %+v", got, err, goldenLayer)
	}
}

// The parameters of a layer of a filter with a window begin with the start of its slice.
func TestLayerParams_goldenWindow(t *testing.T) {
	const want = "80d095ffbc31" + "0601" + "000000000000e03f" + "e807"
	stored := append(scalableext.AppendStart(nil, 1_700_000_000_000), goldenLayer.append(nil)...)
	if got := hex.EncodeToString(stored); got != want {
		t.Errorf("layer parameters are %s, want %s", got, want)
	}
	start, rest, err := scalableext.DecodeStart(stored)
	if err != nil || start != 1_700_000_000_000 {
		t.Fatalf("start %d, %v", start, err)
	}
	if got, err := decodeLayerParams(rest); err != nil || got != goldenLayer {
		t.Errorf("decodeLayerParams = %+v, %v, want %+v", got, err, goldenLayer)
	}
	for _, bad := range [][]byte{nil, {0x80}, {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80}, {0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x08}} {
		if _, _, err := scalableext.DecodeStart(bad); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("start %x: %v", bad, err)
		}
	}
}

func FuzzLayerParams(f *testing.F) {
	f.Add(goldenLayer.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := decodeLayerParams(b)
		if err != nil {
			if !errors.Is(err, kv.ErrCorrupt) {
				t.Fatalf("%x: %v is not corruption", b, err)
			}
			return
		}
		if again, err := decodeLayerParams(p.append(nil)); err != nil || again != p {
			t.Fatalf("%x decodes to %+v, and again to %+v, %v", b, p, again, err)
		}
	})
}
