package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The functions, files and tests that docs/ARCHITECTURE.md names are there.
func TestDocs_architecture(t *testing.T) {
	text := readDoc(t, "docs/ARCHITECTURE.md")
	root := filepath.Join("..", "..")
	named := 0
	for _, found := range regexp.MustCompile("`([\\w./]+\\.go)(?:: (\\w+))?`").FindAllStringSubmatch(text, -1) {
		file, name := found[1], found[2]
		if !strings.Contains(file, "/") {
			continue // a file that several packages have
		}
		named++
		code, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if err != nil {
			t.Error(err)
			continue
		}
		if name != "" && !regexp.MustCompile(`(?m)^func (\([^)]*\) )?`+name+`[(\[]`).Match(code) {
			t.Errorf("%s has no function %s", file, name)
		}
	}
	if named < 30 {
		t.Errorf("%d files are named, want more", named)
	}
	tests := testNames(t, root)
	for _, found := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(text, -1) {
		if !tests[found[1]] {
			t.Errorf("there is no test %s", found[1])
		}
	}
}

// testNames returns the names of all tests.
func testNames(t *testing.T, root string) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		code, err := os.ReadFile(path)
		for _, found := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(code, -1) {
			names[string(found[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
