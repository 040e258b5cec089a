package bloomext_test

import (
	"encoding/binary"
	"math/bits"

	"github.com/sievekv/sievekv/bloomext"
)

// foreignKind is a kind of Bloom filters of other libraries, written from what their authors have published.
type foreignKind struct {
	name   string
	format bloomext.ForeignFormat
	places func(item []byte, m, k uint64) []uint64 // the bits of an item
	file   func(f *foreign) []byte
	whole  bool // the bits are whole words
	most   uint64
}

var foreignKinds = []foreignKind{
	{"guava32", bloomext.Guava, guava32, func(f *foreign) []byte { return guavaFile(f, 0) }, true, 255},
	{"guava64", bloomext.Guava, guava64, func(f *foreign) []byte { return guavaFile(f, 1) }, true, 255},
	{"bits-and-blooms", bloomext.BitsAndBlooms, bitsAndBlooms, bitsAndBloomsFile, false, 1100},
	{"redisson", bloomext.Redisson, redisson, redissonFile, false, 1100},
}

// foreign is a filter of such a kind.
type foreign struct {
	foreignKind
	m, k uint64
	set  []bool
}

func newForeign(kind foreignKind, m, k uint64) *foreign {
	return &foreign{foreignKind: kind, m: m, k: k, set: make([]bool, m)}
}

func (f *foreign) has(item []byte) bool {
	for _, p := range f.places(item, f.m, f.k) {
		if !f.set[p] {
			return false
		}
	}
	return true
}

// add reports whether the item is new.
func (f *foreign) add(item []byte) bool {
	isNew := !f.has(item)
	for _, p := range f.places(item, f.m, f.k) {
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

// how returns how the file is imported.
func (f *foreign) how() bloomext.ForeignFile {
	how := bloomext.ForeignFile{Format: f.format}
	if f.format == bloomext.Redisson {
		how.Bits, how.Hashes = f.m, int(f.k)
	}
	return how
}

// guava32 is MURMUR128_MITZ_32: int hash1 = (int) hash64, hash2 = (int) (hash64 >>> 32); for i = 1 to k, combinedHash is
// hash1 + i * hash2, of which all bits are flipped if it is negative.
func guava32(item []byte, m, k uint64) (places []uint64) {
	hash64, _ := murmur3(item)
	hash1, hash2 := int32(uint32(hash64)), int32(uint32(hash64>>32))
	for i := int32(1); i <= int32(k); i++ {
		combined := hash1 + i*hash2
		if combined < 0 {
			combined = ^combined
		}
		places = append(places, uint64(combined)%m)
	}
	return places
}

// guava64 is MURMUR128_MITZ_64: (combinedHash & Long.MAX_VALUE) % bitSize, and combinedHash += hash2 after each.
func guava64(item []byte, m, k uint64) (places []uint64) {
	combined, hash2 := murmur3(item)
	for range k {
		places = append(places, combined&(1<<63-1)%m)
		combined += hash2
	}
	return places
}

// guavaFile is writeTo: a byte with the ordinal of the strategy, a byte with the number of hash functions, an int with the
// number of longs, and the longs.
func guavaFile(f *foreign, strategy byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{strategy, byte(f.k)}, uint32(f.m/64))
	return f.appendWords(b)
}

// bitsAndBlooms is location(h, i) = h[i%2] + i*h[2+(((i+(i%2))%4)/2)], modulo m. The hashes are those of the item, and of
// it with a byte 1 behind it.
func bitsAndBlooms(item []byte, m, k uint64) (places []uint64) {
	var h [4]uint64
	h[0], h[1] = murmur3(item)
	h[2], h[3] = murmur3(append(item[:len(item):len(item)], 1))
	for i := range k {
		places = append(places, (h[i%2]+i*h[2+(((i+(i%2))%4)/2)])%m)
	}
	return places
}

// bitsAndBloomsFile is WriteTo: m, k, and what WriteTo of the bit set writes, its length and its words.
func bitsAndBloomsFile(f *foreign) (b []byte) {
	for _, v := range []uint64{f.m, f.k, f.m} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return f.appendWords(b)
}

func (f *foreign) appendWords(b []byte) []byte {
	words := make([]uint64, (f.m+63)/64)
	for i, set := range f.set {
		if set {
			words[i/64] |= 1 << (i % 64)
		}
	}
	for _, word := range words {
		b = binary.BigEndian.AppendUint64(b, word)
	}
	return b
}

// redisson is hash(hash1, hash2, iterations, size) of RedissonBloomFilter: (hash & Long.MAX_VALUE) % size, and hash2 and
// hash1 are added to hash in turn.
func redisson(item []byte, m, k uint64) (places []uint64) {
	hash1, hash2 := highwayHash(item)
	hash := hash1
	for i := range k {
		places = append(places, hash&(1<<63-1)%m)
		if i%2 == 0 {
			hash += hash2
		} else {
			hash += hash1
		}
	}
	return places
}

// redissonFile is the string that as many SETBIT make.
func redissonFile(f *foreign) (b []byte) {
	for i, set := range f.set {
		if set {
			b = append(b, make([]byte, max(0, i/8+1-len(b)))...)
			b[i/8] |= 0x80 >> (i % 8)
		}
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

// highwayHash is HighwayHash 128 with the key of Redisson's class Hash, as the portable implementation in
// https://github.com/google/highwayhash has it. Lanes are kept as bytes.
func highwayHash(data []byte) (uint64, uint64) {
	key := [4]uint64{0x9e3779b97f4a7c15, 0xf39cc0605cedc834, 0x1082276bf3a27251, 0xf86c6a11d0c18e95}
	mul0 := [4]uint64{0xdbe6d5d5fe4cce2f, 0xa4093822299f31d0, 0x13198a2e03707344, 0x243f6a8885a308d3}
	mul1 := [4]uint64{0x3bd39e10cb0ef593, 0xc0acf169b5f18a8c, 0xbe5466cf34e90c6c, 0x452821e638d01377}
	var v0, v1 [4]uint64
	for i := range 4 {
		v0[i] = mul0[i] ^ key[i]
		v1[i] = mul1[i] ^ bits.RotateLeft64(key[i], 32)
	}
	shuffled := [16]byte{3, 12, 2, 5, 14, 1, 15, 0, 11, 4, 10, 13, 9, 6, 8, 7} // of two lanes, the first one's bytes first
	zipperMergeAndAdd := func(from, to *[4]uint64) {
		for i := 0; i < 4; i += 2 {
			var in, out [16]byte
			binary.LittleEndian.PutUint64(in[:], from[i])
			binary.LittleEndian.PutUint64(in[8:], from[i+1])
			for j, at := range shuffled {
				out[j] = in[at]
			}
			to[i] += binary.LittleEndian.Uint64(out[:])
			to[i+1] += binary.LittleEndian.Uint64(out[8:])
		}
	}
	update := func(lanes [4]uint64) {
		for i := range 4 {
			v1[i] += mul0[i] + lanes[i]
			mul0[i] ^= uint64(uint32(v1[i])) * (v0[i] >> 32)
			v0[i] += mul1[i]
			mul1[i] ^= uint64(uint32(v0[i])) * (v1[i] >> 32)
		}
		zipperMergeAndAdd(&v1, &v0)
		zipperMergeAndAdd(&v0, &v1)
	}
	packet := func(b []byte) (lanes [4]uint64) {
		for i := range lanes {
			lanes[i] = binary.LittleEndian.Uint64(b[8*i:])
		}
		return lanes
	}
	for ; len(data) >= 32; data = data[32:] {
		update(packet(data))
	}
	if size := uint64(len(data)); size > 0 {
		for i := range 4 {
			v0[i] += size<<32 + size
			low, high := uint32(v1[i]), uint32(v1[i]>>32)
			v1[i] = uint64(low<<size|low>>(32-size)) | uint64(high<<size|high>>(32-size))<<32
		}
		var last [32]byte
		mod4 := size & 3
		copy(last[:], data[:size-mod4])
		if size&16 != 0 {
			copy(last[28:], data[size-4:])
		} else if mod4 != 0 {
			last[16] = data[size-mod4]
			last[17] = data[size-mod4+mod4>>1]
			last[18] = data[size-1]
		}
		update(packet(last[:]))
	}
	for range 6 {
		update([4]uint64{
			bits.RotateLeft64(v0[2], 32), bits.RotateLeft64(v0[3], 32), bits.RotateLeft64(v0[0], 32), bits.RotateLeft64(v0[1], 32),
		})
	}
	return v0[0] + mul0[0] + v1[2] + mul1[2], v0[1] + mul0[1] + v1[3] + mul1[3]
}
