package text

// Range returns the part between two indices, both included, of a string of n bytes, or of anything else that is
// counted: from is the first index, and end is one behind the last. Negative indices count from the end, and those
// outside are moved inside. An empty part is 0, 0.
func Range(n uint64, first, last int64) (from, end uint64) {
	if first < 0 && last < 0 && first > last || n == 0 {
		return 0, 0
	}
	inside := func(i int64) int64 {
		if i < 0 {
			i += int64(n)
		}
		return max(0, i)
	}
	first, last = inside(first), min(inside(last), int64(n)-1)
	if first > last {
		return 0, 0
	}
	return uint64(first), uint64(last) + 1
}
