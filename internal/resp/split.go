package resp

import (
	"fmt"
	"unicode/utf8"
)

// Split splits a command line into words by the rules of Redis and redis-cli:
//
//   - Blanks separate words: space, tab, line feed, carriage return. Vertical tab and form feed are blanks before a word
//     and after a closing quote, but part of an unquoted word.
//   - In double quotes, \n \r \t \b \a are control characters, \xHH is the byte with that hexadecimal value, and a
//     backslash before any other byte stands for that byte.
//   - In single quotes all bytes stand for themselves, except \' for a quote.
//   - A quote may open within a word, as in ab"c d". A closing quote ends the word; a blank or the end of the line must
//     follow it.
//
// Words are any bytes, and may be empty: "" is an empty word. They do not share memory with line. An empty or blank
// line has no words. If a quote is not closed, or followed by another byte than a blank, the error says where,
// counted in characters from 1, and what is missing.
func Split(line []byte) ([][]byte, error) {
	var words [][]byte
	s := NewSplitter(line)
	for s.SkipBlanks() {
		word, err := s.Word()
		if err != nil {
			return nil, err
		}
		words = append(words, word)
	}
	return words, nil
}

// Splitter splits a line word by word, as Split does, for callers that need to know where words begin.
type Splitter struct {
	line []byte
	pos  int
}

// NewSplitter returns a splitter at the beginning of line.
func NewSplitter(line []byte) *Splitter { return &Splitter{line: line} }

// Pos returns the number of bytes that the Splitter has read.
func (s *Splitter) Pos() int { return s.pos }

// SkipBlanks moves to the next word and reports whether there is one.
func (s *Splitter) SkipBlanks() bool {
	for s.pos < len(s.line) && isBlank(s.line[s.pos]) {
		s.pos++
	}
	return s.pos < len(s.line)
}

// Word returns the next word, never nil, and moves behind it.
func (s *Splitter) Word() ([]byte, error) {
	word := []byte{}
	for s.pos < len(s.line) {
		switch c := s.line[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			return word, nil
		case '"', '\'':
			return s.quoted(word, c)
		default:
			word = append(word, c)
			s.pos++
		}
	}
	return word, nil
}

// quoted appends to word the text between the quote at pos and the closing quote. It moves behind the closing quote.
func (s *Splitter) quoted(word []byte, quote byte) ([]byte, error) {
	opened := s.pos
	s.pos++
	for s.pos < len(s.line) {
		switch c := s.line[s.pos]; {
		case c == quote:
			return word, s.closeQuote(quote)
		case c == '\\' && quote == '"':
			word = s.escape(word)
		case c == '\\' && s.at(1) == quote:
			word = append(word, quote)
			s.pos += 2
		default:
			word = append(word, c)
			s.pos++
		}
	}
	return nil, fmt.Errorf("unbalanced quotes: the %c at character %d is not closed by another %c",
		quote, s.character(opened), quote)
}

// closeQuote moves behind the closing quote at pos.
func (s *Splitter) closeQuote(quote byte) error {
	s.pos++
	if s.pos < len(s.line) && !isBlank(s.line[s.pos]) {
		return fmt.Errorf("unbalanced quotes: a space is missing at character %d, after the closing %c",
			s.character(s.pos), quote)
	}
	return nil
}

// escape appends what the backslash at pos and the bytes after it stand for in double quotes, and moves behind them.
// A backslash at the end of the line stands for itself; the quote is then still open.
func (s *Splitter) escape(word []byte) []byte {
	if s.pos+1 == len(s.line) {
		s.pos++
		return append(word, '\\')
	}
	if high, low := hexDigit(s.at(2)), hexDigit(s.at(3)); s.at(1) == 'x' && high >= 0 && low >= 0 {
		s.pos += len(`\xHH`)
		return append(word, byte(high<<4|low))
	}
	c := s.at(1)
	s.pos += 2
	switch c {
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'b':
		c = '\b'
	case 'a':
		c = '\a'
	}
	return append(word, c)
}

// at returns the byte i after pos, or 0, which is no quote and no hexadecimal digit, behind the end of the line.
func (s *Splitter) at(i int) byte {
	if s.pos+i < len(s.line) {
		return s.line[s.pos+i]
	}
	return 0
}

// character returns the number, from 1, of the character at byte pos. An invalid byte of UTF-8 counts as one.
func (s *Splitter) character(pos int) int {
	return utf8.RuneCount(s.line[:pos]) + 1
}

// isBlank is isspace of C, which redis-cli uses. Other Unicode spaces are parts of words.
func isBlank(c byte) bool {
	return c == ' ' || '\t' <= c && c <= '\r'
}

// hexDigit returns the value of a hexadecimal digit, or -1.
func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	default:
		return -1
	}
}
