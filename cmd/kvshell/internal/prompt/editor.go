// Package prompt reads lines that are typed at a prompt: an editor, what Tab completes, and the history.
//
// The file editor.go has the editor, keyboard.go what is pasted into it, complete.go what Tab offers, by the command table and
// the words of the program, options.go the options in a command's syntax, history.go the lines of earlier sessions.
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

// ErrAborted is for a line that Ctrl-C ended.
var ErrAborted = liner.ErrPromptAborted

// Editor reads lines from a terminal, with completion and a history.
type Editor struct {
	liner    *liner.State
	out      *os.File
	keyboard *keyboard // nil where the editor does not work by bytes that it reads
	stdin    *os.File
	history  *history

	// HistoryError is why no history is kept.
	HistoryError error
}

// NewEditor begins to read a terminal. That there can be no history is no error: see HistoryError.
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

// rowsOf returns how many rows of the screen a text goes on in after the first.
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

// Keys is where keys are read while no line is edited.
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

// ReadLine reads a line behind a prompt, in a goroutine of its own, so that the end of ctx can end the session meanwhile.
// The goroutine ends with the process then. Tabs that were pasted into the line are PastedTab in it. The error is ErrAborted if
// Ctrl-C ended the line, and io.EOF for Ctrl-D.
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
			// Of a terminal that cannot edit lines, which has dropped the line.
			fmt.Fprintf(e.out, "\n%s", prompt())
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// Keep puts a line into the history, unless it is one that is not kept. After an error no history is kept any more.
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
