package edit

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// split splits a text into what users see as characters (grapheme clusters): an emoji may be several runes.
func split(text string) []string {
	clusters := make([]string, 0, len(text))
	for text != "" {
		if isPlain(text) {
			clusters, text = append(clusters, text[:1]), text[1:]
			continue
		}
		cluster, rest, _, _ := uniseg.FirstGraphemeClusterInString(text, -1)
		clusters, text = append(clusters, cluster), rest
	}
	return clusters
}

// isPlain reports whether the first byte of a text is a cluster: no mark that joins it can follow.
func isPlain(text string) bool {
	return text[0] < utf8.RuneSelf && (len(text) == 1 || text[1] < utf8.RuneSelf) && text[0] != '\r'
}

// cell is a cluster on the screen.
type cell struct {
	text  string
	width int
	style string // an escape sequence, "" for none
}

// cellOf returns how a cluster is shown. What a terminal would not show, or take for a command, is spelled out.
func cellOf(cluster, style string) cell {
	if c := cluster[0]; len(cluster) == 1 && c >= ' ' && c != '\x7f' {
		return cell{cluster, 1, style}
	}
	text := spellOut(cluster)
	return cell{text, uniseg.StringWidth(text), style}
}

func cellsOf(text, style string) []cell {
	clusters := split(text)
	cells := make([]cell, len(clusters))
	for i, cluster := range clusters {
		cells[i] = cellOf(cluster, style)
	}
	return cells
}

// spellOut returns a cluster with a name in place of each rune that cannot be printed.
func spellOut(cluster string) string {
	var b strings.Builder
	for _, r := range cluster {
		switch {
		case r == '\t':
			b.WriteString("␉")
		case r < ' ' || r == '\x7f':
			b.WriteString("^" + string(r^'@'))
		case unicode.IsPrint(r), r == joiner && len(cluster) > len(string(joiner)):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "<U+%04X>", r)
		}
	}
	return b.String()
}

// joiner joins several emoji to one.
const joiner = '\u200d'

// isDoubtful reports whether terminals differ in how wide a cell is: not all know emoji, and clusters of several runes.
func (c *cell) isDoubtful() bool {
	n := utf8.RuneCountInString(c.text)
	return n > 1 && n != c.width || c.text[0] >= 0xf0
}

func areDoubtful(cells []cell) bool {
	return slices.ContainsFunc(cells, func(c cell) bool { return c.isDoubtful() })
}

// Rows returns the rows that a text takes on a terminal of a width. A row has no line end where the terminal wraps it.
func Rows(text string, width int) (rows []string) {
	for line := range strings.Lines(text) {
		from, at, column := 0, 0, 0
		for _, cluster := range split(line) {
			if wide := cellOf(cluster, "").width; cluster != "\n" {
				if column += wide; column > width {
					rows = append(rows, line[from:at])
					from, column = at, wide
				}
			}
			at += len(cluster)
		}
		rows = append(rows, line[from:])
	}
	return rows
}

func widthOf(cells []cell) (n int) {
	for i := range cells {
		n += cells[i].width
	}
	return n
}
