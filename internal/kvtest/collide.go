package kvtest

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
)

// Items that XXH64 does not tell apart, for tests that show that filters do.

const (
	xxhPrime1 uint64 = 0x9E3779B185EBCA87
	xxhPrime2 uint64 = 0xC2B2AE3D27D4EB4F
)

// inverse returns the number that gives 1 when multiplied with an odd one, modulo 2^64.
func inverse(x uint64) uint64 {
	y := x // right in 3 bits; each step doubles them
	for range 5 {
		y *= 2 - x*y
	}
	return y
}

// flipRound returns the word whose round of XXH64, with nothing before it, differs from another word's in one bit.
func flipRound(word uint64, bit int) uint64 {
	r := bits.RotateLeft64(word*xxhPrime2, 31) * xxhPrime1
	r ^= 1 << bit
	return bits.RotateLeft64(r*inverse(xxhPrime1), -31) * inverse(xxhPrime2)
}

// Collide returns another item with the hash of an item, by XXH64 with any seed. The item has 16 to 31 bytes, or a
// multiple of 32 more. The two differ in the first 16 bytes after the multiple: what the first of their words changes
// in the state, its highest bit once it has been rotated and multiplied, the second one takes back.
func Collide(item []byte) []byte {
	other := slices.Clone(item)
	b := other[len(other)&^31:]
	binary.LittleEndian.PutUint64(b, flipRound(binary.LittleEndian.Uint64(b), 36))
	binary.LittleEndian.PutUint64(b[8:], flipRound(binary.LittleEndian.Uint64(b[8:]), 63))
	return other
}

// CollideOften returns variants of an item of at least 64 bytes. One in 2^changes of them has the item's hash by XXH64,
// whatever the seed. Two words that are 32 bytes apart follow each other in one lane of the hash. If the first adds
// 2^32 to it, or takes that away, which of the two depends on the seed, only the lane's highest bit changes, and the
// second takes that back. Each item returned has changes pairs of such words changed.
func CollideOften(item []byte, changes int) (others [][]byte) {
	var change func(b []byte, pair, left int)
	change = func(b []byte, pair, left int) {
		if left == 0 {
			others = append(others, b)
			return
		}
		for ; pair < len(b)/64*4; pair++ {
			for _, delta := range []uint64{1 << 32, ^uint64(1<<32) + 1} {
				c := slices.Clone(b)
				first, second := c[pair/4*64+pair%4*8:], c[pair/4*64+32+pair%4*8:]
				addRound(first, delta)
				addRound(second, 1<<63)
				change(c, pair+1, left-1)
			}
		}
	}
	change(item, 0, changes)
	return others
}

// addRound changes a word so that what XXH64 adds to a lane for it is more by a number.
func addRound(b []byte, more uint64) {
	binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)+more*inverse(xxhPrime2))
}

// CollidingPairs returns n different items of 16 bytes, without a line break, and for each
// another with the hash of it by XXH64.
func CollidingPairs(n int) (items, others [][]byte) {
	for i := uint64(0); len(items) < n; i++ {
		item := binary.LittleEndian.AppendUint64([]byte("https://"), i*0x9E3779B97F4A7C15)
		other := Collide(item)
		if !bytes.ContainsAny(item, "\r\n") && !bytes.ContainsAny(other, "\r\n") {
			items, others = append(items, item), append(others, other)
		}
	}
	return items, others
}
