package redisbloom

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
)

func item(i int) []byte { return fmt.Appendf(nil, "item:%d", i) }

func absent(i int) []byte { return fmt.Appendf(nil, "absent:%d", i) }

func mustBloom(t *testing.T, capacity uint64, rate float64, expansion uint32, nonscaling bool) *Bloom {
	t.Helper()
	b, err := NewBloom(capacity, rate, expansion, nonscaling)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fill adds items from first on, up to n.
func (b *Bloom) fill(t *testing.T, n int) (added int) {
	t.Helper()
	for i := range n {
		fresh, err := b.Add(item(i))
		if err != nil {
			t.Fatal(err)
		}
		if fresh {
			added++
		}
	}
	return added
}

// TestBloom_sizes has numbers computed by hand. A filter for 100 items at 0.01, which scales, is sized for 0.005:
// 11.03 bits an item, 1102 bits, 18 words. RedisBloom's documentation shows 240 bytes for it. At 0.25 two hashes would do, but
// RedisBloom's rounded constants make it 2.0000000000000004, and so three.
func TestBloom_sizes(t *testing.T) {
	for _, tt := range []struct {
		capacity   uint64
		rate       float64
		nonscaling bool
		size       uint64
		debug      string
	}{
		{100, 0.01, false, 240, "bytes:144 bits:1152 hashes:8 hashwidth:64 capacity:100 size:0 ratio:0.005"},
		{100, 0.01, true, 216, "bytes:120 bits:960 hashes:7 hashwidth:64 capacity:100 size:0 ratio:0.01"},
		{1, 0.5, true, 104, "bytes:8 bits:64 hashes:3 hashwidth:64 capacity:1 size:0 ratio:0.25"},
		{1, 0.99, false, 104, "bytes:8 bits:64 hashes:4 hashwidth:64 capacity:1 size:0 ratio:0.125"},
		{1000, 1e-9, true, 5488, "bytes:5392 bits:43136 hashes:30 hashwidth:64 capacity:1000 size:0 ratio:1e-09"},
	} {
		b := mustBloom(t, tt.capacity, tt.rate, 2, tt.nonscaling)
		if got := b.Info().Size; got != tt.size {
			t.Errorf("%d at %g: %d bytes, want %d", tt.capacity, tt.rate, got, tt.size)
		}
		if got, want := b.Debug(), []string{"size:0", tt.debug}; !slices.Equal(got, want) {
			t.Errorf("%d at %g: %q, want %q", tt.capacity, tt.rate, got, want)
		}
	}
}

func TestBloom_positions(t *testing.T) {
	f := mustBloom(t, 100, 0.01, 2, false).filters[0]
	first := murmur64A([]byte("a"), 0xc6a4a7935bd1e995)
	second := murmur64A([]byte("a"), first)
	want := []uint64{first % 1152, (first + second) % 1152, (first + 2*second) % 1152}
	if got := f.positions([]byte("a")); len(got) != 8 || !slices.Equal(got[:3], want) {
		t.Errorf("positions %d, want 8 that begin with %d", got, want)
	}
}

func TestBloom_growth(t *testing.T) {
	b := mustBloom(t, 10, 0.02, 3, false)
	const n = 10 + 30 + 90 + 1
	for i := 0; b.items < n; i++ {
		if _, err := b.Add(item(i)); err != nil {
			t.Fatal(err)
		}
	}
	var capacities, items []uint64
	var rates []float64
	for _, f := range b.filters {
		capacities, items, rates = append(capacities, f.capacity), append(items, f.items), append(rates, f.rate)
	}
	if !slices.Equal(capacities, []uint64{10, 30, 90, 270}) || !slices.Equal(items, []uint64{10, 30, 90, 1}) ||
		!slices.Equal(rates, []float64{0.01, 0.005, 0.0025, 0.00125}) {
		t.Errorf("capacities %d, items %d, rates %g", capacities, items, rates)
	}
	if got := b.Info(); got.Capacity != 400 || got.Items != n || got.Filters != 4 || got.Expansion != 3 {
		t.Errorf("%+v", got)
	}
}

func TestBloom_nonscaling(t *testing.T) {
	for _, expansion := range []uint32{0, 2} {
		b := mustBloom(t, 3, 0.01, expansion, true)
		b.fill(t, 3)
		if fresh, err := b.Add(item(0)); fresh || err != nil {
			t.Errorf("an item that is there: %v, %v", fresh, err)
		}
		if _, err := b.Add(item(3)); !errors.Is(err, ErrFull) {
			t.Errorf("a fourth item: %v", err)
		}
		if b.Info().Expansion != -1 {
			t.Errorf("expansion %d", b.Info().Expansion)
		}
		if got := binary.LittleEndian.Uint32(b.header()[16:]); got != expansion {
			t.Errorf("expansion in the header: %d, want %d", got, expansion)
		}
	}
}

// TestBloom_underflow grows a filter until the error rate of the next sub-filter would be 0.
func TestBloom_underflow(t *testing.T) {
	b := mustBloom(t, 1, math.SmallestNonzeroFloat64*4, 1, false)
	b.fill(t, 2)
	if _, err := b.Add(item(2)); !errors.Is(err, ErrInserting) {
		t.Errorf("%v, want %v", err, ErrInserting)
	}
	if b.items != 2 || len(b.filters) != 2 {
		t.Errorf("%d items, %d sub-filters", b.items, len(b.filters))
	}
}

// TestBloom_answers adds items to a filter that grows to 8 sub-filters: each is found, and of items that were never
// added at most one in a hundred is.
func TestBloom_answers(t *testing.T) {
	const n = 100 * (1 + 2 + 4 + 8 + 16 + 32 + 64 + 20)
	b := mustBloom(t, 100, 0.01, 2, false)
	if added := b.fill(t, n); uint64(added) != b.items || len(b.filters) != 8 {
		t.Errorf("%d new, %d items, %d sub-filters", added, b.items, len(b.filters))
	}
	for i := range n {
		if !b.Exists(item(i)) {
			t.Fatalf("item %d is missing", i)
		}
	}
	found := 0
	for i := range n {
		if b.Exists(absent(i)) {
			found++
		}
	}
	if found == 0 || found > n/100 {
		t.Errorf("%d of %d absent items found", found, n)
	}
}

func TestBloom_dump(t *testing.T) {
	for _, tt := range []struct {
		name       string
		filters, n int
		nonscaling bool
	}{
		{"empty", 1, 0, false},
		{"1 sub-filter", 1, 50, false},
		{"3 sub-filters", 3, 500, false},
		{"10 sub-filters", 10, 60000, false},
		{"non-scaling", 1, 100, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := mustBloom(t, 100, 0.01, 2, tt.nonscaling)
			b.fill(t, tt.n)
			dump := b.Dump()
			if len(dump) != 1+tt.filters {
				t.Errorf("%d chunks, want %d", len(dump), 1+tt.filters)
			}
			loaded, err := LoadBloom(dump)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(loaded, b) {
				t.Error("the filter that was loaded differs")
			}
			if !reflect.DeepEqual(loaded.Dump(), dump) {
				t.Error("its dump differs")
			}
		})
	}
}

func TestBloom_header(t *testing.T) {
	b := mustBloom(t, 100, 0.01, 2, false)
	b.fill(t, 1)
	h := b.header()
	le := binary.LittleEndian
	if len(h) != 73 || le.Uint64(h) != 1 || le.Uint32(h[8:]) != 1 || le.Uint32(h[12:]) != 5 || le.Uint32(h[16:]) != 2 ||
		le.Uint64(h[20:]) != 144 || le.Uint64(h[28:]) != 1152 || le.Uint64(h[36:]) != 1 ||
		math.Float64frombits(le.Uint64(h[44:])) != 0.005 || le.Uint32(h[60:]) != 8 || le.Uint64(h[64:]) != 100 || h[72] != 0 {
		t.Errorf("header %x", h)
	}
	if got := mustBloom(t, 100, 0.01, 2, true).header()[12]; got != 13 {
		t.Errorf("options of a non-scaling filter: %d", got)
	}
}

// TestBloom_longChunks dumps a sub-filter of more than 16 MiB.
func TestBloom_longChunks(t *testing.T) {
	b := mustBloom(t, 15_000_000, 0.01, 2, true)
	b.fill(t, 10)
	dump := b.Dump()
	length := int64(len(b.filters[0].array))
	if len(dump) != 3 || dump[1].Iter != 1+MaxChunk || len(dump[1].Data) != MaxChunk || dump[2].Iter != 1+length {
		t.Errorf("%d chunks", len(dump))
	}
	if loaded, err := LoadBloom(dump); err != nil || !bytes.Equal(loaded.filters[0].array, b.filters[0].array) {
		t.Errorf("loaded: %v", err)
	}
}

func TestBloom_badHeader(t *testing.T) {
	le := binary.LittleEndian
	for name, spoil := range map[string]func(h []byte) []byte{
		"short":            func(h []byte) []byte { return h[:len(h)-1] },
		"long":             func(h []byte) []byte { return append(h, 0) },
		"no link":          func(h []byte) []byte { return h[:19] },
		"no sub-filter":    func(h []byte) []byte { le.PutUint32(h[8:], 0); return h[:20] },
		"unknown option":   func(h []byte) []byte { h[12] |= 16; return h },
		"rate 0":           func(h []byte) []byte { le.PutUint64(h[44:], 0); return h },
		"rate 1":           func(h []byte) []byte { le.PutUint64(h[44:], math.Float64bits(1)); return h },
		"rate NaN":         func(h []byte) []byte { le.PutUint64(h[44:], math.Float64bits(math.NaN())); return h },
		"hashes":           func(h []byte) []byte { h[60]++; return h },
		"bits":             func(h []byte) []byte { h[28]++; return h },
		"no bits":          func(h []byte) []byte { le.PutUint64(h[20:], 0); le.PutUint64(h[28:], 0); return h },
		"n2":               func(h []byte) []byte { h[72] = 64; return h },
		"items of all":     func(h []byte) []byte { h[0]++; return h },
		"items of the one": func(h []byte) []byte { h[36]++; return h },
	} {
		if _, err := LoadBloomHeader(spoil(mustBloom(t, 100, 0.01, 2, false).header())); !errors.Is(err, ErrBadData) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBloom_badChunk(t *testing.T) {
	b := mustBloom(t, 10, 0.01, 2, false)
	b.fill(t, 15) // 2 sub-filters of 16 and 32 bytes
	for _, tt := range []struct {
		iter, length int
		want         error
	}{
		{0, 0, ErrBadData},
		{-1, 0, ErrBadData},
		{1, 2, ErrBadData},
		{8, 8, ErrNoLink}, // it would begin before the first byte
		{9, 8, nil},
		{17, 16, nil},
		{17, 1, nil},
		{18, 17, ErrTooBig},
		{18, 2, ErrTooBig}, // of both sub-filters
		{49, 32, nil},
		{50, 1, ErrNoLink},
		{50, 33, ErrTooBig},
	} {
		if err := b.LoadChunk(Chunk{int64(tt.iter), make([]byte, tt.length)}); !errors.Is(err, tt.want) {
			t.Errorf("iter %d, %d bytes: %v, want %v", tt.iter, tt.length, err, tt.want)
		}
	}
	if _, err := LoadBloom([]Chunk{{17, make([]byte, 16)}}); !errors.Is(err, ErrNotFound) {
		t.Errorf("without a header: %v", err)
	}
}
