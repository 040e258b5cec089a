// Package glob matches patterns as Redis does, in a time that pattern and text bound.
package glob

import "fmt"

// MaxLen is the length of the longest pattern, in bytes.
const MaxLen = 4 << 10

// Pattern is a pattern in Redis' form: * stands for any bytes, ? for one byte, [abc] and [a-z] for one byte of a set,
// [^a] for one byte outside of a set. A backslash takes the next byte as it is.
//
// A pattern is a list of elements that each take one byte, with stars between them. Match reads the text byte by byte.
// It keeps a set of numbers, as bits: n is in the set if the first n elements can match the text read so far. Each byte
// moves the whole set on at once, which takes 1 + elements/64 steps for every pattern and text. Trying one way after
// the other can take elements times bytes, or more.
type Pattern struct {
	elements int
	words    int      // length of a set of numbers of elements, which begins with 0
	takes    []uint64 // for each byte the set of elements that take it, in as many words
	stars    []uint64 // the set of elements with a star before them; the end counts as one
}

// Bytes returns how much memory the pattern made of a text takes, in bytes.
func Bytes(text string) int { return (1 + 256) * 8 * wordsOf(min(len(text), MaxLen)) }

func wordsOf(length int) int { return length/64 + 1 }

// New returns the pattern that a text describes. It returns an error for a text of more than MaxLen bytes.
func New(text string) (*Pattern, error) {
	if len(text) > MaxLen {
		return nil, fmt.Errorf("pattern of %d bytes, at most %d", len(text), MaxLen)
	}
	p := &Pattern{words: wordsOf(len(text))}
	p.takes, p.stars = make([]uint64, 256*p.words), make([]uint64, p.words)
	for at := 0; at < len(text); {
		if text[at] == '*' {
			p.stars[p.elements/64] |= 1 << (p.elements % 64)
			at++
			continue
		}
		var set byteSet
		set, at = element(text, at)
		for b := range 256 {
			if set[b] {
				p.takes[b*p.words+p.elements/64] |= 1 << (p.elements % 64)
			}
		}
		p.elements++
	}
	return p, nil
}

// Match reports whether the pattern matches the whole of a text.
func (p *Pattern) Match(text []byte) bool {
	var bits [MaxLen/64 + 1]uint64
	reached := bits[:p.words]
	reached[0] = 1
	last, end := p.elements/64, uint64(1)<<(p.elements%64)
	for _, b := range text {
		if reached[last]&end&p.stars[last] != 0 {
			return true // a star takes the rest
		}
		takes := p.takes[int(b)*p.words:][:p.words]
		any, carry := uint64(0), uint64(0)
		for i, now := range reached {
			moved := now & takes[i]
			reached[i] = moved<<1 | carry | now&p.stars[i]
			carry = moved >> 63
			any |= reached[i]
		}
		if any == 0 {
			return false
		}
	}
	return reached[last]&end != 0
}

// byteSet holds true for each byte of a set.
type byteSet [256]bool

// element returns the bytes that the element beginning at a place of the text takes, and the place behind it.
func element(text string, at int) (set byteSet, next int) {
	switch text[at] {
	case '?':
		for b := range set {
			set[b] = true
		}
		return set, at + 1
	case '[':
		return bracketed(text, at+1)
	case '\\':
		if at+1 < len(text) {
			at++
		}
	}
	set[text[at]] = true
	return set, at + 1
}

// bracketed returns the set of a bracket, and the place behind it. It begins behind the opening bracket. A set that
// is not closed goes to the end of the pattern. Ranges compare bytes as signed numbers, as Redis does.
func bracketed(text string, at int) (set byteSet, next int) {
	not := at < len(text) && text[at] == '^'
	if not {
		at++
	}
	for ; at < len(text) && text[at] != ']'; at++ {
		switch {
		case text[at] == '\\' && at+1 < len(text):
			at++
			set[text[at]] = true
		case at+2 < len(text) && text[at+1] == '-':
			low, high := int(int8(text[at])), int(int8(text[at+2]))
			for b := min(low, high); b <= max(low, high); b++ {
				set[byte(b)] = true
			}
			at += 2
		default:
			set[text[at]] = true
		}
	}
	if not {
		for b := range set {
			set[b] = !set[b]
		}
	}
	return set, min(at+1, len(text))
}
