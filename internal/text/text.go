// Package text reads and prints words and numbers of commands as Redis does.
package text

import (
	"bytes"
	"math/big"
	"strconv"
	"strings"
)

// FoldCase returns a word in upper case. As in C, only ASCII letters have a case: Unicode would fold the long s and
// the dotless i, which occur in no option, to S and I.
func FoldCase(word []byte) string { return FoldString(string(word)) }

// FoldString is FoldCase for a string.
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

// ParseInt parses an integer in the one form in which it is printed. It takes none of "010", "+5", " 5" and "1e3".
func ParseInt(b []byte) (int64, bool) {
	if len(b) > len("-9223372036854775808") {
		return 0, false
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == string(b)
}

// ParseFloat parses a number as Redis does with C's strtod: decimal, hexadecimal, inf or nan, without blanks. It
// takes no number that overflows, or that underflows to 0.
func ParseFloat(b []byte) (float64, bool) {
	s, mantissa, ok := floatForm(b)
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	underflow := v == 0 && strings.ContainsAny(mantissa, "123456789abcdef")
	return v, err == nil && !underflow
}

// floatForm returns a number in the form that Go's parsers take, and its digits before the exponent.
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

// longPrecision is the length, in bits, of the mantissa of x86's long double, with which Redis adds.
const longPrecision = 64

// maxLongDigits bounds the length, in bytes, of a number that Redis takes for a long double.
const maxLongDigits = 5 * 1024

// parseLong parses a number with the precision of a long double. It takes infinities, but not "nan".
func parseLong(b []byte) (*big.Float, bool) {
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

// AddLong returns the sum of two numbers, with up to 17 digits behind the point; nil if it is not finite. It is not ok if
// a or b is no number. A nil a counts as 0. Numbers have the 64-bit mantissa of an x86 long double.
func AddLong(a, b []byte) (sum []byte, ok bool) {
	if a == nil {
		a = []byte("0")
	}
	x, ok1 := parseLong(a)
	y, ok2 := parseLong(b)
	switch {
	case !ok1 || !ok2:
		return nil, false
	case x.IsInf() || y.IsInf():
		return nil, true
	}
	return appendLong(nil, x.Add(x, y)), true
}

func appendLong(dst []byte, v *big.Float) []byte {
	s := v.Append(nil, 'f', 17)
	s = bytes.TrimRight(s, "0")
	s = bytes.TrimSuffix(s, []byte("."))
	if string(s) == "-0" {
		s = s[1:]
	}
	return append(dst, s...)
}
