package edit

import (
	"fmt"
	"strings"
)

// search is a search in the history for a text, from the newest line back. The line that was found is shown.
type search struct {
	wanted string
	line   string
	at     int // of the line in the history; len(history) if nothing was searched for yet
	failed bool
	before string // the text that was there
}

func (s *search) prompt() string {
	what := "search"
	if s.failed {
		what = "not found"
	}
	return fmt.Sprintf("(%s %q) ", what, s.wanted)
}

func (e *Editor) beginSearch() {
	text := strings.Join(e.text, "")
	e.search = &search{line: text, at: len(e.history), before: text}
}

// pressInSearch changes the search. Other keys end it, with the line that was found, and do then what they do elsewhere: it
// reports false for these.
func (e *Editor) pressInSearch(k key) bool {
	s := e.search
	switch k.name {
	case "text", "paste":
		s.wanted += strings.ReplaceAll(k.text, "\n", " ")
		e.find(s.at, -1)
	case "backspace":
		clusters := split(s.wanted)
		s.wanted = strings.Join(clusters[:max(0, len(clusters)-1)], "")
		e.find(len(e.history)-1, -1)
	case "C-r":
		e.find(s.at-1, -1)
	case "C-s":
		e.find(s.at+1, 1)
	case "C-g":
		e.endSearch(s.before)
	case "escape":
		e.endSearch(s.line)
	default:
		if e.endSearch(s.line); s.at < len(e.history) {
			e.at, e.newest = s.at, s.before
		}
		return false
	}
	return true
}

// endSearch goes on with a text.
func (e *Editor) endSearch(text string) {
	e.search = nil
	e.setText(text)
}

// find finds the next line that has the text, from a place on.
func (e *Editor) find(at, step int) {
	s, history := e.search, e.history
	if s.wanted == "" {
		s.line, s.at, s.failed = s.before, len(history), false
		return
	}
	for at = min(at, len(history)-1); at >= 0 && at < len(history); at += step {
		if strings.Contains(history[at], s.wanted) {
			s.line, s.at, s.failed = history[at], at, false
			return
		}
	}
	s.failed = true
}
