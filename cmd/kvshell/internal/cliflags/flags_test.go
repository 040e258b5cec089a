package cliflags

import (
	"fmt"
	"math"
	"testing"
)

func TestParseCount(t *testing.T) {
	for _, tt := range []struct {
		text string
		want uint64
	}{
		{"0", 0}, {"1", 1}, {"007", 7}, {"64k", 64000}, {"64K", 64000}, {"1M", 1e6}, {"1m", 1e6}, {"1e6", 1e6}, {"1E6", 1e6},
		{"1e+6", 1e6}, {"2G", 2e9}, {"3T", 3e12}, {"1.5M", 1500000}, {"0.5k", 500}, {"1.25e2", 125}, {"1e3k", 1e6},
		{"18446744073709551615", math.MaxUint64}, {"9007199254740993", 1<<53 + 1}, {"1000.0", 1000},
	} {
		if got, err := parseCount(tt.text, math.MaxUint64); err != nil || got != tt.want {
			t.Errorf("%q: %d, %v; want %d", tt.text, got, err, tt.want)
		}
	}
	for _, text := range []string{
		"", "-1", "+1", "k", "1.5", "1.0001k", ".5k", "1.k", "1e-3", "1kk", "1 k", "1/2", "0x10", "1e100", "1e999999999", "1_000",
		"18446744073709551616", "1e20", "99999999T", "Inf", "NaN", "1P", "1Ki", "1MB", "\u0661",
	} {
		if got, err := parseCount(text, math.MaxUint64); err == nil {
			t.Errorf("%q: %d, want an error", text, got)
		}
	}
}

// A count that a flag's type cannot hold is an error that tells the largest, not another count.
func TestCountValue(t *testing.T) {
	var n int
	var small uint32
	for text, fits := range map[string]bool{"4294967295": true, "4294967296": false, "5G": false} {
		if err := (countValue[uint32]{&small}).Set(text); (err == nil) != fits || !fits && err.Error() != "must be at most 4294967295" {
			t.Errorf("%s in 32 bits: %v", text, err)
		}
	}
	if err := (countValue[int]{&n}).Set("18446744073709551615"); err == nil || err.Error() != fmt.Sprintf("must be at most %d", math.MaxInt) || n != 0 {
		t.Errorf("2^64-1 as an int: %d, %v", n, err)
	}
}
