package hash

import "math/bits"

// murmur3 is the state of MurmurHash3 x64 128 of Austin Appleby, with seed 0, after whole blocks of 16 bytes:
// https://github.com/aappleby/smhasher/blob/master/src/MurmurHash3.cpp.
type murmur3 struct{ a, b uint64 }

const (
	murmur3A = 0x87c37b91114253d5
	murmur3B = 0x4cf5ad432745937f
)

func murmur3First(k uint64) uint64  { return bits.RotateLeft64(k*murmur3A, 31) * murmur3B }
func murmur3Second(k uint64) uint64 { return bits.RotateLeft64(k*murmur3B, 33) * murmur3A }

// blocks takes the whole blocks of b, and returns the rest.
func (m *murmur3) blocks(b []byte) (rest []byte) {
	for ; len(b) >= 16; b = b[16:] {
		m.a ^= murmur3First(word(b))
		m.a = (bits.RotateLeft64(m.a, 27)+m.b)*5 + 0x52dce729
		m.b ^= murmur3Second(word(b[8:]))
		m.b = (bits.RotateLeft64(m.b, 31)+m.a)*5 + 0x38495ab5
	}
	return b
}

// end returns the hash of length bytes that end with rest, the bytes behind the whole blocks.
func (m murmur3) end(rest []byte, length int) (uint64, uint64) {
	var last [16]byte
	copy(last[:], rest)
	a := m.a ^ murmur3First(word(last[:])) ^ uint64(length)
	b := m.b ^ murmur3Second(word(last[8:])) ^ uint64(length)
	a += b
	b += a
	a, b = murmur3Mix(a), murmur3Mix(b)
	a += b
	return a, b + a
}

func murmur3Mix(k uint64) uint64 {
	k = (k ^ k>>33) * 0xff51afd7ed558ccd
	k = (k ^ k>>33) * 0xc4ceb9fe1a85ec53
	return k ^ k>>33
}

// SumMurmur3 returns both halves of MurmurHash3 x64 128 of an item, with seed 0. It does not allocate.
func SumMurmur3(item []byte) (a, b uint64) {
	var m murmur3
	rest := m.blocks(item)
	return m.end(rest, len(item))
}

// SumMurmur3Twice returns SumMurmur3 of an item, and of the item with a byte 1 appended. It does not allocate.
func SumMurmur3Twice(item []byte) (a, b, c, d uint64) {
	var m murmur3
	rest := m.blocks(item)
	a, b = m.end(rest, len(item))
	var longer [16]byte
	n := copy(longer[:], rest)
	longer[n] = 1
	c, d = m.end(m.blocks(longer[:n+1]), len(item)+1)
	return a, b, c, d
}
