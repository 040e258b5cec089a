package tests_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	equalLine = 12  // letters that a line has at least to count
	equalRun  = 4   // lines in a row that have to be equal
	mostEqual = 100 // lines that two extensions may have in common
)

// Two extensions have little code in common: what both need is in scalableext. Lines count that are equal except for
// their indentation, in runs: of all lines of 12 letters and more, at least 4 in a row. Imports are left out.
func TestExtensions_equalLines(t *testing.T) {
	names := []string{"bloomext", "countingext", "cuckooext"}
	for i, a := range names {
		for _, b := range names[i+1:] {
			if n := equalLines(codeLines(t, a), codeLines(t, b)); n > mostEqual {
				t.Errorf("%s has %d lines in common with %s, want at most %d: move what both need to scalableext", a, n, b, mostEqual)
			} else {
				t.Logf("%s has %d lines in common with %s", a, n, b)
			}
		}
	}
}

// equalLines returns how many lines of the files of a are in runs that some file of b has.
func equalLines(a, b [][]string) (n int) {
	runs := make(map[[equalRun]string]bool)
	for _, lines := range b {
		for run := range runsOf(lines) {
			runs[[equalRun]string(run)] = true
		}
	}
	for _, lines := range a {
		next, i := 0, 0 // the first line that is not counted yet
		for run := range runsOf(lines) {
			if runs[[equalRun]string(run)] {
				n += i + equalRun - max(next, i)
				next = i + equalRun
			}
			i++
		}
	}
	return n
}

// runsOf gives all runs of equalRun lines.
func runsOf(lines []string) func(yield func([]string) bool) {
	return func(yield func([]string) bool) {
		for i := range max(0, len(lines)-equalRun+1) {
			if !yield(lines[i : i+equalRun]) {
				return
			}
		}
	}
}

// codeLines returns the lines that count of each file of a package.
func codeLines(t *testing.T, pkg string) (files [][]string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("..", pkg, "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatalf("files of %s: %d, %v", pkg, len(names), err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		before, after, _ := strings.Cut(string(text), "\nimport (")
		_, after, _ = strings.Cut(after, "\n)\n")
		var lines []string
		for line := range strings.Lines(before + "\n" + after) {
			lines = append(lines, strings.TrimSpace(line))
		}
		files = append(files, slices.DeleteFunc(lines, func(line string) bool {
			return len(line) < equalLine || strings.HasPrefix(line, "package ")
		}))
	}
	return files
}
