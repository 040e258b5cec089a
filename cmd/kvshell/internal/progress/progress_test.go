package progress

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// No line of a bar is wider than the terminal, also when that becomes narrower, and a wide terminal shows all.
func TestBar_width(t *testing.T) {
	const all = 200
	for _, width := range []int{0, 1, 2, 20, 40, all} {
		var out strings.Builder
		bar := newBar(&out, 1<<40, func() int { return width })
		bar.Show(1<<30, "%d lines, %.0f/s", 123456789, 1234567.0)
		bar.Clear()
		if !strings.Contains(out.String(), "1234") && (width == 0 || width >= 20) {
			t.Errorf("%d columns: %q", width, out.String())
		}
		widest := 0
		for line := range strings.SplitSeq(out.String(), "\r") {
			widest = max(widest, utf8.RuneCountInString(line))
		}
		switch {
		case width != 0 && widest >= width, width == 40 && widest != 39:
			t.Errorf("%d columns: a line takes %d", width, widest)
		case (width == 0 || width == all) && !strings.Contains(out.String(), "s]"):
			t.Errorf("%d columns: a line is cut: %q", width, out.String())
		}
	}
}

// A line may come in pieces, which are cut as if they came at once.
func TestFitted(t *testing.T) {
	var out strings.Builder
	width := 6
	f := &fitted{out: &out, width: func() int { return width }}
	for _, piece := range []string{"\rabc", "de", "fgh", "\r█████████", "\r12", "\n12345678"} {
		if n, err := f.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Errorf("%q: %d, %v", piece, n, err)
		}
	}
	width = 3
	_, _ = f.Write([]byte("\rabcdef"))
	if want := "\rabcde\r█████\r12\n12345\rab"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
