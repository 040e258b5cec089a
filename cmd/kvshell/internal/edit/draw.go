package edit

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// row is a row of the screen. It is soft if its text goes on in the next row, so that the terminal wraps it itself: then a
// text that is copied from the screen has no line break there.
type row struct {
	cells []cell
	soft  bool
}

// picture is what the editor shows, from the row of the prompt on, and where the cursor is.
type picture struct {
	rows           []row
	line, column   int // of the cursor
	end, endColumn int // behind the text
}

// add adds cells to the last row, and begins new ones where they do not fit. It returns the column behind them.
func (p *picture) add(column, width int, cells ...cell) int {
	for _, c := range cells {
		if column+c.width > width && column > 0 {
			p.rows[len(p.rows)-1].soft = true
			p.rows = append(p.rows, row{})
			column = 0
		}
		last := &p.rows[len(p.rows)-1]
		last.cells = append(last.cells, c)
		column += c.width
	}
	return column
}

// layOut returns the picture of a text behind a prompt. Lines after the first begin with the mark more. The hint, if it is
// behind the cursor, is cut at the end of its row.
func layOut(prompt, more []cell, text []string, pos int, hint []cell, width int) *picture {
	p := &picture{rows: []row{{}}}
	column := p.add(0, width, prompt...)
	for i, cluster := range text {
		if i == pos {
			p.line, p.column = len(p.rows)-1, column
		}
		if cluster == "\n" {
			p.rows = append(p.rows, row{})
			column = p.add(0, width, more...)
			continue
		}
		before := len(p.rows)
		column = p.add(column, width, cellOf(cluster, ""))
		if i == pos && len(p.rows) > before { // the cursor is on this cluster
			p.line, p.column = len(p.rows)-1, 0
		}
	}
	if column >= width { // the cursor needs a place behind the text
		p.rows[len(p.rows)-1].soft = true
		p.rows, column = append(p.rows, row{}), 0
	}
	p.end, p.endColumn = len(p.rows)-1, column
	if pos == len(text) {
		p.line, p.column = p.end, p.endColumn
		last := &p.rows[p.end]
		last.cells = append(last.cells, cut(hint, width-column-1)...)
	}
	return p
}

// cut returns cells that fit into a width. If some do not, dots are at the end.
func cut(cells []cell, width int) []cell {
	if widthOf(cells) <= width {
		return cells
	}
	n, column := 0, 0
	for n < len(cells) && column+cells[n].width < width {
		column += cells[n].width
		n++
	}
	if n == 0 {
		return nil
	}
	return append(slices.Clone(cells[:n]), cell{"…", 1, cells[n].style})
}

// window keeps the rows around the cursor, if there are more than the screen has. It returns the first row that it keeps,
// which is first again if that will do.
func (p *picture) window(first, height int) int {
	first = max(0, min(first, len(p.rows)-height, p.line))
	if p.line >= first+height {
		first = p.line - height + 1
	}
	p.rows = p.rows[first:min(len(p.rows), first+height)]
	p.line -= first
	p.end -= first
	return first
}

// screen is the part of the terminal that the editor draws on. It writes only what differs from what is there.
type screen struct {
	out   bytes.Buffer
	shown []row
	width int

	line, column int // of the cursor
}

// draw makes the screen show a picture.
func (s *screen) draw(p *picture) {
	for i := range p.rows {
		s.drawRow(i, p.rows[i])
	}
	if len(s.shown) > len(p.rows) {
		s.moveTo(len(p.rows), 0)
		s.out.WriteString("\x1b[J")
		s.shown = s.shown[:len(p.rows)]
	}
	s.moveTo(p.line, p.column)
}

// drawRow draws row i, whose cells may be there already.
func (s *screen) drawRow(i int, r row) {
	if i == len(s.shown) {
		s.nextRow(i)
		s.shown = append(s.shown, row{})
	}
	old := s.shown[i].cells
	s.shown[i] = r
	doubtful := areDoubtful(old) || areDoubtful(r.cells)
	same := 0
	for same < min(len(old), len(r.cells)) && old[same] == r.cells[same] {
		same++
	}
	if same == len(r.cells) && same == len(old) {
		return
	}
	s.moveTo(i, widthOf(r.cells[:same]))
	s.write(r.cells[same:])
	if s.column < s.width && (doubtful || widthOf(old) > s.column) {
		s.out.WriteString("\x1b[K")
	}
}

// nextRow moves to a new row below all others.
func (s *screen) nextRow(i int) {
	switch {
	case i == 0:
	case s.shown[i-1].soft && s.line == i-1 && s.column == s.width:
		s.out.WriteString(" \r") // the terminal wraps the line
	default:
		s.moveTo(i-1, s.column)
		s.out.WriteString("\r\n")
	}
	s.line, s.column = i, 0
}

// write writes cells at the cursor.
func (s *screen) write(cells []cell) {
	style := ""
	for _, c := range cells {
		if c.style != style {
			if style != "" {
				s.out.WriteString(plain)
			}
			s.out.WriteString(c.style)
			style = c.style
		}
		s.out.WriteString(c.text)
		s.column += c.width
	}
	if style != "" {
		s.out.WriteString(plain)
	}
}

const plain = "\x1b[0m"

// moveTo moves the cursor to a row that was drawn.
func (s *screen) moveTo(line, column int) {
	if line < s.line {
		fmt.Fprintf(&s.out, "\x1b[%dA", s.line-line)
	} else if line > s.line {
		fmt.Fprintf(&s.out, "\x1b[%dB", line-s.line)
	}
	s.line = line
	left := s.shownBefore(line, column)
	doubtful := areDoubtful(left)
	switch back := s.column - column; {
	case back == 0 && !doubtful:
	case doubtful: // the cursor is where the terminal puts it behind these
		s.out.WriteByte('\r')
		s.write(left)
	case back > 0 && back < 4 && s.column < s.width:
		s.out.WriteString(strings.Repeat("\b", back))
	default:
		s.out.WriteByte('\r')
		if column > 0 {
			fmt.Fprintf(&s.out, "\x1b[%dC", column)
		}
	}
	s.column = column
}

// shownBefore returns the cells of a row before a column.
func (s *screen) shownBefore(line, column int) []cell {
	if line >= len(s.shown) {
		return nil
	}
	cells, n := s.shown[line].cells, 0
	for at := 0; n < len(cells) && at+cells[n].width <= column; n++ {
		at += cells[n].width
	}
	return cells[:n]
}

// resized has all be drawn again, after the terminal got another width. Some terminals wrap their rows again then, others
// do not: so no more rows are cleared than the editor has drawn in either case.
func (s *screen) resized(line, width int) {
	s.moveTo(s.line, 0)
	if up := min(s.line, line); up > 0 {
		fmt.Fprintf(&s.out, "\x1b[%dA", up)
	}
	s.out.WriteString("\x1b[J")
	s.begin(width)
}

// begin begins at the cursor, which is at the beginning of a row.
func (s *screen) begin(width int) { s.shown, s.line, s.column, s.width = nil, 0, 0, width }
