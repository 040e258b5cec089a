package bitmapext

import (
	"fmt"
	"slices"
	"testing"
)

// A key that is named several times is read once, and counts as often as it has to.
func TestSourcesOf(t *testing.T) {
	for _, tt := range []struct {
		op   Op
		keys string
		want string
	}{
		{And, "a", "a1"}, {And, "ab", "a1 b1"}, {And, "aa", "a1"}, {And, "abab", "a1 b1"}, {Or, "abaac", "a1 b1 c1"}, {Not, "a", "a1"},
		{Xor, "aa", "a0"}, {Xor, "aba", "a0 b1"}, {Xor, "aaab", "a1 b1"}, {One, "aa", "a2"}, {One, "aaab", "a2 b1"},
		{Diff, "aa", "a1 a1"}, {Diff, "abba", "a1 b1 a1"}, {Diff1, "abb", "a1 b1"}, {AndOr, "aabab", "a1 a1 b1"}, {Diff, "abc", "a1 b1 c1"},
	} {
		var keys [][]byte
		for _, k := range tt.keys {
			keys = append(keys, []byte(string(k)))
		}
		var got []string
		for _, s := range tt.op.sourcesOf(keys) {
			got = append(got, fmt.Sprintf("%s%d", s.key, s.times))
		}
		if fmt.Sprint(got) != "["+tt.want+"]" {
			t.Errorf("%v of %s: %v, want %s", tt.op, tt.keys, got, tt.want)
		}
	}
	if many := slices.Repeat([][]byte{[]byte("a")}, 50_000); len(Or.sourcesOf(many)) != 1 {
		t.Error("a bitmap that is named 50,000 times is read more than once")
	}
}
