package module

import (
	"slices"
	"testing"
)

// An unforeseen syntax, from a program's own module, is refused, and parsing it ends.
func TestParseSyntax_refused(t *testing.T) {
	for _, syntax := range []string{"key [HASH keyed|xxh64]", "a|b", "key ...", "key [other ...]", "[key"} {
		if list, ok := parseSyntax(&Command{Syntax: syntax}); ok {
			t.Errorf("%q is read as %+v", syntax, list)
		}
	}
}

func TestFlags_names(t *testing.T) {
	if got := (Write | Fast).Names(); !slices.Equal(got, []string{"write", "fast"}) {
		t.Errorf("names are %v", got)
	}
}
