// Package text reads and prints the words of commands as Redis does: case, integers and numbers.
package text

import (
	"bytes"
	"math/big"
	"strconv"
	"strings"
)

// FoldCase returns a word in upper case. Only ASCII letters have case, as in C: Unicode
// would fold the long s and the dotless i, which are no letters of an option, to S
// and I.
func FoldCase(word []byte) string { return FoldString(string(word)) }

// FoldString is FoldCase of a string.
func FoldString(word string) string {
	for i := range len(word) {
		if c := word[i]; 'a' <= c && c <= 'z' {
			upper := []byte(word)
			for ; i < len(upper); i++ {
				if c := upper[i]; 'a' <= c && c <= 'z' {
					upper[i] = c - ('a' - 'A')
				}
			}
			return string(upper)
		}
	}
	return word
}

// ParseInt parses an integer in the one form it is printed in: "010", "+5", " 5"
// and "1e3" are none.
func ParseInt(b []byte) (int64, bool) {
	if len(b) > len("-9223372036854775808") {
		return 0, false
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == string(b)
}

// ParseFloat parses a number as Redis does with C's strtod: decimal, hexadecimal,
// inf and nan, no blanks. One that overflows, or underflows to 0, is no number.
func ParseFloat(b []byte) (float64, bool) {
	s, mantissa, ok := floatForm(b)
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	underflow := v == 0 && strings.ContainsAny(mantissa, "123456789abcdef")
	return v, err == nil && !underflow
}

// floatForm returns a number as Go's parsers take it, and its digits.
func floatForm(b []byte) (s, mantissa string, ok bool) {
	s = strings.ToLower(string(b))
	if strings.Contains(s, "_") {
		return "", "", false
	}
	exponent := "e"
	if strings.Contains(s, "0x") {
		exponent = "p"
		if !strings.Contains(s, "p") {
			s += "p0" // Go wants an exponent
		}
	}
	mantissa, _, _ = strings.Cut(s, exponent)
	return s, mantissa, true
}

// longPrecision is the mantissa of the long double of x86, with which Redis adds.
const longPrecision = 64

// maxLongDigits is how long a number Redis takes for a long double, in bytes.
const maxLongDigits = 5 * 1024

// ParseLong parses a number with the precision of a long double. Infinities are
// numbers, not a number is none.
func ParseLong(b []byte) (*big.Float, bool) {
	if len(b) == 0 || len(b) >= maxLongDigits {
		return nil, false
	}
	s, mantissa, ok := floatForm(b)
	if !ok {
		return nil, false
	}
	switch strings.TrimLeft(s, "+-") {
	case "inf", "infinity":
		if strings.Count(s, "+")+strings.Count(s, "-") > 1 {
			return nil, false
		}
		return new(big.Float).SetInf(s[0] == '-'), true
	}
	base := 10
	if strings.Contains(s, "0x") {
		base = 0
	} else if strings.ContainsAny(s, "pxbo") {
		return nil, false
	}
	v, _, err := big.ParseFloat(s, base, longPrecision, big.ToNearestEven)
	if err != nil {
		return nil, false
	}
	const maxExponent, minExponent = 16384, -16445
	if e := v.MantExp(nil); v.IsInf() || v.Sign() != 0 && (e > maxExponent || e < minExponent) ||
		v.Sign() == 0 && strings.ContainsAny(mantissa, "123456789abcdef") {
		return nil, false
	}
	return v, true
}

// AppendLong appends a number with up to 17 digits behind the point.
func AppendLong(dst []byte, v *big.Float) []byte {
	s := v.Append(nil, 'f', 17)
	s = bytes.TrimRight(s, "0")
	s = bytes.TrimSuffix(s, []byte("."))
	if string(s) == "-0" {
		s = s[1:]
	}
	return append(dst, s...)
}
