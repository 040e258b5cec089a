package hash

// murmurFactor is the multiplier of MurmurHash64A, which filters of RedisBloom also use as a seed.
const murmurFactor = 0xc6a4a7935bd1e995

// murmur64A is MurmurHash64A of Austin Appleby: https://github.com/aappleby/smhasher/blob/master/src/MurmurHash2.cpp.
func murmur64A(b []byte, seed uint64) uint64 {
	const shift = 47
	h := seed ^ uint64(len(b))*murmurFactor
	for ; len(b) >= 8; b = b[8:] {
		k := word(b) * murmurFactor
		k = (k ^ k>>shift) * murmurFactor
		h = (h ^ k) * murmurFactor
	}
	if len(b) > 0 {
		var tail uint64
		for i, c := range b {
			tail |= uint64(c) << (8 * i)
		}
		h = (h ^ tail) * murmurFactor
	}
	h = (h ^ h>>shift) * murmurFactor
	return h ^ h>>shift
}
