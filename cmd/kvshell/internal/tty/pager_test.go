package tty

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestWrap(t *testing.T) {
	paragraph := strings.TrimSpace(strings.Repeat("word ", 20)) + "\n" + strings.Repeat("more ", 3) + "\n"
	tests := []struct {
		name, text string
		width      int
		want       string
	}{
		{"fits", "a b\n  c\n", 40, "a b\n  c\n"},
		{"paragraph", paragraph, 50, strings.Repeat("word ", 9) + "word\n" + strings.Repeat("word ", 9) + "word\nmore more more\n"},
		{"columns", "Flags:\n  -o, --out OUT  append the new lines to the file\n", 36, "Flags:\n  -o, --out OUT  append the new\n                 lines to the file\n"},
		{"a column that goes on", "  name  tells what it is, in many\n        words\n", 24, "  name  tells what it\n        is, in many\n        words\n"},
		{"a wide first column", "  a very long first column here  second\n", 32, "  a very long first column here\n      second\n"},
		{"a word too long", "0123456789\n", 4, "0123\n4567\n89\n"},
		{"an indented word too long", "  0123456789\n", 6, "  0123\n  4567\n  89\n"},
		{"no line break at the end", "aa bb cc", 5, "aa bb\ncc\n"},
		{"blank lines", "aaa bbb\n\nccc\n", 4, "aaa\nbbb\n\nccc\n"},
		{"characters", "äää ööö\n", 4, "äää\nööö\n"},
	}
	for _, tt := range tests {
		if got := wrap(tt.text, tt.width); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

// Whatever is wrapped keeps its characters and fits.
func TestWrap_whole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`([ ]{0,6}[abcä]{1,9}|[abc]{1,9}  [ ]{0,9}[ab]|[ab \n]){0,30}`).Draw(t, "text")
		width := rapid.IntRange(20, 60).Draw(t, "width")
		got := wrap(text, width)
		if a, b := strings.Join(strings.Fields(got), ""), strings.Join(strings.Fields(text), ""); a != b {
			t.Fatalf("%q has other characters than %q", got, text)
		}
		for line := range strings.Lines(got) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
				t.Fatalf("%q has %d characters, want %d at most", line, n, width)
			}
		}
	})
}

// A key that is none of the pager's is left for the next line.
func TestLinesFor(t *testing.T) {
	for typed, want := range map[string][2]int{
		" ": {9, 1}, "\r": {1, 1}, "j": {1, 1}, "\x1b[B": {1, 3}, "\x1b[6~": {9, 4}, "q": {0, 1}, "\x03": {0, 1}, "\x1b": {0, 1},
		"": {0, 0}, "PING\r": {0, 0}, " PING": {9, 1}, "\r\r": {1, 1}, "\x1b[200~x": {0, 0},
	} {
		if n, bytes := linesFor(typed, 10); n != want[0] || bytes != want[1] {
			t.Errorf("%q asks for %d lines by %d bytes, want %d by %d", typed, n, bytes, want[0], want[1])
		}
	}
}
