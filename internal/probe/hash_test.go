package probe_test

import (
	"encoding/binary"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/sievekv/sievekv/internal/probe"
)

// librarySum is the seeded hash by another implementation.
func librarySum(b []byte, seed uint64) uint64 {
	d := xxhash.NewWithSeed(seed)
	d.Write(b)
	return d.Sum64()
}

func TestSum64Seed_library(t *testing.T) {
	b := make([]byte, 1000)
	bytes := splitmix(5)
	for i := range b {
		b[i] = byte(bytes.next())
	}
	for _, seed := range []uint64{0, 1, 77, 1 << 63, 0xDEADBEEFCAFEF00D, ^uint64(0)} {
		for n := range len(b) + 1 {
			part := b[len(b)-n:]
			want := librarySum(part, seed)
			if got := probe.Sum64Seed(part, seed); got != want {
				t.Fatalf("%d bytes, seed %#x: got %#x, want %#x", n, seed, got, want)
			}
			if got := probe.Sum64SeedString(string(part), seed); got != want {
				t.Fatalf("string of %d bytes, seed %#x: got %#x, want %#x", n, seed, got, want)
			}
		}
	}
}

func TestSum64SeedUint64(t *testing.T) {
	values := splitmix(6)
	for range 1000 {
		v, seed := values.next(), values.next()
		want := librarySum(binary.LittleEndian.AppendUint64(nil, v), seed)
		if got := probe.Sum64SeedUint64(v, seed); got != want {
			t.Fatalf("%#x, seed %#x: got %#x, want %#x", v, seed, got, want)
		}
	}
}

func FuzzSum64Seed(f *testing.F) {
	f.Add([]byte(nil), uint64(0))
	f.Add([]byte("a"), uint64(1))
	f.Add([]byte("thirty-one bytes and no stripes"), uint64(77))
	f.Add([]byte("one stripe of thirty-two bytes.."), ^uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		if got, want := probe.Sum64Seed(b, seed), librarySum(b, seed); got != want {
			t.Errorf("got %#x, want %#x", got, want)
		}
	})
}
