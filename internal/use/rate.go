package use

import "math"

// NearlyFull is the share of its capacity from which a filter that does not grow counts as nearly full.
const NearlyFull = 0.8

// IsAboveRate reports whether a filter answers yes too often: whether the error rate to expect now is above the one
// that it was made for, by more than chance and the roundings of RedisBloom's layout explain. A filter with n items and
// k = log2(1/rate) hashes has about nk/ln 2 bits. Half of them are set, with a standard deviation of about 1/(2.4
// sqrt(nk)) of them. Its expected rate is the k-th power of that share, so its logarithm has a standard deviation of
// about 0.6 sqrt(k/n); this allows for five of them. A filter that was made for no rate, or has no capacity, is never
// above it.
func IsAboveRate(expected, asked float64, capacity uint64) bool {
	if asked <= 0 || asked >= 1 || capacity == 0 {
		return false
	}
	chance := 3 * math.Sqrt(-math.Log2(asked)/float64(capacity))
	return expected/asked > 1.2*math.Exp(chance)
}
