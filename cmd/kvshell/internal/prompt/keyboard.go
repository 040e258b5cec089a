package prompt

import (
	"bytes"
	"os"
	"runtime"
	"strings"

	"github.com/peterh/liner"
)

// keyboard stands between the terminal and the editor. The terminal is asked to say where pasted text begins and ends
// (bracketed paste), as a tab in it is no call for completion: it becomes pastedTab, which the editor can show.
type keyboard struct {
	*os.File // what the editor reads
	pastes   pastes
}

const (
	// PastedTab is what a tab in pasted text is shown as. In a line that was typed it is a tab again.
	PastedTab = "␉"

	MarkPastes   = "\x1b[?2004h"
	UnmarkPastes = "\x1b[?2004l"
)

// isEditable reports whether the editor works on this terminal by bytes that it reads.
func isEditable() bool { return liner.TerminalSupported() && runtime.GOOS != "windows" }

// newKeyboard begins to read the terminal. The goroutine that does ends with the terminal, or with the process.
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
	os.Stdin = k.File // where the editor reads; what it sets of the terminal, it sets by number
	return liner.NewLiner()
}

// pastes replaces tabs in pasted text, and takes the marks around that away.
type pastes struct {
	inside bool
	held   []byte // what may be the beginning of a mark
}

var pasteBegins, pasteEnds = []byte("\x1b[200~"), []byte("\x1b[201~")

// pass appends to dst what becomes of src. All says that the terminal had no more: an Escape at the end is a key then.
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

// WithTabs returns a line with the tabs that were pasted into it.
func WithTabs(line string) string { return strings.ReplaceAll(line, PastedTab, "\t") }
