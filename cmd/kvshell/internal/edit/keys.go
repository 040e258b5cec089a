package edit

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// key is what was typed, or pasted at once. Control keys have names such as C-a, and M-b with Alt; unknown ones have none.
// Text has the name "text", a paste "paste".
type key struct{ name, text string }

// decoder makes keys of the bytes that a terminal sends. They may come in any pieces: it waits for the rest of a key, however
// long that takes. So an Escape is a key only when the next byte is there.
type decoder struct{ in []byte }

// These surround pasted text.
var pasteBegins, pasteEnds = []byte("\x1b[200~"), []byte("\x1b[201~")

// next returns the next key. It is not ok if bytes of it are missing.
func (d *decoder) next() (k key, ok bool) {
	k, n := decode(d.in)
	d.in = d.in[n:]
	return k, n > 0
}

// decode returns the key that in begins with, and how many bytes it has; 0 if some are missing.
func decode(in []byte) (key, int) {
	switch {
	case len(in) == 0:
		return key{}, 0
	case in[0] == '\x1b':
		return decodeEscape(in)
	case isControl(in[0]):
		return key{name: controlName(in[0])}, 1
	}
	n := 0
	for n < len(in) && !isControl(in[n]) && utf8.FullRune(in[n:]) {
		_, size := utf8.DecodeRune(in[n:])
		n += size
	}
	return key{"text", valid(in[:n])}, n
}

// valid returns a text with U+FFFD in place of bytes that are no UTF-8.
func valid(text []byte) string { return strings.ToValidUTF8(string(text), string(utf8.RuneError)) }

func isControl(c byte) bool { return c < ' ' || c == '\x7f' }

func controlName(c byte) string {
	switch c {
	case '\r', '\n':
		return "enter"
	case '\t':
		return "tab"
	case '\b', '\x7f':
		return "backspace"
	}
	return "C-" + strings.ToLower(string(c+'@'))
}

// decodeEscape is decode for what begins with an Escape.
func decodeEscape(in []byte) (key, int) {
	if len(in) == 1 {
		return key{}, 0
	}
	switch in[1] {
	case '[':
		return decodeSequence(in)
	case 'O':
		if len(in) == 2 {
			return key{}, 0
		}
		return key{name: finals[in[2]]}, 3
	case '\x7f', '\b':
		return key{name: "M-backspace"}, 2
	}
	if strings.IndexByte("bdf", in[1]) >= 0 {
		return key{name: "M-" + string(in[1])}, 2
	}
	return key{name: "escape"}, 1 // and what follows is a key of its own
}

// finals are the keys whose sequences end in a letter, and numbers those whose sequences have a number before a tilde.
var (
	finals = map[byte]string{'A': "up", 'B': "down", 'C': "right", 'D': "left", 'H': "home", 'F': "end", 'Z': "backtab"}

	numbers = map[string]string{"1": "home", "7": "home", "4": "end", "8": "end", "3": "delete", "5": "up", "6": "down"}
)

// decodeSequence is decode for a sequence such as ESC [ 1 ; 5 C, or a paste.
func decodeSequence(in []byte) (key, int) {
	end := 2
	for end < len(in) && in[end] >= ' ' && in[end] < '@' {
		end++
	}
	if end == len(in) {
		return key{}, 0
	}
	final, first, modifier := in[end], "", ""
	first, modifier, _ = strings.Cut(string(in[2:end]), ";")
	switch {
	case final < '@' || final > '~': // no sequence
		return key{name: "escape"}, 1
	case final == '[': // a function key of the Linux console, such as ESC [ [ A
		if end+1 == len(in) {
			return key{}, 0
		}
		return key{}, end + 2
	case final == '~' && first == "200":
		return decodePaste(in)
	case final == '~':
		return key{name: numbers[first]}, end + 1
	case modifier != "" && (final == 'C' || final == 'D'):
		return key{name: map[byte]string{'C': "M-f", 'D': "M-b"}[final]}, end + 1
	}
	return key{name: finals[final]}, end + 1
}

// decodePaste returns pasted text, with line feeds for all line ends.
func decodePaste(in []byte) (key, int) {
	text, _, ok := bytes.Cut(in[len(pasteBegins):], pasteEnds)
	if !ok {
		return key{}, 0
	}
	return key{"paste", lineEnds.Replace(valid(text))}, len(pasteBegins) + len(text) + len(pasteEnds)
}

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")
