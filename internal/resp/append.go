package resp

import (
	"slices"
	"strconv"

	"github.com/sievekv/sievekv/module/reply"
)

// Append appends a reply in the form for a client's protocol: RESP3 for 3, RESP2 for any other number.
func Append(dst []byte, r reply.Reply, protocol int) []byte {
	if protocol == 3 {
		return append3(dst, r)
	}
	return append2(dst, r)
}

func append2(dst []byte, r reply.Reply) []byte {
	switch r = r.RESP2(); r.Kind() {
	case reply.KindNil:
		return append(dst, "$-1\r\n"...)
	case reply.KindStatus:
		return appendLine(dst, '+', r.Bytes())
	case reply.KindError:
		return appendLine(dst, '-', r.Bytes())
	case reply.KindInt:
		return appendNumber(dst, ':', r.Int())
	case reply.KindArray:
		if values, ok := r.AsBools(); ok {
			return appendBools(dst, values, ":0\r\n", ":1\r\n")
		}
		dst = appendNumber(dst, '*', int64(len(r.Elems())))
		for _, e := range r.Elems() {
			dst = append2(dst, e)
		}
		return dst
	default:
		return appendBulk(dst, r.Bytes())
	}
}

func append3(dst []byte, r reply.Reply) []byte {
	switch r = r.RESP3(); r.Kind() {
	case reply.KindNil:
		return append(dst, "_\r\n"...)
	case reply.KindBool:
		if r.Int() != 0 {
			return append(dst, "#t\r\n"...)
		}
		return append(dst, "#f\r\n"...)
	case reply.KindDouble: // RESP2 has the same text in a bulk string
		return appendLine(dst, ',', r.RESP2().Bytes())
	case reply.KindVerbatim:
		dst = appendNumber(dst, '=', int64(len("txt:")+len(r.Bytes())))
		return append(append(append(dst, "txt:"...), r.Bytes()...), "\r\n"...)
	case reply.KindArray:
		if values, ok := r.AsBools(); ok {
			return appendBools(dst, values, "#f\r\n", "#t\r\n")
		}
		return appendAll(appendNumber(dst, '*', int64(len(r.Elems()))), r.Elems())
	case reply.KindSet:
		return appendAll(appendNumber(dst, '~', int64(len(r.Elems()))), r.Elems())
	case reply.KindMap:
		return appendAll(appendNumber(dst, '%', int64(len(r.Elems())/2)), r.Elems())
	default: // as in RESP2
		return append2(dst, r)
	}
}

// appendBools appends an array of booleans, given as 0 or 1.
func appendBools(dst []byte, values []byte, no, yes string) []byte {
	dst = appendNumber(dst, '*', int64(len(values)))
	dst = slices.Grow(dst, len(yes)*len(values))
	for _, value := range values {
		if value != 0 {
			dst = append(dst, yes...)
		} else {
			dst = append(dst, no...)
		}
	}
	return dst
}

func appendAll(dst []byte, elems []reply.Reply) []byte {
	for _, e := range elems {
		dst = append3(dst, e)
	}
	return dst
}

// AppendCommand appends the words of a command in the form in which clients send them.
func AppendCommand(dst []byte, words [][]byte) []byte {
	dst = appendNumber(dst, '*', int64(len(words)))
	for _, w := range words {
		dst = appendBulk(dst, w)
	}
	return dst
}

func appendLine(dst []byte, kind byte, text []byte) []byte {
	return append(append(append(dst, kind), text...), "\r\n"...)
}

func appendNumber(dst []byte, kind byte, n int64) []byte {
	return append(strconv.AppendInt(append(dst, kind), n, 10), "\r\n"...)
}

func appendBulk(dst, text []byte) []byte {
	dst = appendNumber(dst, '$', int64(len(text)))
	return append(append(dst, text...), "\r\n"...)
}
