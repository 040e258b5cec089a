package text_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/sievekv/sievekv/internal/text"
)

// What people are shown has no names of packages, wherever an error's text has them, but what is quoted is as it is.
func TestPlain(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"kv: open /x: kv: corrupt data: pebble: file 7: checksum mismatch", "open /x: corrupt data: file 7: checksum mismatch"},
		{"bloomext: sievekv: parameter out of range", "parameter out of range"},
		{"bitmapext: bad operation", "bad operation"},
		{"serve: --set a=b: kv: bad setting: a \"kv: b: kv: \": none", "serve: --set a=b: bad setting: a \"kv: b: kv: \": none"},
		{"key \"a\\\": kv: b\": kv: too large", "key \"a\\\": kv: b\": too large"},
		{"first; kv: second\nkv: third", "first; second\nthird"},
		{"open kv: no such file", "open kv: no such file"},
		{"pebble: bad\n<corruption detail carrier>", "bad"},
		{"", ""},
	} {
		if got := text.Plain(tt.text); got != tt.want {
			t.Errorf("Plain(%q) = %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestAfter(t *testing.T) {
	cause := errors.New("kv: corrupt data")
	err := text.After(text.After(fmt.Errorf("%w: freeze: bad seal", cause), "kv: open %s", "a"), "kv: load %q", "kv: b")
	if want := `kv: load "kv: b": open a: corrupt data: bad seal`; err.Error() != want || !errors.Is(err, cause) {
		t.Errorf("%v, want %s", err, want)
	}
}
