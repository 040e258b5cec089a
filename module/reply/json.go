package reply

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// AppendJSON appends the reply as one line of valid JSON (RFC 8259):
//
//	status, bulk and verbatim string   "text"
//	integer, double                    number; "inf", "-inf" and "nan" as strings
//	nil, boolean                       null, true, false
//	array, set                         [1,2]
//	map                                {"key":value}, in order
//	error                              {"error":"ERR not found"}
//
// This is what redis-cli --json prints, except for errors, infinities and bytes that are not UTF-8, for which
// redis-cli prints invalid JSON, and for characters that are not printable, which are escaped, see PrintableJSON.
//
// JSON strings hold only text. If a string is not UTF-8, AppendJSON writes it escaped: \xHH stands for the byte HH,
// and \\ for a backslash. JSON then doubles every backslash, so a lone byte 0xff becomes "\\xff". A string that
// contains \x is escaped too, so that escaping can be undone: a program that needs exact bytes decodes the JSON and
// undoes the escapes in those strings that contain \x.
//
// A map key is written as the string that AppendRaw shows: {"5":6} for the integer 5. (Its JSON in quotes would
// double in length with each map that is a key of another.)
func AppendJSON(dst []byte, r Reply) []byte {
	return append(append(dst, PrintableJSON(appendJSON(nil, r))...), '\n')
}

func appendJSON(dst []byte, r Reply) []byte {
	r = r.RESP3()
	switch r.kind {
	case KindNil:
		return append(dst, "null"...)
	case KindInt:
		return strconv.AppendInt(dst, r.num, 10)
	case KindBool:
		return strconv.AppendBool(dst, r.num != 0)
	case KindDouble:
		return appendJSONDouble(dst, r.Double())
	case KindError:
		return append(appendJSONString(append(dst, `{"error":`...), r.data), '}')
	case KindArray, KindSet:
		return append(appendJoined(append(dst, '['), r.Elems(), ',', appendJSON), ']')
	case KindMap:
		return appendJSONMap(dst, r.Elems())
	default:
		return appendJSONString(dst, r.data)
	}
}

func appendJSONMap(dst []byte, elems []Reply) []byte {
	dst = append(dst, '{')
	for i := 0; i < len(elems); i += 2 {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendJSONString(dst, appendRaw(nil, elems[i])), ':')
		dst = appendJSON(dst, elems[i+1])
	}
	return append(dst, '}')
}

func appendJSONDouble(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(appendDouble(append(dst, '"'), f), '"')
	}
	return appendDouble(dst, f)
}

func appendJSONString(dst, text []byte) []byte {
	if !utf8.Valid(text) || bytes.Contains(text, []byte(`\x`)) {
		text = escapeBytes(text)
	}
	dst = append(dst, '"')
	for _, c := range text {
		switch {
		case jsonEscapes[c] != 0:
			dst = append(dst, '\\', jsonEscapes[c])
		case c < ' ':
			dst = append(dst, `\u00`...)
			dst = append(dst, "01"[c>>4], "0123456789abcdef"[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// jsonEscapes are the bytes that JSON escapes with a backslash and one byte.
var jsonEscapes = [256]byte{
	'\\': '\\', '"': '"', '\n': 'n', '\r': 'r', '\t': 't', '\f': 'f', '\b': 'b',
}

// escapeBytes returns text in the escaped form of AppendJSON. The result is valid UTF-8. It contains \x if text is
// not UTF-8 or contained it.
func escapeBytes(text []byte) []byte {
	escaped := make([]byte, 0, len(text)+16)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			escaped = appendHexEscape(escaped, text[0])
		case r == '\\':
			escaped = append(escaped, `\\`...)
		default:
			escaped = append(escaped, text[:size]...)
		}
		text = text[size:]
	}
	return escaped
}

// PrintableJSON is Printable for a text in JSON, which stays the same for programs: unprintable characters, which only
// strings can have, are escaped as \uHHHH. It returns the text itself if there are none.
func PrintableJSON(text []byte) []byte {
	var dst []byte
	kept := 0
	for at := 0; at < len(text); {
		c, n := utf8.DecodeRune(text[at:])
		if !unicode.IsPrint(c) && c != '\n' || c == utf8.RuneError && n == 1 {
			dst = append(dst, text[kept:at]...)
			for _, unit := range utf16.AppendRune(nil, c) {
				dst = fmt.Appendf(dst, `\u%04x`, unit)
			}
			kept = at + n
		}
		at += n
	}
	if kept == 0 {
		return text
	}
	return append(dst, text[kept:]...)
}
