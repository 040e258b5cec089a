package scalableext

import (
	"encoding/hex"
	"errors"
	"testing"

	"github.com/sievekv/sievekv/kv"
)

var goldenParams = Params{Capacity: 1000, ErrorRate: 0.5, Expansion: 2, Seed: 7}

// The stored bytes of version 1. A change here is a change of the format.
func TestParams_golden(t *testing.T) {
	const want = "010000" + "0700000000000000" + "000000000000e03f" + "e807" + "02"
	if got := hex.EncodeToString(goldenParams.Append(nil)); got != want {
		t.Errorf("parameters are %s, want %s", got, want)
	}
}

func TestParams_refused(t *testing.T) {
	change := func(at int, to byte) []byte {
		b := goldenParams.Append(nil)
		b[at] = to
		return b
	}
	tests := []struct {
		name string
		b    []byte
		want error
	}{
		{"empty", nil, kv.ErrCorrupt},
		{"cut", goldenParams.Append(nil)[:20], kv.ErrCorrupt},
		{"longer", append(goldenParams.Append(nil), 0), kv.ErrCorrupt},
		{"newer", change(0, 2), kv.ErrUnsupportedVersion},
		{"growth rule", change(1, 2), kv.ErrUnsupportedVersion},
		{"hash function", change(2, 1), kv.ErrUnsupportedVersion},
		{"error rate above 1", change(18, 0x7f), kv.ErrCorrupt},
		{"no capacity", Params{ErrorRate: 0.5}.Append(nil), kv.ErrCorrupt},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if p, err := decodeParams(tt.b); !errors.Is(err, tt.want) {
				t.Errorf("decodeParams = %+v, %v, want %v", p, err, tt.want)
			}
		})
	}
}

func FuzzParams(f *testing.F) {
	f.Add(goldenParams.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := decodeParams(b)
		if err != nil {
			return
		}
		if again, err := decodeParams(p.Append(nil)); err != nil || again != p {
			t.Fatalf("%x decodes to %+v, and again to %+v, %v", b, p, again, err)
		}
	})
}
