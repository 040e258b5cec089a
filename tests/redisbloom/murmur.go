package redisbloom

// murmur64A is MurmurHash64A: m and r are its constants, words are little-endian.
func murmur64A(data []byte, seed uint64) uint64 {
	const (
		m = 0xc6a4a7935bd1e995
		r = 47
	)
	h := seed ^ uint64(len(data))*m
	for len(data) >= 8 {
		var k uint64
		for i := range 8 {
			k |= uint64(data[i]) << (8 * i)
		}
		k *= m
		k ^= k >> r
		k *= m
		h ^= k
		h *= m
		data = data[8:]
	}
	if len(data) > 0 {
		for i, c := range data {
			h ^= uint64(c) << (8 * i)
		}
		h *= m
	}
	h ^= h >> r
	h *= m
	h ^= h >> r
	return h
}
