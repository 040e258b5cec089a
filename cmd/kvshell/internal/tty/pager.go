// Package tty shows long texts on a terminal: a screen at a time, in lines that fit its width.
package tty

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/module/reply"
)

// PagerStatus is shown in the last line while the pager waits for a key.
const PagerStatus = "-- more: space for a page, Enter for a line, q to quit --"

// Pager is the terminal on which a text is read.
type Pager struct {
	Stdin, Stdout *os.File
	Keys          io.Reader // what is typed
}

// Page writes a text, in which there may be what a server says of its commands. On a terminal it wraps long lines, and shows a text that does not fit a screen at a time.
func (t *Pager) Page(ctx context.Context, text string) error {
	text = reply.Printable(text)
	width, height, err := term.GetSize(int(t.Stdout.Fd()))
	if !IsTerminal(t.Stdout) || err != nil || width < 20 || height < 3 {
		return t.write(text)
	}
	lines := strings.SplitAfter(wrap(text, width), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	if len(lines) < height || !t.CanWait() {
		return t.write(strings.Join(lines, ""))
	}
	return t.Rows(ctx, lines, height)
}

// CanWait reports whether keys can be typed while a text is shown.
func (t *Pager) CanWait() bool { return IsTerminal(t.Stdin) && IsTerminal(t.Stdout) && HasCursor() }

// Rows shows rows of a terminal a screen at a time. A row has its own line end, unless the terminal wraps it.
func (t *Pager) Rows(ctx context.Context, rows []string, height int) error {
	for n := height - 1; ; {
		n = min(n, len(rows))
		if err := t.write(strings.Join(rows[:n], "")); err != nil {
			return err
		}
		if rows = rows[n:]; len(rows) == 0 {
			return nil
		}
		var err error
		n, err = t.moreLines(ctx, height)
		if err := errors.Join(err, t.write("\r\x1b[K")); err != nil || n == 0 {
			return err
		}
	}
}

func (t *Pager) write(text string) error {
	_, err := t.Stdout.WriteString(text)
	return exit.WithCode(exit.Local, err)
}

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// HasCursor reports whether the terminal can move its cursor.
func HasCursor() bool {
	name := os.Getenv("TERM")
	return name != "" && name != "dumb"
}

// ShowsBlocks reports whether the terminal shows characters with which bars are drawn: it has UTF-8, and the user has not asked for
// plain output.
func ShowsBlocks() bool {
	return HasCursor() && os.Getenv("NO_COLOR") == "" && HasUTF8()
}

// HasUTF8 reports whether the terminal shows UTF-8.
func HasUTF8() bool {
	locale := strings.ToLower(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
}

// moreLines shows the status, waits for a key and returns how many lines it asks for, 0 for no more.
func (t *Pager) moreLines(ctx context.Context, height int) (n int, err error) {
	mode, err := term.MakeRaw(int(t.Stdin.Fd())) // so that Ctrl-C is read as a key
	if err != nil {
		return 0, exit.WithCode(exit.Local, err)
	}
	defer func() { err = errors.Join(err, exit.WithCode(exit.Local, term.Restore(int(t.Stdin.Fd()), mode))) }()
	if err := t.write(PagerStatus); err != nil { // in raw mode, so that the key is not shown
		return 0, err
	}
	pressed := make(chan string, 1)
	go func() {
		b := make([]byte, 16) // a key may be several bytes
		n, err := t.Keys.Read(b)
		if err != nil {
			n = 0
		}
		pressed <- string(b[:n])
	}()
	for {
		select {
		case <-ctx.Done(): // SIGTERM: the process ends, and the goroutine with it
			return 0, ctx.Err()
		case key := <-pressed:
			n, typed := linesFor(key, height)
			if back, ok := t.Keys.(interface{ Unread([]byte) }); ok {
				back.Unread([]byte(key[typed:]))
			}
			return n, nil
		}
	}
}

// linesFor returns how many lines the first key of what was typed asks for, and how many bytes it has. A key that is none of the
// pager's ends the text, and is left for the next line.
func linesFor(typed string, height int) (n, bytes int) {
	if strings.HasPrefix(typed, "\x1b") {
		switch typed {
		case "\x1b[B":
			return 1, len(typed)
		case "\x1b[6~":
			return height - 1, len(typed)
		case "\x1b":
			return 0, len(typed)
		}
		return 0, 0
	}
	switch typed[:min(1, len(typed))] {
	case "q", "Q", "\x03", "\x04":
		return 0, 1
	case "\r", "\n", "j":
		return 1, 1
	case " ":
		return height - 1, 1
	}
	return 0, 0
}

// filledLine is a length in characters. A line without an indent that is at least so long is taken for part of a
// paragraph that goes on in the next line.
const filledLine = 80

// wrap breaks lines between words so that they fit into a width, in characters. It fills the lines of a paragraph
// again. A line of two columns goes on below its second column.
func wrap(text string, width int) string {
	fits := true
	for line := range strings.Lines(text) {
		fits = fits && utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) <= width
	}
	if fits {
		return text
	}
	var b strings.Builder
	var p paragraph
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		if !p.goesOn(line) {
			p.flush(&b, width)
			p = newParagraph(line)
		} else {
			p.text += " " + strings.TrimSpace(line)
		}
		p.last = utf8.RuneCountInString(line)
	}
	p.flush(&b, width)
	return b.String()
}

// paragraph is text whose lines are filled together.
type paragraph struct {
	text   string
	begun  bool
	indent int // blanks in front
	column int // where its lines after the first begin
	last   int // length of the last line that was added
}

func newParagraph(line string) paragraph {
	p := paragraph{text: line, begun: true, indent: indentOf(line)}
	p.column = p.indent
	body := line[p.indent:]
	if gap := strings.Index(body, "  "); gap > 0 {
		p.column += gap + indentOf(body[gap:])
	}
	return p
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// goesOn reports whether the next line of the text belongs to the paragraph.
func (p *paragraph) goesOn(line string) bool {
	indent := indentOf(line)
	switch {
	case line == "" || p.text == "":
		return false
	case indent == 0:
		return p.indent == 0 && p.last >= filledLine
	}
	return indent == p.column && p.column > p.indent
}

func (p *paragraph) flush(b *strings.Builder, width int) {
	if !p.begun {
		return
	}
	column := p.column
	if column > width/2 {
		column = p.indent + 4
	}
	rest := p.text
	for indent := 0; ; indent = column {
		room := width - indent
		if utf8.RuneCountInString(rest) <= room {
			fmt.Fprintf(b, "%*s%s\n", indent, "", rest)
			return
		}
		end := breakAt(rest, room)
		fmt.Fprintf(b, "%*s%s\n", indent, "", strings.TrimRight(rest[:end], " "))
		rest = strings.TrimLeft(rest[end:], " ")
	}
}

// breakAt returns where to break a text that is longer than room characters: after the last word that fits, or within
// the first word if none does.
func breakAt(text string, room int) int {
	start := indentOf(text)
	n, last := 0, 0
	for i, r := range text {
		if r == ' ' && i > start {
			last = i
		}
		if n++; n > room {
			if last == 0 {
				return i
			}
			return last
		}
	}
	return len(text)
}
