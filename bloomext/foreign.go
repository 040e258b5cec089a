package bloomext

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// The foreign layout: a filter was imported from a file of another library, and answers as that library does.
//
// The filter has one layer. Its array of bits is cut into blocks as in the compatible layout, and lookups and adds
// are the same. Only the function from an item to its bits differs: see scheme. The filter does not grow. It is never
// full: the other libraries refuse no item, whatever the error rate has become.

// scheme says how an item chooses its bits. Stored: do not renumber.
//
// Each scheme makes a number for each bit j, from 0 to k-1. The bit is its remainder modulo the bits of the array.
// The items are bytes. A and B are the halves of MurmurHash3 x64 128 of an item, with seed 0, unless the scheme has another
// hash. Sums and products are modulo 2^64.
type scheme uint8

const (
	// schemeCompatible is the scheme of the compatible layout. It is not stored.
	schemeCompatible scheme = 0

	// schemeGuava32 is Guava's MURMUR128_MITZ_32. The number is the lower half of A plus j+1 times the upper half, modulo
	// 2^32. If it is 2^31 or more, all of its 32 bits are flipped.
	schemeGuava32 scheme = 1

	// schemeGuava64 is Guava's MURMUR128_MITZ_64. The number is A + jB without the highest bit.
	schemeGuava64 scheme = 2

	// schemeBitsAndBlooms is the scheme of bits-and-blooms/bloom v3. C and D are the halves of the hash of the item with a byte 1
	// behind it. The numbers for j from 0 on are in turn A + jC, B + jD, A + jD and B + jC.
	schemeBitsAndBlooms scheme = 3

	// schemeRedisson is the scheme of Redisson's RBloomFilter, since Redisson 3.6.0. A and B are the halves of HighwayHash 128 of
	// the item, with a key of Redisson. The number is A, to which B and A are added in turn j times, without the highest bit.
	schemeRedisson scheme = 4

	numSchemes = 5
)

// String returns what Info calls the scheme, "" for the compatible layout.
func (s scheme) String() string {
	return [numSchemes]string{"", "guava MURMUR128_MITZ_32", "guava MURMUR128_MITZ_64", "bits-and-blooms v3", "redisson"}[s]
}

// pair returns the hashes of an item.
func (s scheme) pair(item []byte) (p pair) {
	switch s {
	case schemeBitsAndBlooms:
		p.a, p.b, p.c, p.d = hash.SumMurmur3Twice(item)
	case schemeRedisson:
		p.a, p.b = hash.SumHighway(hash.RedissonKey(), item)
	default:
		p.a, p.b = hash.SumMurmur3(item)
	}
	return p
}

// number returns the number of bit j of an item.
func (s scheme) number(p pair, j uint64) uint64 {
	switch s {
	case schemeGuava32:
		n := int32(p.a) + int32(j+1)*int32(p.a>>32)
		return uint64(n ^ n>>31)
	case schemeGuava64:
		return (p.a + j*p.b) & math.MaxInt64
	case schemeRedisson:
		return ((1+j/2)*p.a + (j+1)/2*p.b) & math.MaxInt64
	}
	first, step := p.a, p.c
	if j%2 == 1 {
		first = p.b
	}
	if (j+1)/2%2 == 1 {
		step = p.d
	}
	return first + j*step
}

// hash returns the hash of the items, as it is stored with the filter.
func (s scheme) hash() hash.Function {
	if s == schemeRedisson {
		return hash.NewHighway()
	}
	return hash.NewMurmur3()
}

const (
	foreignParamsLen = 27

	// maxForeignBits is the most bits of a layer.
	maxForeignBits = format.MaxBlocks * flatBits
)

// appendForeign appends the stored parameters of a layer with the foreign layout. All fields are little-endian:
//
//	offset  size  field
//	0       1     scheme
//	1       2     k, bits of an item, 1 to 1100
//	3       8     bits of the layer, 1 to 2^46
//	11      8     error rate that is expected at the capacity, IEEE 754 bits
//	19      8     capacity, at least 1
//
// The counters are the same as in layerParams. Counter 0 is always an estimate.
func (p flatParams) appendForeign(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint16(append(dst, byte(p.scheme)), uint16(p.hashes))
	for _, v := range []uint64{p.bits, math.Float64bits(p.rate), p.capacity} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	return dst
}

func decodeForeignParams(b []byte) (p flatParams, err error) {
	if len(b) != foreignParamsLen {
		return p, fmt.Errorf("%w: foreign Bloom layer parameters of %d bytes, want %d", kv.ErrCorrupt, len(b), foreignParamsLen)
	}
	wide := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	p = flatParams{
		scheme: scheme(b[0]), hashes: uint32(binary.LittleEndian.Uint16(b[1:])), bits: wide(3),
		rate: math.Float64frombits(wide(11)), capacity: wide(19),
	}
	switch {
	case p.scheme >= numSchemes:
		return p, fmt.Errorf("%w: foreign Bloom layer with scheme %d", kv.ErrUnsupportedVersion, p.scheme)
	case p.scheme == schemeCompatible, p.hashes < 1, p.hashes > maxFlatHashes, p.bits < 1, p.bits > maxForeignBits,
		!(p.rate > 0 && p.rate < 1), p.capacity < 1:
		return p, fmt.Errorf("%w: foreign Bloom layer parameters %x", kv.ErrCorrupt, b)
	}
	return p, nil
}

// newForeign returns the parameters of a layer with a number of bits, and of bits of an item. The capacity is the number of items
// that set half of the bits, on average.
func newForeign(s scheme, bits, hashes uint64) flatParams {
	return flatParams{
		scheme: s, bits: bits, hashes: uint32(hashes),
		rate:     max(math.Pow(0.5, float64(hashes)), math.SmallestNonzeroFloat64),
		capacity: uint64(max(1, float64(bits)*math.Ln2/float64(hashes))),
	}
}

// openForeign opens the layer of a filter with the foreign layout.
func openForeign(chain scalableext.Params, l *kv.Layer) (layer, error) {
	opened, err := openFlat(l, decodeForeignParams)
	if err == nil && (chain.Growth != scalableext.Native || chain.Expansion != 0 || chain.Hash != opened.flat.scheme.hash()) {
		err = fmt.Errorf("%w: foreign Bloom filter with growth rule %d, expansion %d and hash %v", kv.ErrCorrupt,
			chain.Growth, chain.Expansion, chain.Hash)
	}
	return opened, err
}
