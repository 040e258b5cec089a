package hash

import "math/bits"

// highway is the state of HighwayHash: https://github.com/google/highwayhash.
type highway struct{ v0, v1, mul0, mul1 [4]uint64 }

func newHighway(key [4]uint64) highway {
	h := highway{
		mul0: [4]uint64{0xdbe6d5d5fe4cce2f, 0xa4093822299f31d0, 0x13198a2e03707344, 0x243f6a8885a308d3},
		mul1: [4]uint64{0x3bd39e10cb0ef593, 0xc0acf169b5f18a8c, 0xbe5466cf34e90c6c, 0x452821e638d01377},
	}
	for i, k := range key {
		h.v0[i] = h.mul0[i] ^ k
		h.v1[i] = h.mul1[i] ^ bits.RotateLeft64(k, 32)
	}
	return h
}

// update takes 32 bytes.
func (h *highway) update(words [4]uint64) {
	const low = 1<<32 - 1
	for i, word := range words {
		h.v1[i] += h.mul0[i] + word
		h.mul0[i] ^= h.v1[i] & low * (h.v0[i] >> 32)
		h.v0[i] += h.mul1[i]
		h.mul1[i] ^= h.v0[i] & low * (h.v1[i] >> 32)
	}
	for i := 0; i < 4; i += 2 {
		a, b := zipper(h.v1[i], h.v1[i+1])
		h.v0[i] += a
		h.v0[i+1] += b
	}
	for i := 0; i < 4; i += 2 {
		a, b := zipper(h.v0[i], h.v0[i+1])
		h.v1[i] += a
		h.v1[i+1] += b
	}
}

// zipper mixes the bytes of two words. From the lowest byte on, the first result has the bytes 3 of v, 4 of w, 2 and 5 of v,
// 6 of w, 1 of v, 7 of w and 0 of v. The second has 3 of w, 4 of v, 2, 5 and 1 of w, 6 of v, 0 of w and 7 of v.
func zipper(v, w uint64) (uint64, uint64) {
	return v>>24&0xff | w>>24&0xff00 | v&0xff0000 | v>>16&0xff000000 |
			w>>16&(0xff<<32) | v&0xff00<<32 | w>>8&(0xff<<48) | v<<56,
		w>>24&0xff | v>>24&0xff00 | w&0xff0000 | w>>16&0xff000000 |
			w&0xff00<<24 | v>>8&(0xff<<40) | w&0xff<<48 | v&(0xff<<56)
}

// rest takes the last 1 to 31 bytes.
func (h *highway) rest(b []byte) {
	n := len(b)
	for i := range h.v0 {
		h.v0[i] += uint64(n)<<32 + uint64(n)
		h.v1[i] = uint64(bits.RotateLeft32(uint32(h.v1[i]>>32), n))<<32 | uint64(bits.RotateLeft32(uint32(h.v1[i]), n))
	}
	var packet [32]byte
	whole := copy(packet[:], b[:n&^3])
	switch more := b[whole:]; {
	case n >= 16:
		copy(packet[28:], b[n-4:])
	case len(more) > 0:
		packet[16], packet[17], packet[18] = more[0], more[len(more)/2], more[len(more)-1]
	}
	h.update(highwayWords(packet[:]))
}

func highwayWords(b []byte) [4]uint64 {
	return [4]uint64{word(b), word(b[8:]), word(b[16:]), word(b[24:])}
}

// SumHighway returns both halves of HighwayHash 128 of an item. It does not allocate.
func SumHighway(key [4]uint64, item []byte) (a, b uint64) {
	h := newHighway(key)
	for ; len(item) >= 32; item = item[32:] {
		h.update(highwayWords(item))
	}
	if len(item) > 0 {
		h.rest(item)
	}
	for range 6 {
		h.update([4]uint64{
			bits.RotateLeft64(h.v0[2], 32), bits.RotateLeft64(h.v0[3], 32), bits.RotateLeft64(h.v0[0], 32), bits.RotateLeft64(h.v0[1], 32),
		})
	}
	return h.v0[0] + h.mul0[0] + h.v1[2] + h.mul1[2], h.v0[1] + h.mul0[1] + h.v1[3] + h.mul1[3]
}

// RedissonKey returns the key of HighwayHash in Redisson, which is public.
func RedissonKey() [4]uint64 {
	return [4]uint64{0x9e3779b97f4a7c15, 0xf39cc0605cedc834, 0x1082276bf3a27251, 0xf86c6a11d0c18e95}
}
