// Package prompt reads the lines that are typed at a prompt.
//
// The file editor.go has the editor and what it knows of commands, complete.go finds what Tab offers, from the command table
// and the program's own words, hint.go finds what is missing behind a line, options.go finds the options in a command's
// syntax, and history.go keeps the lines of earlier sessions.
package prompt

import (
	"os"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/edit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
)

// ErrAborted is the error of a line that Ctrl-C ended, and ErrLong that of one whose end the terminal may have dropped.
var (
	ErrAborted = edit.ErrAborted
	ErrLong    = edit.ErrLong
)

// Editor reads lines from a terminal, with completion and a history.
type Editor struct {
	*edit.Editor
	history *history

	// HistoryError says why no history is kept; nil if one is kept, or none is wanted.
	HistoryError error
}

// NewEditor begins to read a terminal. It is no error if there can be no history: see HistoryError.
func NewEditor(stdin, stdout *os.File, c *Completer) (e *Editor, err error) {
	e = new(Editor)
	var lines []string
	e.history, lines, e.HistoryError = openHistory()
	if e.HistoryError != nil {
		e.history = nil
	}
	if e.Editor, err = edit.New(stdin, stdout, c, lines); err != nil {
		return nil, exit.WithCode(exit.Local, err)
	}
	e.Styles = styles()
	return e, nil
}

// styles returns how the prompt is shown. If $NO_COLOR is set, hints are faint in place of grey: they must not look typed.
func styles() edit.Styles {
	const cyan, grey, faint, reverse = "\x1b[36m", "\x1b[90m", "\x1b[2m", "\x1b[7m"
	if os.Getenv("NO_COLOR") != "" {
		return edit.Styles{Hint: faint, Selected: reverse}
	}
	return edit.Styles{Prompt: cyan, Hint: grey, Selected: reverse}
}

// Keep adds a line to the history, unless isKept says no. After an error the history is not kept any more.
func (e *Editor) Keep(line string) error {
	if !isKept(line) {
		return nil
	}
	e.AddHistory(line)
	err := e.history.add(line)
	if err != nil {
		e.history = nil
	}
	return err
}
