// Package prompt reads the lines that are typed at a prompt.
//
// The file editor.go has the editor, keyboard.go recognizes pasted text, complete.go finds what Tab offers, from the
// command table and the program's own words, options.go finds the options in a command's syntax, and history.go keeps
// the lines of earlier sessions.
package prompt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/peterh/liner"
	"golang.org/x/term"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
)

// ErrAborted is the error of a line that Ctrl-C ended.
var ErrAborted = liner.ErrPromptAborted

// Editor reads lines from a terminal, with completion and a history.
type Editor struct {
	liner    *liner.State
	out      *os.File
	keyboard *keyboard // nil if the editor does not read keys as bytes
	stdin    *os.File
	history  *history

	// HistoryError says why no history is kept; nil if one is kept, or none is wanted.
	HistoryError error
}

// NewEditor begins to read a terminal. It is no error if there can be no history: see HistoryError.
func NewEditor(stdin, stdout *os.File, c *Completer) (e *Editor, err error) {
	e = &Editor{out: stdout, stdin: stdin}
	if isEditable() {
		if e.keyboard, err = newKeyboard(stdin); err != nil {
			return nil, exit.WithCode(exit.Local, err)
		}
		e.liner = e.keyboard.edit()
		if err := e.write(MarkPastes); err != nil {
			return nil, errors.Join(err, e.Close())
		}
	} else {
		e.liner = liner.NewLiner()
	}
	e.liner.SetCtrlCAborts(true)
	e.liner.SetMultiLineMode(true) // a long line goes on in the next
	e.liner.SetTabCompletionStyle(liner.TabPrints)
	c.rows = func(line string) int { return e.rowsOf(c.Prompt() + line) }
	e.liner.SetWordCompleter(c.Complete)
	var lines []string
	e.history, lines, e.HistoryError = openHistory()
	if e.HistoryError != nil {
		e.history = nil
	}
	for _, line := range lines {
		e.liner.AppendHistory(line)
	}
	return e, nil
}

// rowsOf returns how many rows of the screen a text takes after the first.
func (e *Editor) rowsOf(text string) int {
	width, _, err := term.GetSize(int(e.out.Fd()))
	if err != nil || width < 1 {
		return 0
	}
	return utf8.RuneCountInString(text) / width
}

func (e *Editor) write(text string) error {
	_, err := e.out.WriteString(text)
	return exit.WithCode(exit.Local, err)
}

// Keys returns the reader of keys while no line is edited.
func (e *Editor) Keys() io.Reader {
	if e.keyboard == nil {
		return e.stdin
	}
	return e.keyboard
}

// Close leaves the terminal as it was.
func (e *Editor) Close() (err error) {
	if e.keyboard != nil {
		err = e.write(UnmarkPastes)
	}
	return errors.Join(err, e.liner.Close())
}

// ReadLine shows the prompt and reads a line. The reading is in a goroutine of its own, so that the end of ctx can
// end the session meanwhile; the goroutine then ends with the process. A tab that was pasted into the line is
// PastedTab in it. The error is ErrAborted if Ctrl-C ended the line, and io.EOF for Ctrl-D.
func (e *Editor) ReadLine(ctx context.Context, prompt func() string, interrupts <-chan os.Signal) (string, error) {
	type result struct {
		line string
		err  error
	}
	read := make(chan result, 1)
	go func() {
		line, err := e.liner.Prompt(prompt())
		read <- result{line, err}
	}()
	for {
		select {
		case r := <-read:
			return r.line, r.err
		case <-interrupts:
			// This terminal cannot edit lines. It has dropped the line by itself.
			fmt.Fprintf(e.out, "\n%s", prompt())
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// Keep adds a line to the history, unless isKept says no. After an error the history is not kept any more.
func (e *Editor) Keep(line string) error {
	if !isKept(line) {
		return nil
	}
	e.liner.AppendHistory(line)
	err := e.history.add(line)
	if err != nil {
		e.history = nil
	}
	return err
}
