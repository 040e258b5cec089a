package session

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Sizes of the picture in pixels. Most fonts of one width have characters 0.6 times as wide as they are high.
const (
	fontSize   = 14
	charWidth  = 8.4
	lineHeight = 19
	columns    = 64
	margin     = 18
	titleBar   = 34
	barDots    = 3
)

// Times of the animation in milliseconds.
const (
	perChar = 15
	toRead  = 350 // a reply, before the next command is typed
	toReply = 100
)

// The colors are for a dark window, which can be read on light and on dark pages.
const style = `
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono","Liberation Mono",monospace;fill:#c9d1d9;white-space:pre}
.prompt{fill:#7ee787}.typed{fill:#fff}.note{fill:#8b949e;font-style:italic}.title{fill:#8b949e;text-anchor:middle}
.line{animation:show 1ms backwards}.hide{fill:#161b22;visibility:hidden;transform-box:fill-box;transform-origin:100% 0}
@keyframes show{from,to{visibility:hidden}}
@keyframes type{from{visibility:visible}to{visibility:visible;transform:scaleX(0)}}
@media(prefers-reduced-motion:reduce){*{animation:none!important}}
`

// Draw draws a session as SVG. A reader whose program plays animations sees it being typed, once, except the first
// line, which is there from the start; others see all of it.
func Draw(lines []Line) []byte {
	width, height := columns*charWidth+2*margin, titleBar+len(lines)*lineHeight+margin
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!-- Drawn by go generate ./tests/session from a session of kvshell. DO NOT EDIT. -->\n")
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d" role="img" aria-labelledby="t">`+"\n",
		width, height, width, height)
	b.WriteString("<title id=\"t\">A session with kvshell: filters and strings change together, and are there after kill -9</title>\n")
	fmt.Fprintf(&b, "<style>%s</style>\n", style)
	fmt.Fprintf(&b, `<rect x=".5" y=".5" width="%.0f" height="%d" rx="9" fill="#161b22" stroke="#484f58"/>`+"\n", width-1, height-1)
	for i := range barDots {
		fmt.Fprintf(&b, `<circle cx="%d" cy="17" r="5.5" fill="#484f58"/>`, margin+4+i*18)
	}
	fmt.Fprintf(&b, `<text class="title" x="%.0f" y="22">kvshell</text>`+"\n", width/2)
	now := 0
	for i, l := range lines {
		y := titleBar + i*lineHeight
		if i == 0 {
			fmt.Fprintf(&b, `<text x="%d" y="%d" xml:space="preserve">%s</text>`+"\n", margin, y+fontSize, spans(l))
			now = toRead
			continue
		}
		now = drawLine(&b, l, y, now)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// drawLine draws a line whose upper end is at y, and which is shown after the given number of milliseconds; then the
// typing begins. It returns when the next line is shown.
func drawLine(b *bytes.Buffer, l Line, y, shown int) (next int) {
	fmt.Fprintf(b, `<text class="line" x="%d" y="%d" xml:space="preserve" style="animation-delay:%dms">%s</text>`+"\n",
		margin, y+fontSize, shown, spans(l))
	n := utf8.RuneCountInString(l.Typed)
	switch {
	case n > 0:
		// It hides what is not typed yet.
		x := margin + charWidth*float64(utf8.RuneCountInString(l.Prompt)) - 1
		fmt.Fprintf(b, `<rect class="hide" x="%.1f" y="%d" width="%.1f" height="%d" style="animation:type %dms steps(%d) %dms backwards"/>`+"\n",
			x, y, charWidth*float64(n+1), lineHeight-1, perChar*n, n, shown+toRead)
		return shown + toRead + perChar*n + toReply
	case l.Prompt != "": // nothing is typed any more
		return shown + toRead
	}
	return shown
}

// spans returns the parts of a line, each with its class.
func spans(l Line) string {
	part := func(class, text string) string {
		if text == "" {
			return ""
		}
		return fmt.Sprintf(`<tspan class="%s">%s</tspan>`, class, escape(text))
	}
	line := part("prompt", l.Prompt) + part("typed", l.Typed) + escape(l.Printed)
	if l.Note != "" {
		line += "  " + part("note", "# "+l.Note)
	}
	return line
}

func escape(text string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(text)); err != nil {
		panic(err) // a strings.Builder takes everything
	}
	return b.String()
}
