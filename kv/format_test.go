package kv

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
	"time"

	"github.com/sievekv/sievekv/kv/block"
)

var goldenHeader = &header{
	typeName: "MBbloom--", module: "bf", typeVersion: 1, id: 300, expiry: 1234567890123, family: block.FamilyBits,
	layers: []LayerSpec{
		{Number: 0, Blocks: 1, Lines: 2, Params: []byte("xy")},
		{Number: 2, Blocks: 15137, Lines: 128, Params: []byte{}},
	},
	params: []byte("rest"),
}

// The stored bytes of version 1. A change here is a change of the format.
func TestFormat_golden(t *testing.T) {
	tests := []struct {
		name string
		got  []byte
		want string
	}{
		{"header", appendHeader(nil, goldenHeader), "010009" + "4d42626c6f6f6d2d2d" + "02" + "6266" + "01" + "ac02" + "cb89ec8ff723" + "01" +
			"02" + "0000" + "0102" + "02" + "7879" + "0200" + "a1768000" + "72657374"},
		{"string header", appendHeader(nil, &header{typeName: stringType, module: builtInModule, typeVersion: 1, params: []byte("\x00v")}), "0101010000000000" + "76"},
		{"store metadata", appendStoreMeta(nil, storeMeta{id: [16]byte{1, 15: 2}, seed: 3}), "53564b5601" + "01000000000000000000000000000002" + "0300000000000000"},
		{"sidecar", appendSidecar(nil, [16]byte{1, 15: 2}, 500), "5356534301" + "01000000000000000000000000000002" + "f401000000000000" + "b96a1395"},
		{"counters", appendCounters(nil, [numCounters]uint64{1000, 0, 0}), "e807"},
		{"no counters", appendCounters(nil, [numCounters]uint64{}), ""},
		{"three counters", appendCounters(nil, [numCounters]uint64{0, 0, 1}), "000001"},
		{"header key", appendHeaderKey(nil, 0x0102030405060708, []byte("k")), "02" + "0102030405060708" + "6b"},
		{"block key", appendBlockKey(nil, 5, 0, 247), "030502f7"},
		{"large block key", appendBlockKey(nil, 248, 1, 65536), "03f8f803fa010000"},
		{"counters key", appendCountersKey(nil, 5, 1), "03050001"},
		{"attribute key", appendAttributeKey(nil, 5, "a"), "03050161"},
		{"dropped key", appendDroppedKey(nil, 5), "0405"},
		{"expiry key", appendExpiryKey(nil, 1_700_000_000_000, []byte("k")), "05" + "fd018bcfe56800" + "6b"},
		{"key count key", appendKeyCountKey(nil, 200), "0103c8"},
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
	got, err := decodeHeader(appendHeader(nil, goldenHeader))
	if err != nil {
		t.Fatal(err)
	}
	got.layers[1].Params = []byte{} // nil and empty are one
	if !reflect.DeepEqual(got, goldenHeader) {
		t.Errorf("decoded %+v, want %+v", got, goldenHeader)
	}
}

func TestHeader_refused(t *testing.T) {
	good := appendHeader(nil, goldenHeader)
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
		{"no type name", change(2, 0), ErrCorrupt},
		{"no lines", change(30, 0), ErrCorrupt},
		{"family of none", change(24, 0), ErrCorrupt},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if h, err := decodeHeader(tt.b); !errors.Is(err, tt.want) {
				t.Errorf("decodeHeader = %+v, %v, want %v", h, err, tt.want)
			}
		})
	}
}

func TestOrdered_sortsAsNumbers(t *testing.T) {
	values := []uint64{0, 1, 246, 247, 248, 255, 256, 65535, 65536, 1 << 24, 1 << 32, 1 << 40, 1 << 56, math.MaxUint64}
	var last []byte
	for i, v := range values {
		b := appendOrdered(nil, v)
		if got, n := decodeOrdered(b); got != v || n != len(b) {
			t.Errorf("decodeOrdered(%x) = %d, %d, want %d, %d", b, got, n, v, len(b))
		}
		if i > 0 && bytes.Compare(last, b) >= 0 {
			t.Errorf("%d sorts as %x, not after %x", v, b, last)
		}
		last = b
	}
}

func FuzzHeader(f *testing.F) {
	f.Add(appendHeader(nil, goldenHeader))
	f.Add(appendHeader(nil, &header{typeName: stringType, module: builtInModule, id: 1}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHeader(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnsupportedVersion) {
				t.Fatalf("decodeHeader(%x): %v is neither corruption nor an unsupported version", b, err)
			}
			return
		}
		again, err := decodeHeader(appendHeader(nil, h))
		if err != nil || !reflect.DeepEqual(again, h) {
			t.Fatalf("decodeHeader(%x) = %+v, and again %+v, %v", b, h, again, err)
		}
	})
}

func FuzzObjectKey(f *testing.F) {
	f.Add(appendBlockKey(nil, 300, 2, 70000))
	f.Add(appendCountersKey(nil, 1, 0))
	f.Add(appendAttributeKey(nil, 1, "name"))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := decodeObjectKey(b)
		if err != nil {
			return
		}
		var again []byte
		switch k.part {
		case partAttributes:
			return
		case partCounters:
			again = appendCountersKey(nil, k.object, k.rest)
		default:
			again = appendBlockKey(nil, k.object, k.part-partLayers, k.rest)
		}
		if !bytes.Equal(again, b) {
			t.Fatalf("key %x decodes to %+v, which encodes to %x", b, k, again)
		}
	})
}

func FuzzCounters(f *testing.F) {
	f.Add([]byte{0xe8, 0x07})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decodeCounters(b)
		if err != nil {
			return
		}
		if again, err := decodeCounters(appendCounters(nil, c)); err != nil || again != c {
			t.Fatalf("counters %x decode to %v, and again to %v, %v", b, c, again, err)
		}
	})
}

func FuzzSidecar(f *testing.F) {
	f.Add(appendSidecar(nil, [16]byte{1}, 7))
	f.Fuzz(func(t *testing.T, b []byte) {
		id, next, err := decodeSidecar(b)
		if err == nil && !bytes.Equal(appendSidecar(nil, id, next), b) {
			t.Fatalf("sidecar %x decodes to %x, %d, which encodes otherwise", b, id, next)
		}
	})
}

// typedModules are modules that have nothing but types.
type typedModules map[string][]*Type

func (m typedModules) Types() (map[string][]*Type, error) { return m, nil }
func (typedModules) Attach(*DB) Running                   { return nil }

func TestOptions_types(t *testing.T) {
	open := func(*Object) (any, error) { return nil, nil }
	long := string(bytes.Repeat([]byte("n"), 65))
	for _, tt := range []struct {
		modules typedModules
		want    string
	}{
		{typedModules{"m": {{Name: "t", Open: open}, {Name: "t", Open: open}}}, `type "t" is registered twice`},
		{typedModules{"m": {{Name: "t", Open: open}}, "n": {{Name: "t", Open: open}}}, `type "t" is registered twice`},
		{typedModules{"m": {{Name: "t"}}}, `type "t": needs an Open`},
		{typedModules{"m": {{Name: stringType, Open: open}}}, `a name other than "string"`},
		{typedModules{"m": {{Open: open}}}, `type name ""`},
		{typedModules{"m": {{Name: long, Open: open}}}, `type name "nnn`},
		{typedModules{"": {{Name: "t", Open: open}}}, `module name ""`},
		{typedModules{long: {{Name: "t", Open: open}}}, `module name "nnn`},
	} {
		if _, err := Open("", &Options{InMemory: true, Modules: tt.modules}); !errors.Is(err, ErrOptions) || !bytes.Contains([]byte(err.Error()), []byte(tt.want)) {
			t.Errorf("Open = %v, want ErrOptions with %s", err, tt.want)
		}
	}
}

func TestOptions_allProblemsAtOnce(t *testing.T) {
	_, err := Open("unused", &Options{InMemory: true, CacheSize: 1, MemTableSize: 1, MaxFilterBytes: 1 << 63, Durability: 9, Modules: typedModules{"m": {{Name: "t"}}}})
	if !errors.Is(err, ErrOptions) {
		t.Fatalf("Open = %v, want ErrOptions", err)
	}
	for _, part := range []string{"CacheSize 1", "MemTableSize 1", "MaxFilterBytes 9223372036854775808", "Durability 9", `type "t": needs an Open`} {
		if !bytes.Contains([]byte(err.Error()), []byte(part)) {
			t.Errorf("error %q does not name %q", err, part)
		}
	}
}

// TestOptions_ranges has each option at both ends of its range and just beyond. Stores of such sizes are not opened.
func TestOptions_ranges(t *testing.T) {
	const kib, mib, gib, tib, pib = 1 << 10, 1 << 20, 1 << 30, 1 << 40, 1 << 50
	for _, c := range []struct {
		name      string
		low, high int64
		least     bool // nothing is below low
		set       func(o *Options, n int64)
	}{
		{"CacheSize", 8 * kib, tib, false, func(o *Options, n int64) { o.CacheSize = n }},
		{"TableCacheSize", mib, tib, false, func(o *Options, n int64) { o.TableCacheSize = n }},
		{"MemTableSize", 256 * kib, gib, false, func(o *Options, n int64) { o.MemTableSize = int(n) }},
		{"BallastSize", math.MinInt64, pib, true, func(o *Options, n int64) { o.BallastSize = n }},
		{"MinFreeSpace", math.MinInt64, pib, true, func(o *Options, n int64) { o.MinFreeSpace = n }},
		{"FreeSpaceInterval", int64(time.Millisecond), int64(time.Hour), false, func(o *Options, n int64) { o.FreeSpaceInterval = time.Duration(n) }},
		{"MaxFilterBytes", 1, pib, true, func(o *Options, n int64) { o.MaxFilterBytes = uint64(n) }},
		{"Durability", 0, int64(NoSync), true, func(o *Options, n int64) { o.Durability = Durability(n) }},
	} {
		refused := func(n int64) error {
			o := &Options{}
			c.set(o, n)
			_, err := o.withDefaults()
			if err != nil && (!errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), fmt.Sprint(c.name, " "))) {
				t.Errorf("%s %d: %v", c.name, n, err)
			}
			return err
		}
		for _, n := range []int64{c.low, c.high} {
			if err := refused(n); err != nil {
				t.Errorf("%s %d: %v", c.name, n, err)
			}
		}
		if refused(c.high+1) == nil || !c.least && (refused(c.low-1) == nil || refused(-1) == nil) {
			t.Errorf("%s: a value out of range is taken", c.name)
		}
	}
	for budget, want := range map[int64]int64{
		minCacheSize: 1024, 256 * mib: 10 * 32 * kib, 100 * gib: 10 * 100 * gib / (8 * kib), maxCacheSize: 1 << 27, math.MaxInt64: 1 << 27,
	} {
		if got := touchCounters(budget); got != want {
			t.Errorf("%d counters for %d bytes, want %d", got, budget, want)
		}
	}
}

// What an error shows of a header that does not decode has nothing of a filter's parameters, of which a secret is
// part.
func TestFormat_secret(t *testing.T) {
	h := header{
		typeName: "MBbloom--", module: "bf", typeVersion: 1, id: 1, family: block.FamilyBits,
		layers: []LayerSpec{{Blocks: 1, Lines: 1, Params: make([]byte, 11)}}, params: []byte("the secret"),
	}
	whole := appendHeader(nil, &h)
	refused := 0
	for i := range whole {
		b := slices.Clone(whole)
		b[i] = 0xFF
		if _, err := decodeHeader(b); err != nil {
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
