package kv

// Match reports whether a key matches a pattern as Redis has them: * stands for any
// bytes, ? for one, [abc], [a-z] and [^a] for one of a set or not of it, and a
// backslash takes the next byte as it is.
func Match(pattern, key string) bool {
	// A star first matches nothing, and one byte more each time the rest does not
	// match. Only the last star seen has to be tried again: whatever an earlier one
	// leaves to it, it can take.
	p, k := 0, 0
	star, from := -1, 0
	for k < len(key) {
		if p < len(pattern) {
			if pattern[p] == '*' {
				star, from = p, k
				p++
				continue
			}
			if next, ok := matchOne(pattern, p, key[k]); ok {
				p = next
				k++
				continue
			}
		}
		if star < 0 {
			return false
		}
		from++
		p, k = star+1, from
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchOne matches a byte with the element of a pattern at p, and returns the place
// behind that.
func matchOne(pattern string, p int, c byte) (next int, ok bool) {
	switch pattern[p] {
	case '?':
		return p + 1, true
	case '[':
		return matchSet(pattern, p+1, c)
	case '\\':
		if p+1 < len(pattern) {
			p++
		}
	}
	return p + 1, pattern[p] == c
}

// matchSet matches a byte with the set that begins at p. One that is not closed goes
// to the end of the pattern. Ranges compare bytes as signed, as Redis does.
func matchSet(pattern string, p int, c byte) (next int, ok bool) {
	not := p < len(pattern) && pattern[p] == '^'
	if not {
		p++
	}
	for ; p < len(pattern) && pattern[p] != ']'; p++ {
		switch {
		case pattern[p] == '\\' && p+1 < len(pattern):
			p++
			ok = ok || pattern[p] == c
		case p+2 < len(pattern) && pattern[p+1] == '-':
			low, high := int8(pattern[p]), int8(pattern[p+2])
			if low > high {
				low, high = high, low
			}
			ok = ok || low <= int8(c) && int8(c) <= high
			p += 2
		default:
			ok = ok || pattern[p] == c
		}
	}
	return min(p+1, len(pattern)), ok != not
}
