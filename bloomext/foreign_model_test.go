package bloomext_test

import (
	"encoding/binary"
	"math/big"
	"math/bits"

	"github.com/sievekv/sievekv/bloomext"
)

// foreign is a Bloom filter of another library, written from what its authors have published.
type foreign struct {
	format bloomext.ForeignFormat
	places func(f *foreign, item []byte) []uint64 // the bits of an item
	m, k   uint64
	set    []bool
}

func newForeign(format bloomext.ForeignFormat, places func(*foreign, []byte) []uint64, m, k uint64) *foreign {
	return &foreign{format: format, places: places, m: m, k: k, set: make([]bool, m)}
}

func (f *foreign) has(item []byte) bool {
	for _, p := range f.places(f, item) {
		if !f.set[p] {
			return false
		}
	}
	return true
}

// add reports whether the item is new.
func (f *foreign) add(item []byte) bool {
	isNew := !f.has(item)
	for _, p := range f.places(f, item) {
		f.set[p] = true
	}
	return isNew
}

// ones returns the number of bits that are set.
func (f *foreign) ones() (n uint64) {
	for _, set := range f.set {
		if set {
			n++
		}
	}
	return n
}

// guava32 is MURMUR128_MITZ_32: int hash1 = (int) hash64, hash2 = (int) (hash64 >>> 32); for i = 1 to k, combinedHash is
// hash1 + i * hash2, of which all bits are flipped if it is negative.
func guava32(f *foreign, item []byte) (places []uint64) {
	hash64, _ := murmur3(item)
	hash1, hash2 := int32(uint32(hash64)), int32(uint32(hash64>>32))
	for i := int32(1); i <= int32(f.k); i++ {
		combined := hash1 + i*hash2
		if combined < 0 {
			combined = ^combined
		}
		places = append(places, uint64(combined)%f.m)
	}
	return places
}

// guava64 is MURMUR128_MITZ_64: (combinedHash & Long.MAX_VALUE) % bitSize, and combinedHash += hash2 after each.
func guava64(f *foreign, item []byte) (places []uint64) {
	combined, hash2 := murmur3(item)
	for range f.k {
		places = append(places, combined&(1<<63-1)%f.m)
		combined += hash2
	}
	return places
}

// bitsAndBlooms is location(h, i) = h[i%2] + i*h[2+(((i+(i%2))%4)/2)], modulo m. The hashes are those of the item, and of
// it with a byte 1 behind it.
func bitsAndBlooms(f *foreign, item []byte) (places []uint64) {
	var h [4]uint64
	h[0], h[1] = murmur3(item)
	h[2], h[3] = murmur3(append(item[:len(item):len(item)], 1))
	for i := range f.k {
		places = append(places, (h[i%2]+i*h[2+(((i+(i%2))%4)/2)])%f.m)
	}
	return places
}

// file returns the file of the filter.
func (f *foreign) file() (b []byte) {
	words := make([]uint64, (f.m+63)/64)
	for i, set := range f.set {
		if set {
			words[i/64] |= 1 << (i % 64)
		}
	}
	if f.format == bloomext.Guava {
		b = append(b, 0, byte(f.k))
		if n := uint64(1 << 40); len(guava64(&foreign{m: n, k: 1}, nil)) == 1 && f.is64() {
			b[0] = 1
		}
		b = binary.BigEndian.AppendUint32(b, uint32(len(words)))
	} else {
		for _, v := range []uint64{f.m, f.k, f.m} {
			b = binary.BigEndian.AppendUint64(b, v)
		}
	}
	for _, word := range words {
		b = binary.BigEndian.AppendUint64(b, word)
	}
	return b
}

// murmur3 is MurmurHash3_x64_128 with seed 0, as https://github.com/aappleby/smhasher/blob/master/src/MurmurHash3.cpp has it.
func murmur3(data []byte) (h1, h2 uint64) {
	const c1, c2 = 0x87c37b91114253d5, 0x4cf5ad432745937f
	nblocks := len(data) / 16
	for i := range nblocks {
		k1, k2 := binary.LittleEndian.Uint64(data[16*i:]), binary.LittleEndian.Uint64(data[16*i+8:])
		k1 *= c1
		k1 = bits.RotateLeft64(k1, 31)
		k1 *= c2
		h1 ^= k1
		h1 = bits.RotateLeft64(h1, 27)
		h1 += h2
		h1 = h1*5 + 0x52dce729
		k2 *= c2
		k2 = bits.RotateLeft64(k2, 33)
		k2 *= c1
		h2 ^= k2
		h2 = bits.RotateLeft64(h2, 31)
		h2 += h1
		h2 = h2*5 + 0x38495ab5
	}
	tail := data[16*nblocks:]
	var k1, k2 uint64
	for i := len(tail) - 1; i >= 0; i-- {
		if i >= 8 {
			k2 ^= uint64(tail[i]) << (8 * (i - 8))
		} else {
			k1 ^= uint64(tail[i]) << (8 * i)
		}
	}
	if len(tail) > 8 {
		k2 *= c2
		k2 = bits.RotateLeft64(k2, 33)
		k2 *= c1
		h2 ^= k2
	}
	if len(tail) > 0 {
		k1 *= c1
		k1 = bits.RotateLeft64(k1, 31)
		k1 *= c2
		h1 ^= k1
	}
	h1 ^= uint64(len(data))
	h2 ^= uint64(len(data))
	h1 += h2
	h2 += h1
	fmix := func(k uint64) uint64 {
		k ^= k >> 33
		k *= 0xff51afd7ed558ccd
		k ^= k >> 33
		k *= 0xc4ceb9fe1a85ec53
		k ^= k >> 33
		return k
	}
	h1, h2 = fmix(h1), fmix(h2)
	h1 += h2
	h2 += h1
	return h1, h2
}
