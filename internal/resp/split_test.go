package resp_test

import (
	"bytes"
	"testing"

	"github.com/sievekv/sievekv/internal/resp"
	"github.com/sievekv/sievekv/module/reply"
)

// The words are those that redis-cli 7.0.15 sends for the same line, except for lines with a zero byte,
// which end there for redis-cli.
func TestSplit(t *testing.T) {
	tests := []struct {
		name, line string
		want       []string
	}{
		{"empty line", ``, nil},
		{"only blanks", " \t\r\n\v\f ", nil},
		{"one word", `PING`, []string{"PING"}},
		{"words and blanks", "  SET\tk   v\r\n", []string{"SET", "k", "v"}},
		{"options and signs", `INCRBY n -5 --help`, []string{"INCRBY", "n", "-5", "--help"}},
		{"double quotes", `ECHO "a b"`, []string{"ECHO", "a b"}},
		{"single quotes", `ECHO 'a b'`, []string{"ECHO", "a b"}},
		{"empty words", `"" ''`, []string{"", ""}},
		{"control characters", `"\n\r\t\b\a"`, []string{"\n\r\t\b\a"}},
		{"hexadecimal bytes", `"\x00\xff\xAbc"`, []string{"\x00\xff\xabc"}},
		{"no hexadecimal digits", `"\xg0 \x0g \x1" "\x"`, []string{"xg0 x0g x1", "x"}},
		{"other escapes", `"\\ \" \q \'"`, []string{`\ " q '`}},
		{"only one escape in single quotes", `'\' \n \x41 \\ "'`, []string{`' \n \x41 \\ "`}},
		{"backslashes outside of quotes", `a\ b\n`, []string{`a\`, `b\n`}},
		{"quotes open within a word", `ab"c d" e'f g'`, []string{"abc d", "ef g"}},
		{"quotes inside the other kind", `"it's" 'say "x"'`, []string{"it's", `say "x"`}},
		{"bytes above ASCII", "\xff\x80 é\u00a0x", []string{"\xff\x80", "é\u00a0x"}},
		{"zero bytes", "a\x00b '\x00'", []string{"a\x00b", "\x00"}},
		{"blanks after quotes", "\"a\"\t'b'\v\"c\"\n", []string{"a", "b", "c"}},
		{"vertical tab and form feed", "\va\v\f b", []string{"a\v\f", "b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			words, err := resp.Split([]byte(tt.line))
			if err != nil {
				t.Fatal(err)
			}
			if !equalWords(words, tt.want) {
				t.Errorf("%q splits into %q, want %q", tt.line, words, tt.want)
			}
		})
	}
}

func TestSplit_unbalanced(t *testing.T) {
	tests := []struct{ line, want string }{
		{`"`, `unbalanced quotes: the " at character 1 is not closed by another "`},
		{`SET k "a b`, `unbalanced quotes: the " at character 7 is not closed by another "`},
		{`SET k 'a b`, `unbalanced quotes: the ' at character 7 is not closed by another '`},
		{`SET é 'it"`, `unbalanced quotes: the ' at character 7 is not closed by another '`},
		{`"a\"`, `unbalanced quotes: the " at character 1 is not closed by another "`},
		{`"a\`, `unbalanced quotes: the " at character 1 is not closed by another "`},
		{`'a\'`, `unbalanced quotes: the ' at character 1 is not closed by another '`},
		{`"a" b"`, `unbalanced quotes: the " at character 6 is not closed by another "`},
		{`"a"b`, `unbalanced quotes: a space is missing at character 4, after the closing "`},
		{`"é""b"`, `unbalanced quotes: a space is missing at character 4, after the closing "`},
		{`'a'"b"`, `unbalanced quotes: a space is missing at character 4, after the closing '`},
	}
	for _, tt := range tests {
		words, err := resp.Split([]byte(tt.line))
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s: error %v, want %s", tt.line, err, tt.want)
		}
		if words != nil {
			t.Errorf("%s: words %q with an error", tt.line, words)
		}
	}
}

func TestSplit_wordsAreCopies(t *testing.T) {
	line := []byte(`abc "def"`)
	words, err := resp.Split(line)
	if err != nil {
		t.Fatal(err)
	}
	clear(line)
	if want := []string{"abc", "def"}; !equalWords(words, want) {
		t.Errorf("words are %q after the line was overwritten, want %q", words, want)
	}
}

// Whatever words a line has, quoted as the shell prints bulk strings they are the same words again.
// A line as a single quoted word is that line again.
func FuzzSplit(f *testing.F) {
	f.Add([]byte(`SET k "a b"`))
	f.Fuzz(func(t *testing.T, line []byte) {
		checkQuoted(t, [][]byte{line})
		words, err := resp.Split(line)
		if err != nil {
			return
		}
		checkQuoted(t, words)
	})
}

func checkQuoted(t *testing.T, words [][]byte) {
	t.Helper()
	var line []byte
	for _, w := range words {
		line = append(line, reply.Bulk(w).String()...)
		line = append(line, ' ')
	}
	again, err := resp.Split(line)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if len(again) != len(words) {
		t.Fatalf("%s: %d words, want %d", line, len(again), len(words))
	}
	for i, w := range words {
		if !bytes.Equal(again[i], w) {
			t.Errorf("%s: word %d is %q, want %q", line, i, again[i], w)
		}
	}
}

func equalWords(words [][]byte, want []string) bool {
	if len(words) != len(want) {
		return false
	}
	for i, w := range words {
		if string(w) != want[i] || w == nil {
			return false
		}
	}
	return true
}
