package format

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/internal/block"
)

var goldenHeader = &Header{
	TypeName: "MBbloom--", Module: "bf", TypeVersion: 1, ID: 300, Expiry: 1234567890123, Family: block.FamilyBits,
	Layers: []LayerSpec{
		{Number: 0, Blocks: 1, Lines: 2, Params: []byte("xy")},
		{Number: 2, Blocks: 15137, Lines: 128, Params: []byte{}},
	},
	Params: []byte("rest"),
}

// goldenBitmap is the header of a string in blocks.
var goldenBitmap = &Header{
	TypeName: StringType, Module: BuiltInModule, TypeVersion: StringVersion, ID: 7, Family: block.FamilySlots8,
	Layers: []LayerSpec{{Blocks: 2, Lines: 1}}, Params: []byte{EncodingBlocks},
}

func lossy(h *Header) *Header {
	marked := *h
	marked.Lossy = true
	return &marked
}

func hidden(h *Header) *Header {
	marked := *h
	marked.Hidden = true
	return &marked
}

// The stored bytes of version 1. A change here is a change of the format.
func TestFormat_golden(t *testing.T) {
	tests := []struct {
		name string
		got  []byte
		want string
	}{
		{"header", AppendHeader(nil, goldenHeader), "010009" + "4d42626c6f6f6d2d2d" + "02" + "6266" + "01" + "ac02" + "cb89ec8ff723" + "01" +
			"02" + "0000" + "0102" + "02" + "7879" + "0200" + "a1768000" + "72657374"},
		{"string header", AppendHeader(nil, &Header{TypeName: StringType, Module: BuiltInModule, TypeVersion: 1, Params: []byte("\x00v")}), "0101010000000000" + "76"},
		{"lossy header", AppendHeader(nil, lossy(goldenHeader)), "010209" + "4d42626c6f6f6d2d2d" + "02" + "6266" + "01" + "ac02" + "cb89ec8ff723" + "01" +
			"02" + "0000" + "0102" + "02" + "7879" + "0200" + "a1768000" + "72657374"},
		{"hidden header", AppendHeader(nil, hidden(goldenHeader)), "010409" + "4d42626c6f6f6d2d2d" + "02" + "6266" + "01" + "ac02" + "cb89ec8ff723" + "01" +
			"02" + "0000" + "0102" + "02" + "7879" + "0200" + "a1768000" + "72657374"},
		{"lossy string header", AppendHeader(nil, lossy(goldenBitmap)), "0103010700" + "08" + "01" + "0000" + "0201" + "00" + "01"},
		{"bitmap header", AppendHeader(nil, goldenBitmap), "0101010700" + "08" + "01" + "0000" + "0201" + "00" + "01"},
		{"store metadata", AppendStoreMeta(nil, StoreMeta{ID: [16]byte{1, 15: 2}, Seed: 3}), "53564b5601" + "01000000000000000000000000000002" + "0300000000000000"},
		{"sidecar", AppendSidecar(nil, [16]byte{1, 15: 2}, 500), "5356534301" + "01000000000000000000000000000002" + "f401000000000000" + "b96a1395"},
		{"counters", AppendCounters(nil, [NumCounters]uint64{1000, 0, 0}), "e807"},
		{"no counters", AppendCounters(nil, [NumCounters]uint64{}), ""},
		{"three counters", AppendCounters(nil, [NumCounters]uint64{0, 0, 1}), "000001"},
		{"header key", AppendHeaderKey(nil, 0x0102030405060708, []byte("k")), "02" + "0102030405060708" + "6b"},
		{"block key", AppendBlockKey(nil, 5, 0, 247), "030502f7"},
		{"large block key", AppendBlockKey(nil, 248, 1, 65536), "03f8f803fa010000"},
		{"counters key", AppendCountersKey(nil, 5, 1), "03050001"},
		{"attribute key", AppendAttributeKey(nil, 5, "a"), "03050161"},
		{"dropped key", AppendDroppedKey(nil, 5), "0405"},
		{"wake key", AppendWakeKey(nil, 1_700_000_000_000, []byte("k")), "06" + "fd018bcfe56800" + "6b"},
		{"expiry key", AppendExpiryKey(nil, 1_700_000_000_000, []byte("k")), "05" + "fd018bcfe56800" + "6b"},
		{"key count key", AppendKeyCountKey(nil, 200), "0103c8"},
		{"key counts", AppendKeyCounts(nil, KeyCounts{Keys: 300, Expiring: 5}), "ac0205"},
		{"applied message", AppendApplied(nil, Applied{Index: 300, Term: 5, Hash: [16]byte{1, 15: 2}, Millis: 1_700_000_000_000}),
			"01" + "01000000000000000000000000000002" + "ac02" + "05" + "80d095ffbc31"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := hex.EncodeToString(tt.got); got != tt.want {
				t.Errorf("bytes are\n%s, want\n%s", got, tt.want)
			}
		})
	}
}

func TestHeader_roundTrip(t *testing.T) {
	for _, want := range []*Header{goldenHeader, lossy(goldenHeader), hidden(goldenHeader), hidden(lossy(goldenHeader)), goldenBitmap, lossy(goldenBitmap)} {
		got, err := DecodeHeader(AppendHeader(nil, want))
		if err != nil {
			t.Fatal(err)
		}
		for i := range got.Layers {
			if len(got.Layers[i].Params) == 0 {
				got.Layers[i].Params = want.Layers[i].Params // nil and empty are one
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("decoded %+v, want %+v", got, want)
		}
	}
}

func TestHeader_refused(t *testing.T) {
	good := AppendHeader(nil, goldenHeader)
	change := func(at int, to byte) []byte {
		b := bytes.Clone(good)
		b[at] = to
		return b
	}
	tests := []struct {
		name string
		b    []byte
		want error
	}{
		{"empty", nil, ErrCorrupt},
		{"cut", good[:20], ErrCorrupt},
		{"newer", change(0, 2), ErrUnsupportedVersion},
		{"unknown type code", change(1, 9), ErrUnsupportedVersion},
		{"hidden for ever", AppendHeader(nil, hidden(goldenBitmap)), ErrCorrupt},
		{"no type name", change(2, 0), ErrCorrupt},
		{"no lines", change(30, 0), ErrCorrupt},
		{"family of none", change(24, 0), ErrCorrupt},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if h, err := DecodeHeader(tt.b); !errors.Is(err, tt.want) {
				t.Errorf("decodeHeader = %+v, %v, want %v", h, err, tt.want)
			}
		})
	}
}

func TestOrdered_sortsAsNumbers(t *testing.T) {
	values := []uint64{0, 1, 246, 247, 248, 255, 256, 65535, 65536, 1 << 24, 1 << 32, 1 << 40, 1 << 56, math.MaxUint64}
	var last []byte
	for i, v := range values {
		b := AppendOrdered(nil, v)
		if got, n := DecodeOrdered(b); got != v || n != len(b) {
			t.Errorf("decodeOrdered(%x) = %d, %d, want %d, %d", b, got, n, v, len(b))
		}
		if i > 0 && bytes.Compare(last, b) >= 0 {
			t.Errorf("%d sorts as %x, not after %x", v, b, last)
		}
		last = b
	}
}

func FuzzHeader(f *testing.F) {
	f.Add(AppendHeader(nil, goldenHeader))
	f.Add(AppendHeader(nil, &Header{TypeName: StringType, Module: BuiltInModule, ID: 1}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := DecodeHeader(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnsupportedVersion) {
				t.Fatalf("decodeHeader(%x): %v is neither corruption nor an unsupported version", b, err)
			}
			return
		}
		again, err := DecodeHeader(AppendHeader(nil, h))
		if err != nil || !reflect.DeepEqual(again, h) {
			t.Fatalf("decodeHeader(%x) = %+v, and again %+v, %v", b, h, again, err)
		}
	})
}

func FuzzObjectKey(f *testing.F) {
	f.Add(AppendBlockKey(nil, 300, 2, 70000))
	f.Add(AppendCountersKey(nil, 1, 0))
	f.Add(AppendAttributeKey(nil, 1, "name"))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := DecodeObjectKey(b)
		if err != nil {
			return
		}
		var again []byte
		switch k.Part {
		case PartAttributes:
			return
		case PartCounters:
			again = AppendCountersKey(nil, k.Object, k.Rest)
		default:
			again = AppendBlockKey(nil, k.Object, k.Part-PartLayers, k.Rest)
		}
		if !bytes.Equal(again, b) {
			t.Fatalf("key %x decodes to %+v, which encodes to %x", b, k, again)
		}
	})
}

func FuzzCounters(f *testing.F) {
	f.Add([]byte{0xe8, 0x07})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := DecodeCounters(b)
		if err != nil {
			return
		}
		if again, err := DecodeCounters(AppendCounters(nil, c)); err != nil || again != c {
			t.Fatalf("counters %x decode to %v, and again to %v, %v", b, c, again, err)
		}
	})
}

func FuzzSidecar(f *testing.F) {
	f.Add(AppendSidecar(nil, [16]byte{1}, 7))
	f.Fuzz(func(t *testing.T, b []byte) {
		id, next, err := DecodeSidecar(b)
		if err == nil && !bytes.Equal(AppendSidecar(nil, id, next), b) {
			t.Fatalf("sidecar %x decodes to %x, %d, which encodes otherwise", b, id, next)
		}
	})
}

// An error about a header that does not decode shows nothing of a filter's parameters, which may include a secret.
func TestFormat_secret(t *testing.T) {
	h := Header{
		TypeName: "MBbloom--", Module: "bf", TypeVersion: 1, ID: 1, Family: block.FamilyBits,
		Layers: []LayerSpec{{Blocks: 1, Lines: 1, Params: make([]byte, 11)}}, Params: []byte("the secret"),
	}
	whole := AppendHeader(nil, &h)
	refused := 0
	for i := range whole {
		b := slices.Clone(whole)
		b[i] = 0xFF
		if _, err := DecodeHeader(b); err != nil {
			refused++
			if strings.Contains(err.Error(), fmt.Sprintf("%x", "secret")) || strings.Contains(err.Error(), "secret") {
				t.Errorf("byte %d changed: %v", i, err)
			}
		}
	}
	if refused < 5 {
		t.Errorf("%d changed headers were refused, want some", refused)
	}
}

// LayersSize is not below what layers take, and hardly above it if their numbers are large.
func TestHeader_LayersSize(t *testing.T) {
	for _, number := range []uint64{0, 1, 1<<64 - 1 - 500} {
		h := Header{TypeName: "MBbloom--", Module: "bf"}
		none := len(AppendHeader(nil, &h))
		for i := range uint64(500) {
			h.Layers = append(h.Layers, LayerSpec{Number: number + i, Blocks: 1 + number, Lines: 1, Params: make([]byte, i%50)})
		}
		if got, want := h.LayersSize(), len(AppendHeader(nil, &h))-none; got < want-2 || number > 1 && got > want+20*500 {
			t.Errorf("layers from %d on: %d bytes, of %d", number, got, want)
		}
	}
}

// The numbers of keys have one form, and an older one without the keys that expire.
func TestDecodeKeyCounts(t *testing.T) {
	for form, want := range map[string]struct {
		counts     KeyCounts
		older, bad bool
	}{
		"ac0205":                        {counts: KeyCounts{Keys: 300, Expiring: 5}},
		"0000":                          {},
		"ac02":                          {counts: KeyCounts{Keys: 300}, older: true},
		"":                              {bad: true},
		"ac":                            {bad: true},
		"ac0285":                        {bad: true},
		"ac020500":                      {bad: true},
		"ffffffffffffffffffff01" + "05": {bad: true},
	} {
		b, _ := hex.DecodeString(form)
		c, older, err := DecodeKeyCounts(b)
		if c != want.counts || older != want.older || errors.Is(err, ErrCorrupt) != want.bad {
			t.Errorf("%s: %+v, %v, %v", form, c, older, err)
		}
	}
}

// Numbers of keys are not below 0.
func TestKeyCounts_Plus(t *testing.T) {
	if got, want := (KeyCounts{3, 1}).Plus(-1, 1), (KeyCounts{2, 2}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := (KeyCounts{3, 1}).Plus(-4, -2), (KeyCounts{}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}
