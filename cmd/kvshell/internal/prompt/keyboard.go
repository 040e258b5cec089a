package prompt

import (
	"bytes"
	"os"
	"runtime"
	"strings"

	"github.com/peterh/liner"
)

// keyboard passes bytes from the terminal to the editor. The terminal is asked to mark where pasted text begins and
// ends (bracketed paste): a tab in pasted text must not complete the line. It becomes PastedTab, which the editor can
// show.
type keyboard struct {
	*os.File // what the editor reads
	pastes   pastes
}

const (
	// PastedTab is what a tab in pasted text is shown as. WithTabs makes it a tab again.
	PastedTab = "␉"

	// These ask the terminal to mark pasted text, and to stop that.
	MarkPastes   = "\x1b[?2004h"
	UnmarkPastes = "\x1b[?2004l"
)

// isEditable reports whether the editor works on this terminal, and reads keys as bytes.
func isEditable() bool { return liner.TerminalSupported() && runtime.GOOS != "windows" }

// newKeyboard begins to read the terminal, in a goroutine that ends with the terminal or with the process.
func newKeyboard(terminal *os.File) (*keyboard, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	k := &keyboard{File: r}
	go func() {
		defer w.Close() // the editor's end of input
		in, out := make([]byte, 4096), []byte(nil)
		for {
			n, err := terminal.Read(in)
			out = k.pastes.pass(out[:0], in[:n], n < len(in))
			if _, werr := w.Write(out); err != nil || werr != nil {
				return
			}
		}
	}()
	return k, nil
}

// edit returns the editor, which reads the keyboard.
func (k *keyboard) edit() *liner.State {
	defer func(terminal *os.File) { os.Stdin = terminal }(os.Stdin)
	os.Stdin = k.File // the editor reads os.Stdin; it sets the terminal's mode by the number of the file
	return liner.NewLiner()
}

// pastes replaces tabs in pasted text, and removes the marks around it.
type pastes struct {
	inside bool
	held   []byte // bytes that may be the beginning of a mark
}

var pasteBegins, pasteEnds = []byte("\x1b[200~"), []byte("\x1b[201~")

// pass appends to dst what the editor is to read for src. All says that the terminal has no more bytes: then an
// Escape at the end is a key, and no beginning of a mark.
func (p *pastes) pass(dst, src []byte, all bool) []byte {
	for _, c := range src {
		p.held = append(p.held, c)
		for len(p.held) > 0 {
			mark := pasteBegins
			if p.inside {
				mark = pasteEnds
			}
			if bytes.Equal(p.held, mark) {
				p.inside, p.held = !p.inside, p.held[:0]
			}
			if bytes.HasPrefix(mark, p.held) {
				break
			}
			dst = p.put(dst, p.held[0])
			p.held = append(p.held[:0], p.held[1:]...)
		}
	}
	if all && !p.inside && len(p.held) == 1 {
		dst, p.held = append(dst, p.held...), p.held[:0]
	}
	return dst
}

func (p *pastes) put(dst []byte, c byte) []byte {
	if p.inside && c == '\t' {
		return append(dst, PastedTab...)
	}
	return append(dst, c)
}

// WithTabs returns a line with tabs in place of PastedTab.
func WithTabs(line string) string { return strings.ReplaceAll(line, PastedTab, "\t") }
