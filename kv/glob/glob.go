// Package glob matches patterns as Redis has them, in a time that is bounded by pattern and text.
package glob

import "fmt"

// MaxLen is the most bytes of a pattern.
const MaxLen = 4 << 10

// Pattern is a pattern as Redis has them: * stands for any bytes, ? for one, [abc], [a-z] and
// [^a] for one of a set or not of it, and a backslash takes the next byte as it is.
//
// It is a list of elements that take one byte each, with stars between them. A match
// keeps, as bits, all numbers of elements that may have taken what was read so far, and moves
// them on together. So it takes 1 + elements/64 steps for a byte, whatever the pattern
// and the text are, where trying one way after the other takes elements times bytes, or more.
type Pattern struct {
	elements int
	words    int      // of a list of bits, one for each number of elements from 0 on
	takes    []uint64 // words for each byte: of the elements that take it
	stars    []uint64 // words: of the elements that a star stands before, and of the end
}

// Bytes is what the pattern of a text takes in memory.
func Bytes(text string) int { return (1 + 256) * 8 * wordsOf(min(len(text), MaxLen)) }

func wordsOf(length int) int { return length/64 + 1 }

// New returns the pattern of a text, or an error for a text of more than MaxLen bytes.
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

// Match reports whether the whole of a text matches.
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

// byteSet has true for the bytes of a set.
type byteSet [256]bool

// element returns the bytes that the element at a place of a pattern takes, and the place
// behind it.
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

// bracketed returns the set that begins at a place. One that is not closed goes to the end of
// the pattern. Ranges compare bytes as signed, as Redis does.
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
