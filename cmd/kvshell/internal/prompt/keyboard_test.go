package prompt

import (
	"testing"

	"pgregory.net/rapid"
)

func TestPastes(t *testing.T) {
	for _, tt := range []struct{ typed, want string }{
		{"BF.\tADD\r", "BF.\tADD\r"},
		{"\x1b[200~a\tb\x1b[201~\t", "a␉b\t"},
		{"\x1b[200~\t\r\n\t\x1b[201~", "␉\r\n␉"},
		{"\x1b[A\x1b[20~\x1b", "\x1b[A\x1b[20~\x1b"},
		{"\x1b\x1b[200~\t\x1b[201~", "\x1b␉"},
		{"\x1b[200~\x1b[200~\t\x1b[201~\t", "\x1b[200~␉\t"},
		{"\x1b[201~\t", "\x1b[201~\t"},
		{"ä\x1b[200~ö\tü\x1b[201~", "äö␉ü"},
	} {
		var p pastes
		if got := string(p.pass(nil, []byte(tt.typed), true)); got != tt.want {
			t.Errorf("%q becomes %q, want %q", tt.typed, got, tt.want)
		}
	}
}

// However the terminal's bytes are cut into reads, they become the same.
func TestPastes_cut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typed := rapid.StringMatching("(a|\t|\x1b\\[200~|\x1b\\[201~|\x1b\\[A){0,12}").Draw(t, "typed")
		var whole, parts pastes
		want := string(whole.pass(nil, []byte(typed), false))
		var got []byte
		for rest := []byte(typed); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			got = parts.pass(got, rest[:n], false)
			rest = rest[n:]
		}
		if string(got) != want {
			t.Fatalf("%q in parts becomes %q, want %q", typed, got, want)
		}
	})
}
