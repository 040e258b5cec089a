package tty

import "testing"

func TestPaintLabels(t *testing.T) {
	for line, want := range map[string]string{
		"OK\n":                  "OK\n",
		"\"(nil)\"\n":           "\"(nil)\"\n",
		"(integer) 5\n":         "\x1b[90m(integer)\x1b[0m 5\n",
		"(nil)\n":               "\x1b[90m(nil)\x1b[0m\n",
		" 1) 2) \"a\"\n":        "\x1b[90m 1) 2) \x1b[0m\"a\"\n",
		"1) (error) ERR full\n": "\x1b[90m1) \x1b[0m\x1b[31m(error) ERR full\x1b[0m\n",
		"":                      "",
	} {
		if got := PaintLabels(line); got != want {
			t.Errorf("%q is painted %q, want %q", line, got, want)
		}
	}
}
