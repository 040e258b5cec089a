package scalableext

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
)

var (
	goldenParams = Params{Capacity: 1000, ErrorRate: 0.5, Expansion: 2, Hash: hash.NewXXH64(7)}
	goldenWindow = Params{Capacity: 1000, ErrorRate: 0.5, Expansion: 2, Growth: Windowed, Hash: hash.NewXXH64(7), Window: Window{Span: 7 * time.Second, Slices: 8}}
	goldenLast   = Params{Capacity: 300, ErrorRate: 0.5, Growth: Windowed, Hash: hash.NewXXH64(7), Window: Window{Last: 300, Slices: 3}}
	goldenLogged = Params{Capacity: 1000, ErrorRate: 0.5, Expansion: 2, Growth: Logged, Hash: hash.NewXXH64(7), Log: Log{Limit: 64 << 20, Filling: 5}}
	goldenKeyed  = Params{Capacity: 1000, ErrorRate: 0.5, Expansion: 2, Hash: hash.NewKeyed(hash.Secret{1, 31: 2})}
)

// The stored bytes of version 1. Changing them changes the format.
func TestParams_golden(t *testing.T) {
	tests := []struct {
		p    Params
		want string
	}{
		{goldenParams, "010000" + "0700000000000000" + "000000000000e03f" + "e807" + "02"},
		{goldenWindow, "010200" + "0700000000000000" + "000000000000e03f" + "e807" + "02" + "d836" + "00" + "08"},
		{goldenLast, "010200" + "0700000000000000" + "000000000000e03f" + "ac02" + "00" + "00" + "ac02" + "03"},
		{goldenLogged, "010300" + "0700000000000000" + "000000000000e03f" + "e807" + "02" + "80808020" + "05"},
		{goldenKeyed, "010001" + "01" + strings.Repeat("00", 30) + "02" + "000000000000e03f" + "e807" + "02"},
	}
	for _, tt := range tests {
		if got := hex.EncodeToString(tt.p.Append(nil)); got != tt.want {
			t.Errorf("parameters are %s, want %s", got, tt.want)
		}
		b, err := hex.DecodeString(tt.want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decodeParams(b); got != tt.p || err != nil {
			t.Errorf("decodeParams = %+v, %v, want %+v", got, err, tt.p)
		}
	}
}

func TestParams_refused(t *testing.T) {
	endless := bytes.Repeat([]byte{0xff}, 12)
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
		{"growth rule", change(1, 4), kv.ErrUnsupportedVersion},
		{"hash function", change(2, 5), kv.ErrUnsupportedVersion},
		{"other hash function", change(2, 1), kv.ErrCorrupt},
		{"cut in the secret", goldenKeyed.Append(nil)[:34], kv.ErrCorrupt},
		{"cut behind the secret", goldenKeyed.Append(nil)[:35], kv.ErrCorrupt},
		{"cut before the expansion", goldenKeyed.Append(nil)[:45], kv.ErrCorrupt},
		{"error rate above 1", change(18, 0x7f), kv.ErrCorrupt},
		{"window cut", goldenWindow.Append(nil)[:24], kv.ErrCorrupt},
		{"window cut before the slices", goldenWindow.Append(nil)[:25], kv.ErrCorrupt},
		{"window longer", append(goldenWindow.Append(nil), 8), kv.ErrCorrupt},
		{"one slice", append(goldenWindow.Append(nil)[:25], 1), kv.ErrCorrupt},
		{"no slices", append(goldenWindow.Append(nil)[:25], 0), kv.ErrCorrupt},
		{"33 slices", append(goldenWindow.Append(nil)[:25], 33), kv.ErrCorrupt},
		{"window and last", append(goldenWindow.Append(nil)[:24], 8, 8), kv.ErrCorrupt},
		{"neither window nor last", append(goldenWindow.Append(nil)[:22], 0, 0, 8), kv.ErrCorrupt},
		{"last other than the capacity", append(goldenLast.Append(nil)[:23], 0xad, 2, 3), kv.ErrCorrupt},
		{"log cut", goldenLogged.Append(nil)[:24], kv.ErrCorrupt},
		{"log cut before what is filled", goldenLogged.Append(nil)[:26], kv.ErrCorrupt},
		{"log longer", append(goldenLogged.Append(nil), 8), kv.ErrCorrupt},
		{"filled from no log", append(goldenLogged.Append(nil)[:22], 0, 5), kv.ErrCorrupt},
		{"log of 2^41 bytes", append(goldenLogged.Append(nil)[:22], 0x80, 0x80, 0x80, 0x80, 0x80, 0x40, 0), kv.ErrCorrupt},
		{"log of a filter that does not grow", append(goldenLogged.Append(nil)[:21], 0, 8, 0), kv.ErrCorrupt},
		{"no window", goldenWindow.Append(nil)[:22], kv.ErrCorrupt},
		{"window without end", append(goldenWindow.Append(nil)[:22], endless...), kv.ErrCorrupt},
		{"window that overflows", append(binary.AppendUvarint(goldenWindow.Append(nil)[:22], 7000+1<<58), 0, 8), kv.ErrCorrupt},
		{"last without end", append(goldenWindow.Append(nil)[:24], endless...), kv.ErrCorrupt},
		{"filled layer 2^32", append(goldenLogged.Append(nil)[:26], 0x80, 0x80, 0x80, 0x80, 0x10), kv.ErrCorrupt},
		{"a secret that is the rest", append(goldenKeyed.Append(nil)[:hashAt+1], bytes.Repeat([]byte{0x3f}, 9)...), kv.ErrCorrupt},
		{"a capacity above the highest", Params{Capacity: probe.MaxCapacity + 1, ErrorRate: 0.5, Expansion: 2}.Append(nil), kv.ErrCorrupt},
		{"an expansion above the highest", Params{Capacity: 1000, ErrorRate: 0.5, Expansion: MaxExpansion + 1}.Append(nil), kv.ErrCorrupt},
		{"no capacity", Params{ErrorRate: 0.5}.Append(nil), kv.ErrCorrupt},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if p, err := decodeParams(tt.b); !errors.Is(err, tt.want) {
				t.Errorf("decodeParams = %+v, %v, want %v", p, err, tt.want)
			} else if strings.Contains(err.Error(), "0000") {
				t.Errorf("the error shows stored bytes, of which a secret is part: %v", err)
			}
		})
	}
}

func FuzzParams(f *testing.F) {
	f.Add(goldenParams.Append(nil))
	f.Add(goldenKeyed.Append(nil))
	f.Add(goldenWindow.Append(nil))
	f.Add(goldenLast.Append(nil))
	f.Add(goldenLogged.Append(nil))
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

func FuzzStart(f *testing.F) {
	f.Add(AppendStart(nil, 1_700_000_000_000))
	f.Add(AppendStart([]byte{}, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		start, rest, err := DecodeStart(b)
		if err != nil {
			if !errors.Is(err, kv.ErrCorrupt) {
				t.Fatalf("%x: %v is not corruption", b, err)
			}
			return
		}
		again, left, err := DecodeStart(append(AppendStart(nil, start), rest...))
		if err != nil || again != start || start < 0 || len(left) != len(rest) {
			t.Fatalf("%x decodes to %d, and again to %d, %v", b, start, again, err)
		}
	})
}
