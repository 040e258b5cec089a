package coretest

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var entry = regexp.MustCompile("(?m)^- `([a-z-]+)`: ")

// Differences runs the tests of a section of docs/DIFFERENCES.md, named after its entries. Each entry must have a
// test, and each test an entry.
func Differences(t *testing.T, document, heading string, tests map[string]func(t *testing.T)) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		t.Run(name, tests[name])
	}
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", document, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	listed := make(map[string]bool)
	for _, match := range entry.FindAllStringSubmatch(section, -1) {
		name := match[1]
		if listed[name] {
			t.Errorf("%s lists %s twice", document, name)
		}
		listed[name] = true
		if tests[name] == nil {
			t.Errorf("%s lists %s, which has no test", document, name)
		}
	}
	for name := range tests {
		if !listed[name] {
			t.Errorf("%s does not list %s", document, name)
		}
	}
	if bullets := strings.Count(section, "\n- "); bullets != len(listed) {
		t.Errorf("%s has %d entries, of which %d have a name", document, bullets, len(listed))
	}
}
