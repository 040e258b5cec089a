package reply

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// AppendText appends the reply as redis-cli shows it on a terminal, with a line break at the end:
//
//	OK
//	(error) ERR not found
//	(integer) 1
//	(integer) 15 or more
//	"caf\xc3\xa9"
//	(nil)
//	1) (integer) 1
//	2) 1) "nested"
//	   2) (empty array)
//
// Bulk strings are quoted, and all bytes except printable ASCII are escaped, so that one pasted at a prompt is the
// same string again. Verbatim strings, statuses and errors are shown as they are, except for unprintable characters,
// see Printable. "or more" is for AtLeast; redis-cli does not have it.
func AppendText(dst []byte, r Reply) []byte {
	return appendText(dst, r, 0, appendQuoted)
}

// AppendReadable is AppendText for a person whose terminal shows UTF-8: strings that are valid UTF-8 have their letters, such
// as Chinese ones, and their emoji. One pasted at a prompt is the same string again.
func AppendReadable(dst []byte, r Reply) []byte {
	return appendText(dst, r, 0, appendReadable)
}

// appendText is AppendText for a reply whose first line starts at column indent. It indents all other lines of an
// array, but not the lines of a verbatim string, which redis-cli does not indent either.
func appendText(dst []byte, r Reply, indent int, quote func(dst, text []byte) []byte) []byte {
	if r = r.form(0); r.kind == KindVerbatim {
		return appendLines(dst, []byte(Printable(string(r.data))))
	}
	r = r.RESP2()
	switch r.kind {
	case KindNil:
		dst = append(dst, "(nil)"...)
	case KindStatus:
		dst = appendPrintable(dst, string(r.data), "")
	case KindError:
		dst = appendPrintable(append(dst, "(error) "...), string(r.data), "")
	case KindInt:
		dst = strconv.AppendInt(append(dst, "(integer) "...), r.num, 10)
		if r.atLeast {
			dst = append(dst, " or more"...)
		}
	case KindBulk:
		dst = quote(dst, r.data)
	default:
		return appendNumbered(dst, r.Elems(), indent, quote)
	}
	return append(dst, '\n')
}

func appendNumbered(dst []byte, elems []Reply, indent int, quote func(dst, text []byte) []byte) []byte {
	if len(elems) == 0 {
		return append(dst, "(empty array)\n"...)
	}
	width := len(strconv.Itoa(len(elems)))
	for i, e := range elems {
		if i > 0 {
			dst = fmt.Appendf(dst, "%*s", indent, "")
		}
		dst = fmt.Appendf(dst, "%*d) ", width, i+1)
		dst = appendText(dst, e, indent+width+len(") "), quote)
	}
	return dst
}

// AppendRaw appends the reply as redis-cli --raw does: plain values, one in each line, nested ones one after the
// other. A nil and an empty array are an empty line. An empty line follows an error. Values may contain line breaks,
// so only a reply of a single value can be read back exactly: it is everything but the last byte. A verbatim string
// that ends in a line break gets no second one.
func AppendRaw(dst []byte, r Reply) []byte {
	if r = r.form(0); r.kind == KindVerbatim {
		return appendLines(dst, r.data)
	}
	return append(appendRaw(dst, r), '\n')
}

func appendRaw(dst []byte, r Reply) []byte {
	r = r.RESP2()
	switch r.kind {
	case KindNil:
		return dst
	case KindInt:
		return strconv.AppendInt(dst, r.num, 10)
	case KindError:
		return append(append(dst, r.data...), '\n')
	case KindArray:
		return appendJoined(dst, r.Elems(), '\n', appendRaw)
	default:
		return append(dst, r.data...)
	}
}

// AppendCSV appends the reply as redis-cli --csv does: one line with values separated by commas, nested ones one
// after the other. Strings are quoted and escaped as in AppendText (not with doubled quotes as in RFC 4180). Nil is
// NULL, an error is the two values ERROR and its text, an empty array is an empty value.
func AppendCSV(dst []byte, r Reply) []byte {
	return append(appendCSV(dst, r), '\n')
}

func appendCSV(dst []byte, r Reply) []byte {
	r = r.RESP2()
	switch r.kind {
	case KindNil:
		return append(dst, "NULL"...)
	case KindInt:
		return strconv.AppendInt(dst, r.num, 10)
	case KindError:
		return appendQuoted(append(dst, "ERROR,"...), r.data)
	case KindArray:
		return appendJoined(dst, r.Elems(), ',', appendCSV)
	default:
		return appendQuoted(dst, r.data)
	}
}

func appendJoined(dst []byte, elems []Reply, sep byte, appendOne func([]byte, Reply) []byte) []byte {
	for i, e := range elems {
		if i > 0 {
			dst = append(dst, sep)
		}
		dst = appendOne(dst, e)
	}
	return dst
}

// appendLines appends a text, and a line break unless the text ends in one.
func appendLines(dst, text []byte) []byte {
	dst = append(dst, text...)
	if bytes.HasSuffix(text, []byte("\n")) {
		return dst
	}
	return append(dst, '\n')
}

// shortEscapes are the bytes that redis-cli escapes with a backslash and one byte.
var shortEscapes = [256]byte{
	'\\': '\\', '"': '"', '\n': 'n', '\r': 'r', '\t': 't', '\a': 'a', '\b': 'b',
}

func appendQuoted(dst, text []byte) []byte {
	dst = append(dst, '"')
	for _, c := range text {
		switch {
		case shortEscapes[c] != 0:
			dst = append(dst, '\\', shortEscapes[c])
		case ' ' <= c && c <= '~':
			dst = append(dst, c)
		default:
			dst = appendHexEscape(dst, c)
		}
	}
	return append(dst, '"')
}

// appendReadable is appendQuoted for AppendReadable.
func appendReadable(dst, text []byte) []byte {
	if !utf8.Valid(text) {
		return appendQuoted(dst, text)
	}
	dst = append(dst, '"')
	for before := rune(0); len(text) > 0; {
		c, n := utf8.DecodeRune(text)
		switch {
		case c < utf8.RuneSelf:
			quoted := appendQuoted(nil, text[:1])
			dst = append(dst, quoted[1:len(quoted)-1]...)
		case unicode.IsPrint(c), c == joiner && (unicode.Is(unicode.So, before) || unicode.Is(unicode.M, before) || unicode.Is(unicode.Sk, before)):
			dst = append(dst, text[:n]...)
		default:
			for _, b := range text[:n] {
				dst = appendHexEscape(dst, b)
			}
		}
		before, text = c, text[n:]
	}
	return append(dst, '"')
}

// joiner joins emoji to one. It stands behind a symbol, the mark of a symbol's form, or a tone of skin.
const joiner = '\u200d'

// Printable returns a text in which all bytes of unprintable characters, except tabs and line ends, are escaped as
// \xHH: a terminal would take them for commands, for example to clear the screen or to overwrite earlier output.
func Printable(text string) string { return string(appendPrintable(nil, text, "\t\n")) }

func appendPrintable(dst []byte, text, kept string) []byte {
	for i, c := range text {
		n := 1
		if c != utf8.RuneError || strings.HasPrefix(text[i:], "\ufffd") {
			n = utf8.RuneLen(c)
		}
		endsLine := c == '\r' && kept != "" && strings.HasPrefix(text[i:], "\r\n")
		if n == 1 && c == utf8.RuneError || !unicode.IsPrint(c) && !strings.ContainsRune(kept, c) && !endsLine {
			for j := range n {
				dst = appendHexEscape(dst, text[i+j])
			}
			continue
		}
		dst = append(dst, text[i:i+n]...)
	}
	return dst
}

// appendHexEscape appends \xHH.
func appendHexEscape(dst []byte, c byte) []byte {
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'x', digits[c>>4], digits[c&15])
}

// appendDouble appends the shortest decimal number that parses to f. It has an exponent where C's %.17g, the format
// of Redis 7.0, has one. Infinities and NaN are inf, -inf and nan, as in RESP3.
func appendDouble(dst []byte, f float64) []byte {
	abs := math.Abs(f)
	switch {
	case math.IsNaN(f):
		return append(dst, "nan"...)
	case math.IsInf(f, 1):
		return append(dst, "inf"...)
	case math.IsInf(f, -1):
		return append(dst, "-inf"...)
	case f == 0, 1e-4 <= abs && abs < 1e17:
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	default:
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
}
