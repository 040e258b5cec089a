// Package screentest is a terminal for tests: it shows what an editor writes, as a terminal would. It knows only the sequences
// that every terminal knows, and tells of others.
package screentest

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// Screen is a terminal.
type Screen struct {
	width, height int
	rows          [][]cell // all that were shown; the last ones are on the screen
	soft          []bool   // whether a row goes on in the next, as the terminal wrapped it
	row, column   int
	waits         []byte // the beginning of a sequence or a character
	resized       bool   // since then the editor cannot know what is above

	// Unknown are the sequences that this terminal does not know, and moves beyond the screen.
	Unknown []string
	// Separate has the emoji of a cluster stand beside each other, as on terminals that know no clusters.
	Separate bool
	// Modes are those that were set, such as ?2004.
	Modes map[string]bool
}

type cell struct {
	text, style string
}

// New returns an empty screen.
func New(width, height int) *Screen {
	return &Screen{width: width, height: height, rows: make([][]cell, 1), soft: make([]bool, 1), Modes: make(map[string]bool)}
}

// Resize changes the size. The rows stay as they are.
func (s *Screen) Resize(width, height int) { s.width, s.height, s.resized = width, height, true }

// Write shows what is written.
func (s *Screen) Write(p []byte) (int, error) {
	s.waits = append(s.waits, p...)
	for len(s.waits) > 0 {
		n := s.take(string(s.waits))
		if n == 0 {
			break
		}
		s.waits = s.waits[n:]
	}
	return len(p), nil
}

// take shows what a text begins with and returns its length, 0 if it goes on.
func (s *Screen) take(text string) int {
	switch c := text[0]; {
	case c == '\x1b':
		return s.sequence(text)
	case c == '\r':
		s.column = 0
	case c == '\n':
		s.down(1)
	case c == '\b':
		s.column = max(0, min(s.column, s.width-1)-1)
	case c < ' ' || c == '\x7f':
		s.Unknown = append(s.Unknown, fmt.Sprintf("%q", c))
	default:
		if !utf8.FullRuneInString(text) {
			return 0
		}
		cluster, _, width, _ := uniseg.FirstGraphemeClusterInString(text, -1)
		if _, n := utf8.DecodeRuneInString(text); s.Separate {
			cluster, width = text[:n], uniseg.StringWidth(text[:n])
		}
		s.put(cluster, width)
		return len(cluster)
	}
	return 1
}

// put shows a character at the cursor.
func (s *Screen) put(cluster string, width int) {
	if s.column+width > s.width {
		s.soft[s.row] = true
		s.down(1)
		s.column = 0
	}
	row := s.rows[s.row]
	if width == 0 && s.column > 0 {
		row[s.column-1].text += cluster
		return
	}
	for len(row) < s.column+width {
		row = append(row, cell{text: " "})
	}
	row[s.column] = cell{text: cluster, style: s.style()}
	for i := 1; i < width; i++ {
		row[s.column+i] = cell{}
	}
	s.rows[s.row] = row
	s.column += width
}

func (s *Screen) style() string {
	for name := range s.Modes {
		if strings.HasSuffix(name, "m") {
			return name
		}
	}
	return ""
}

// down moves down, and makes rows at the end.
func (s *Screen) down(n int) {
	for s.row += n; s.row >= len(s.rows); {
		s.rows, s.soft = append(s.rows, nil), append(s.soft, false)
	}
}

// top returns the first row on the screen.
func (s *Screen) top() int { return max(0, len(s.rows)-s.height) }

// sequence does what an escape sequence says.
func (s *Screen) sequence(text string) int {
	end := 2
	for end < len(text) && text[end] < '@' {
		end++
	}
	if end >= len(text) {
		return 0
	}
	number, name := 1, text[2:end]
	if _, err := fmt.Sscan(name, &number); err != nil || number == 0 {
		number = 1
	}
	switch final := text[end]; {
	case text[1] != '[':
		s.Unknown = append(s.Unknown, text[:end+1])
	case final == 'A':
		if s.row -= number; s.row < s.top() {
			if s.row = s.top(); !s.resized {
				s.Unknown = append(s.Unknown, "a move above the screen")
			}
		}
	case final == 'B':
		if s.row+number >= len(s.rows) {
			s.Unknown = append(s.Unknown, "a move below what was shown")
		}
		s.row = min(s.row+number, len(s.rows)-1)
	case final == 'C':
		s.column = min(s.column+number, s.width-1)
	case final == 'K' && name == "":
		s.cut()
	case final == 'J' && name == "":
		s.cut()
		for i := s.row + 1; i < len(s.rows); i++ {
			s.rows[i], s.soft[i] = nil, false
		}
	case final == 'J' && name == "2", final == 'H' && name == "": // together: a screen without text
		s.row = len(s.rows) - 1
		s.down(1)
		s.column = 0
	case final == 'm':
		for mode := range s.Modes {
			if strings.HasSuffix(mode, "m") {
				delete(s.Modes, mode)
			}
		}
		if name != "0" {
			s.Modes[name+"m"] = true
		}
	case final == 'h':
		s.Modes[name] = true
	case final == 'l':
		delete(s.Modes, name)
	default:
		s.Unknown = append(s.Unknown, text[:end+1])
	}
	return end + 1
}

// cut clears the row from the cursor on.
func (s *Screen) cut() {
	row := s.rows[s.row]
	s.rows[s.row] = row[:min(s.column, s.width-1, len(row))]
	s.soft[s.row] = false
}

// Text returns all that was shown and is not cleared, without blanks at the end of lines. A row that the terminal wrapped goes
// on in the same line.
func (s *Screen) Text() string {
	var b strings.Builder
	for i, row := range s.rows {
		if b.WriteString(textOf(row)); !s.soft[i] {
			b.WriteByte('\n')
		}
	}
	return trimmed(b.String())
}

// Rows returns Text without regard to what has wrapped a row.
func (s *Screen) Rows() string {
	var b strings.Builder
	for _, row := range s.rows {
		b.WriteString(textOf(row) + "\n")
	}
	return trimmed(b.String())
}

func textOf(row []cell) string {
	var b strings.Builder
	for _, c := range row {
		b.WriteString(c.text)
	}
	return b.String()
}

// trimmed returns a text without blanks at the end of lines, and without empty lines at its end.
func trimmed(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// Styled returns the text that is shown in a style, such as 90 for grey.
func (s *Screen) Styled(style string) string {
	var b strings.Builder
	for _, row := range s.rows {
		for _, c := range row {
			if c.style == style+"m" {
				b.WriteString(c.text)
			}
		}
	}
	return b.String()
}

// Cursor returns the text of the cursor's row up to the cursor.
func (s *Screen) Cursor() string {
	row := s.rows[s.row]
	return textOf(row[:min(s.column, len(row))]) + strings.Repeat(" ", max(0, s.column-len(row)))
}

// Row returns where the cursor is, from the first row that was ever shown.
func (s *Screen) Row() int { return s.row }
