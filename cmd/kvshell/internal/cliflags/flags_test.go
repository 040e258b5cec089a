package cliflags

import (
	"fmt"
	"math"
	"testing"

	"github.com/spf13/cobra"
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

// The error of a wrong value names the flag, the value and what is allowed, in words that do not come from Go.
func TestError_values(t *testing.T) {
	for _, tt := range []struct{ flag, value, want string }{
		{"wait", "x", "--wait x: must be a time, such as 500ms, 10s or 5m; see test --help"},
		{"wait", "-1", "--wait -1: must be a time, such as 500ms, 10s or 5m; see test --help"},
		{"password-file", "", `--password-file "": must be the name of a file, and it is empty; see test --help`},
		{"cache", "0", "--cache 0: must be a number of bytes, 1 or more, such as 64MiB; see test --help"},
		{"error", "x", "--error x: must be a number, such as 0.01; see test --help"},
	} {
		cmd := &cobra.Command{Use: "test"}
		var file string
		var cache Bytes
		FileVar(cmd.Flags(), &file, "password-file", "")
		cmd.Flags().Var(&cache, "cache", "")
		cmd.Flags().Duration("wait", 0, "")
		cmd.Flags().Float64("error", 0, "")
		if err := Error(cmd, cmd.ParseFlags([]string{"--" + tt.flag + "=" + tt.value})); err.Error() != tt.want {
			t.Errorf("--%s=%s: %v, want %s", tt.flag, tt.value, err, tt.want)
		}
	}
}
