package reply_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/sievekv/sievekv/module/reply"
)

// JSON that is made printable stays the same for programs.
func TestPrintableJSON(t *testing.T) {
	for _, text := range []string{"plain", "x\x1b[2J\u009b2J\u202e", "\x7f\u00e9\u0085\U000e0001\u2028", "\ufffd\ufeff", ""} {
		given, err := json.Marshal(map[string]string{text: text})
		if err != nil {
			t.Fatal(err)
		}
		got := reply.PrintableJSON(given)
		if strings.ContainsFunc(string(got), func(c rune) bool { return !unicode.IsPrint(c) }) {
			t.Errorf("%q is %q", given, got)
		}
		var back map[string]string
		if err := json.Unmarshal(got, &back); err != nil || back[text] != text {
			t.Errorf("%q became %q, which is %q: %v", given, got, back, err)
		}
	}
	if got := string(reply.PrintableJSON([]byte("\"\xff\"\n"))); got != "\"\\ufffd\"\n" {
		t.Errorf("a byte that is not UTF-8 is %q", got)
	}
}
