package bench

import (
	"math/bits"
	"time"
)

// histogram counts times. It knows each to 1 part in 32.
type histogram struct {
	counts  [(64 - exact + 1) << exact]uint64
	n       uint64
	longest time.Duration
}

// exact is how many bits of a time are kept.
const exact = 5

func (h *histogram) add(t time.Duration) {
	h.counts[bucket(uint64(max(0, t)))]++
	h.n++
	h.longest = max(h.longest, t)
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.n += other.n
	h.longest = max(h.longest, other.longest)
}

// share returns the time that a share of all times does not exceed, rounded up by up to a 32nd, but not above the
// longest.
func (h *histogram) share(share float64) time.Duration {
	want, seen := uint64(float64(h.n)*share), uint64(0)
	for i, n := range h.counts {
		if seen += n; n > 0 && seen > want {
			return min(h.longest, time.Duration(highest(i)))
		}
	}
	return h.longest
}

// bucket returns the index of a number's bucket, from its highest bit and the bits below it that are kept.
func bucket(x uint64) int {
	shift := max(0, bits.Len64(x)-exact-1)
	return shift<<exact + int(x>>shift)
}

// highest returns the highest number in a bucket.
func highest(i int) uint64 {
	shift := max(0, i>>exact-1)
	return uint64(i-shift<<exact+1)<<shift - 1
}
