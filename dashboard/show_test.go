package dashboard_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sievekv/sievekv/dashboard"
	"github.com/sievekv/sievekv/internal/live"
)

func TestShortKey(t *testing.T) {
	for key, want := range map[string]string{
		"users": "users", "": `""`, " a": `" a"`, "a\nb": `"a\nb"`, "\xff": `"\xff"`, "ключ": "ключ", `"quoted"`: `"\"quoted\""`, "a\u202eb": "\"a\\u202eb\"",
		strings.Repeat("a", 90): strings.Repeat("a", 90), strings.Repeat("b", 91): strings.Repeat("b", 60) + "…" + strings.Repeat("b", 20) + " (91 bytes)",
	} {
		if got := dashboard.ShortKey(key); got != want {
			t.Errorf("%.100q is shown as %q, want %q", key, got, want)
		}
	}
	for _, key := range []string{strings.Repeat("ключ", 20_000), strings.Repeat("\xff\x00", 30_000), strings.Repeat("\u202e", 1000)} {
		if got := dashboard.ShortKey(key); len([]rune(got)) > 110 || !utf8.ValidString(got) || strings.Contains(got, "\u202e") || !strings.Contains(got, " bytes)") {
			t.Errorf("%.20q is shown as %q", key, got)
		}
	}
}

func TestWord(t *testing.T) {
	for text, want := range map[string][2]string{
		"users:1":  {"users:1", "users:1"},
		"":         {`""`, "''"},
		"a b":      {`"a b"`, "'a b'"},
		`a"\`:      {`"a\"\\"`, `'a"\'`},
		"it's":     {`"it's"`, `'it'\''s'`},
		"\x00\xff": {`"\x00\xff"`, `$'\x00\xff'`},
		"$HOME":    {`"$HOME"`, "'$HOME'"},
	} {
		if got := dashboard.Word(text); got != want[0] {
			t.Errorf("%q is %s at a prompt, want %s", text, got, want[0])
		}
		if got := dashboard.ShellWord(text); got != want[1] {
			t.Errorf("%q is %s in a shell, want %s", text, got, want[1])
		}
	}
}

func TestLatency(t *testing.T) {
	var l live.Latency
	if l.Quantile(0.5) != 0 {
		t.Error("a quantile of nothing")
	}
	l[3], l[10] = 98, 2
	for share, want := range map[float64]time.Duration{0.5: 8 * time.Microsecond, 0.98: 8 * time.Microsecond, 0.99: 1024 * time.Microsecond, 1: 1024 * time.Microsecond} {
		if got := l.Quantile(share); got != want {
			t.Errorf("%v of all took %v, want %v", share, got, want)
		}
	}
	after := l
	after[3] += 5
	since := after.Since(&l)
	if since.Total() != 5 || since[3] != 5 {
		t.Errorf("since then %v", since)
	}
	if again := l.Since(&after); again.Total() != 100 {
		t.Errorf("after counts were set back %v", again)
	}
}
