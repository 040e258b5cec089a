package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every mutation can be made in the source as it is.
func TestMutations(t *testing.T) {
	seen := make(map[string]bool)
	for _, m := range mutations {
		if seen[m.name] {
			t.Errorf("%q is there twice", m.name)
		}
		seen[m.name] = true
		files := make(map[string][]byte)
		for _, e := range m.edits {
			data, read := files[e.file]
			if !read {
				var err error
				if data, err = os.ReadFile(filepath.Join("..", "..", e.file)); err != nil {
					t.Errorf("%q: %v", m.name, err)
					continue
				}
			}
			changed, err := e.apply(data)
			if err != nil {
				t.Errorf("%q: %v", m.name, err)
			}
			files[e.file] = changed
		}
	}
}

// Every mutation names tests that there are.
func TestMutations_tests(t *testing.T) {
	names := make(map[string][]string) // by package
	for _, m := range mutations {
		if _, read := names[m.pkg]; !read {
			names[m.pkg] = testsIn(t, m.pkg)
		}
		pattern, _, _ := strings.Cut(m.tests, "/") // what follows names subtests
		wanted, err := regexp.Compile(pattern)
		if err != nil {
			t.Errorf("%q: %v", m.name, err)
			continue
		}
		if !slices.ContainsFunc(names[m.pkg], wanted.MatchString) {
			t.Errorf("%q: no test of %s matches %s", m.name, m.pkg, m.tests)
		}
	}
}

// testsIn returns the names of the tests of a package.
func testsIn(t *testing.T, pkg string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`).FindAllSubmatch(data, -1) {
			names = append(names, string(found[1]))
		}
	}
	return names
}

func TestFailures(t *testing.T) {
	tests := []struct {
		name, out string
		want      []string
	}{
		{"passed", "ok  \tx/kv\t0.2s\n", nil},
		{"not compiled", "# x/kv\nkv/load.go:1:1: undefined: y\nFAIL\tx/kv [build failed]\nFAIL\n", nil},
		{
			"two failed", "--- FAIL: TestB (0.00s)\n    --- FAIL: TestB/sub (0.00s)\n        b_test.go:1: no\n--- FAIL: TestA (0.01s)\nFAIL\n",
			[]string{"TestA", "TestB"},
		},
		{
			"panic", "--- FAIL: TestA (0.00s)\npanic: runtime error: index out of range [recovered]\n\ngoroutine 7 [running]:\n",
			[]string{"TestA"},
		},
		{"died", "panic: *errors.errorString\n\tfatal error: sync: unlock of unlocked mutex\n\ngoroutine 6 [running]:\n", []string{"the end of the process"}},
		{
			"hung", "panic: test timed out after 1m0s\n\trunning tests:\n\t\tTestA (59s)\n\t\tTestA/sub (59s)\n\ngoroutine 1 [running]:\n",
			[]string{"TestA (hung)"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := failures([]byte(tt.out)); !slices.Equal(got, tt.want) {
				t.Errorf("failures() = %q, want %q", got, tt.want)
			}
		})
	}
}
