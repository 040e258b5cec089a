package suggest

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestClosest(t *testing.T) {
	names := []string{
		"check", "dedup", "help",
		"BF.ADD", "BF.MADD", "BF.INSERT", "BF.RESERVE", "CBF.ADD", "CF.ADD", "CF.RESERVE",
		"DEL", "ECHO", "EXISTS", "GET", "PING", "SET", "TOUCH", "TTL",
	}
	tests := []struct {
		mistyped string
		want     []string
	}{
		{"BF.AD", []string{"BF.ADD"}},
		{"BF.MAD", []string{"BF.MADD", "BF.ADD"}},
		{"bf.reserv", []string{"BF.RESERVE"}}, // not BF.INSERT, which is three edits away
		{"CF.ADDD", []string{"CF.ADD"}},
		{"cbf.ad", []string{"CBF.ADD"}},
		{"XF.ADD", []string{"BF.ADD", "CF.ADD", "BF.MADD"}},
		{"pign", []string{"PING"}},
		{"dedpu", []string{"dedup"}},
		{"CHECK", []string{"check"}},
		{"ET", []string{"GET", "SET"}},
		{"XET", []string{"GET", "SET"}},
		{"nosuch", nil}, // TOUCH is two edits away
		{"hlep", []string{"help"}},
		{"BF.INSRET", []string{"BF.INSERT"}},
		{"XYZ", nil},
		{"", nil},
		{"BF.EXISTSNOT", nil},
	}
	for _, tt := range tests {
		if got := Closest(tt.mistyped, names); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.mistyped, got, tt.want)
		}
	}
	if got := Closest("AB", []string{"ABA", "ABB", "ABC", "ABD"}); len(got) != maxSuggestions {
		t.Errorf("%d suggestions, want %d", len(got), maxSuggestions)
	}
}

func TestDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "abc", 0}, {"abc", "ab", 1}, {"abc", "abd", 1}, {"abc", "acb", 1},
		{"kitten", "sitting", 3}, {"ca", "abc", 3}, {"abcd", "badc", 2},
	}
	for _, tt := range tests {
		if got := Distance(tt.a, tt.b); got != tt.want {
			t.Errorf("%q, %q: %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

// The rows kept give what the definition, followed to the letter, gives.
func TestDistance_definition(t *testing.T) {
	var defined func(a, b string) int
	defined = func(a, b string) int {
		if a == "" || b == "" {
			return len(a) + len(b)
		}
		i, j := len(a)-1, len(b)-1
		replace := defined(a[:i], b[:j])
		if a[i] != b[j] {
			replace++
		}
		d := min(defined(a[:i], b)+1, defined(a, b[:j])+1, replace)
		if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
			d = min(d, defined(a[:i-1], b[:j-1])+1)
		}
		return d
	}
	word := rapid.StringMatching(`[abc]{0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		if got, want := Distance(a, b), defined(a, b); got != want {
			t.Fatalf("%q, %q: %d, want %d", a, b, got, want)
		}
	})
}
