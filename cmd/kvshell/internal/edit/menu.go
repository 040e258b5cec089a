package edit

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// menu is the list of what a word may become. It is below the text, a word of it may be selected.
type menu struct {
	words      []string
	selected   int // -1 for none
	start, end int // of the word in the text
	original   []string
}

// maxMenu is the most rows of the menu.
const maxMenu = 8

// complete completes the word at the cursor as far as that is unambiguous. If nothing is, it opens the menu.
func (e *Editor) complete() {
	start := e.lineStart()
	left := strings.Join(e.text[start:e.pos], "")
	head, words := e.Helper.Complete(left, strings.Join(e.text[e.pos:e.lineEnd()], ""))
	if len(words) == 0 {
		if about := e.Helper.Describe(left); about != "" {
			e.tell(about)
		}
		return
	}
	from := start + len(split(head))
	sure := commonPrefix(words)
	if len(words) == 1 || len(head)+len(sure) > len(left) && strings.HasPrefix(head+sure, left) {
		e.replace(from, e.pos, sure)
		return
	}
	e.menu = &menu{words: words, selected: -1, start: from, end: e.pos, original: slices.Clone(e.text[from:e.pos])}
}

// replace replaces a part of the text left of the cursor, and moves behind it.
func (e *Editor) replace(from, to int, text string) {
	e.text = slices.Delete(e.text, from, to)
	e.pos = from
	e.insert(text)
}

// commonPrefix returns what all words begin with.
func commonPrefix(words []string) string {
	prefix := words[0]
	for _, word := range words[1:] {
		n := 0
		for n < min(len(prefix), len(word)) && prefix[n] == word[n] {
			n++
		}
		prefix = prefix[:n]
	}
	for !utf8.ValidString(prefix) {
		prefix = prefix[:len(prefix)-1]
	}
	return prefix
}

// tell shows a text above the line.
func (e *Editor) tell(text string) {
	e.moveBelow()
	for line := range strings.Lines(text) {
		e.screen.write(cellsOf(strings.TrimSuffix(line, "\n"), ""))
		e.screen.out.WriteString("\r\n")
	}
	e.screen.begin(e.width)
}

// pressInMenu moves in the menu. It reports false for other keys, which close it.
func (e *Editor) pressInMenu(k key) bool {
	m, columns := e.menu, e.menu.columns(e.width)
	step := map[string]int{"tab": 1, "right": 1, "down": columns, "backtab": -1, "left": -1, "up": -columns}[k.name]
	switch {
	case step != 0 && m.selected < 0 && step > 0:
		e.choose(0)
	case step != 0:
		n := len(m.words)
		if m.selected < 0 {
			m.selected = 0
		}
		e.choose(((m.selected+step)%n + n) % n)
	case k.name == "C-g", k.name == "escape":
		e.replace(m.start, m.end, strings.Join(m.original, ""))
		e.menu = nil
	case k.name == "enter" && m.selected >= 0:
		e.menu = nil
	default:
		e.menu = nil
		return false
	}
	return true
}

// choose selects a word of the menu and puts it into the text.
func (e *Editor) choose(i int) {
	m := e.menu
	m.selected = i
	e.replace(m.start, m.end, m.words[i])
	m.end = e.pos
}

// columns returns how many words stand beside each other.
func (m *menu) columns(width int) int { return max(1, width/(m.columnWidth(width)+2)) }

func (m *menu) columnWidth(width int) int {
	widest := 1
	for _, word := range m.words {
		widest = max(widest, widthOf(cellsOf(word, "")))
	}
	return min(widest, width-1)
}

// height returns how many rows the menu takes at most.
func (m *menu) height(width, height int) int {
	columns := m.columns(width)
	return min(maxMenu, (len(m.words)+columns-1)/columns, max(0, height-2))
}

// rows returns the rows of the menu, room at most, around the word that is selected.
func (m *menu) rows(width, room int, styles Styles) (rows []row) {
	columns, wide := m.columns(width), m.columnWidth(width)
	all := (len(m.words) + columns - 1) / columns
	n := min(all, maxMenu, room)
	first := max(0, min(m.selected/columns-n/2, all-n))
	for i := first; i < first+n; i++ {
		var r row
		for j := i * columns; j < min((i+1)*columns, len(m.words)); j++ {
			style := ""
			if j == m.selected {
				style = styles.Selected
			}
			cells := cut(cellsOf(m.words[j], style), wide)
			r.cells = append(r.cells, cells...)
			if j+1 < min((i+1)*columns, len(m.words)) {
				r.cells = append(r.cells, cellsOf(strings.Repeat(" ", wide+2-widthOf(cells)), "")...)
			}
		}
		rows = append(rows, r)
	}
	if last := fmt.Sprintf("  (%d of %d)", m.selected+1, len(m.words)); n < all && n > 0 {
		at := &rows[n-1]
		if cells := cellsOf(last, styles.Hint); widthOf(at.cells)+widthOf(cells) < width {
			at.cells = append(at.cells, cells...)
		}
	}
	return rows
}
