package text

// Range returns the part of a string between two indices, both included. Negative indices count from the end, and
// those outside are moved inside.
func Range(value []byte, start, end int64) []byte {
	n := int64(len(value))
	if start < 0 && end < 0 && start > end || n == 0 {
		return nil
	}
	inside := func(i int64) int64 {
		if i < 0 {
			i += n
		}
		return max(0, i)
	}
	start, end = inside(start), min(inside(end), n-1)
	if start > end {
		return nil
	}
	return value[start : end+1]
}
