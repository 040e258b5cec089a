package main

import (
	"strings"
	"testing"
)

// Without each step of protection an answer is wrong, and with all of them none is.
func TestRaces(t *testing.T) {
	left := keyLock<<1 - 1
	for _, r := range races {
		left &^= r.without
		if _, found := r.shown(); !found {
			t.Errorf("not found: %s", r.name)
		}
	}
	if left != 0 {
		t.Errorf("no race for the steps %b", left)
	}
}

// A few of all scenes.
func TestScenes(t *testing.T) {
	list := scenes()
	for i := 0; i < len(list); i += 151 {
		if _, wrong, steps := list[i].explore(0); wrong != "" {
			t.Errorf("%s %v: %s\n%s", list[i].kind.name, list[i].runs, wrong, strings.Join(steps, "\n"))
		}
	}
}

// An answer that was never true is wrong, and one that contradicts an earlier one.
func TestWays(t *testing.T) {
	for _, c := range []struct {
		name  string
		later bool // the lookup begins when the commit has ended
		op    op
		said  answer
		right bool
	}{
		{"before the commit", false, has, absent, true},
		{"after the commit", false, has, present, true},
		{"later, and misses it", true, has, absent, false},
		{"later, and finds it", true, known, present, true},
		{"finds what was never there", false, row, present, false},
	} {
		s := kind{missing: true}.start([]run{{op: c.op}, {op: add}})
		s.threads[0].begun, s.threads[1].begun = !c.later, true
		s.end(1, undecided)
		s.threads[0].begun = true
		if s.end(0, c.said); (s.wrong == "") != c.right {
			t.Errorf("%s: wrong is %q", c.name, s.wrong)
		}
	}
}
