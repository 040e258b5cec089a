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

// What a person can read is readable, everything else is escaped, and nothing that a terminal takes for a command is shown.
func TestAppendReadable(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"plain \"x\"\n", `"plain \"x\"\n"`},
		{"漢字 été", `"漢字 été"`},
		{"👩‍👩‍👧 🏳️‍🌈 👍🏽 🇩🇪", `"👩‍👩‍👧 🏳️‍🌈 👍🏽 🇩🇪"`},
		{"a\u200db", `"a\xe2\x80\x8db"`},
		{"漢\xff", `"\xe6\xbc\xa2\xff"`},
		{"\x1b[2J\u009b2J\u202e\u2028", `"\x1b[2J\xc2\x9b2J\xe2\x80\xae\xe2\x80\xa8"`},
		{"", `""`},
	} {
		if got := string(reply.AppendReadable(nil, reply.BulkString(tt.text))); got != tt.want+"\n" {
			t.Errorf("%q is %s, want %s", tt.text, got, tt.want)
		}
	}
	nested := reply.Array(reply.Array(reply.BulkString("é"), reply.Nil), reply.OK)
	if got, want := string(reply.AppendReadable(nil, nested)), "1) 1) \"é\"\n   2) (nil)\n2) OK\n"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
