package hash_test

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"testing"
	"time"

	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/internal/probe"
)

func sipHash(k0, k1 uint64, b []byte, c, d int) uint64 {
	v0, v1, v2, v3 := k0^0x736f6d6570736575, k1^0x646f72616e646f6d, k0^0x6c7967656e657261, k1^0x7465646279746573
	last := uint64(len(b)) << 56
	for ; len(b) >= 8; b = b[8:] {
		m := binary.LittleEndian.Uint64(b)
		v3 ^= m
		for range c {
			v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
		}
		v0 ^= m
	}
	for i, x := range b {
		last |= uint64(x) << (8 * i)
	}
	v3 ^= last
	for range c {
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	}
	v0 ^= last
	v2 ^= 0xff
	for range d {
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	}
	return v0 ^ v1 ^ v2 ^ v3
}

func sipRound(v0, v1, v2, v3 uint64) (uint64, uint64, uint64, uint64) {
	v0 += v1
	v1 = bits.RotateLeft64(v1, 13) ^ v0
	v0 = bits.RotateLeft64(v0, 32)
	v2 += v3
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v0 += v3
	v3 = bits.RotateLeft64(v3, 21) ^ v0
	v2 += v1
	v1 = bits.RotateLeft64(v1, 17) ^ v2
	v2 = bits.RotateLeft64(v2, 32)
	return v0, v1, v2, v3
}

// sink keeps results alive that a benchmark has no other use for.
var sink uint64

// contender is a hash to be measured.
type contender struct {
	name string
	sum  func(items [][]byte) uint64
}

var contenders = []contender{
	{"keyed", func(items [][]byte) (x uint64) {
		f := benchKeyed
		for _, b := range items {
			x += f.Sum(b)
		}
		return x
	}},
	{"xxh64", func(items [][]byte) (x uint64) {
		for _, b := range items {
			x += probe.Sum64Seed(b, 77)
		}
		return x
	}},
	{"siphash-1-3", func(items [][]byte) (x uint64) {
		for _, b := range items {
			x += sipHash(1, 2, b, 1, 3)
		}
		return x
	}},
}

var benchKeyed = hash.NewKeyed(hash.Secret{1})

// BenchmarkSum lets the hashes take turns of a few microseconds, so that they share the machine's good and bad
// moments. It reports the least nanoseconds per item of each.
func BenchmarkSum(b *testing.B) {
	for _, n := range []int{8, 16, 20, 60, 200, 1024, 4096} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			items := make([][]byte, 64)
			for i := range items {
				items[i] = make([]byte, n)
				binary.LittleEndian.PutUint64(items[i], uint64(i))
			}
			least := make([]time.Duration, len(contenders))
			for b.Loop() {
				for i, c := range contenders {
					start := time.Now()
					for range 10 {
						sink += c.sum(items)
					}
					if took := time.Since(start); least[i] == 0 || took < least[i] {
						least[i] = took
					}
				}
			}
			b.ReportMetric(0, "ns/op")
			for i, c := range contenders {
				b.ReportMetric(float64(least[i].Nanoseconds())/float64(10*len(items)), "ns/"+c.name)
			}
		})
	}
}
