package tests_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/internal/text"
)

// prefixed is an error's text that begins with the name of a package.
var prefixed = regexp.MustCompile(`^[a-z]+: `)

// commands are packages with the name of a command of kvshell, which people may be shown.
var commands = []string{"backup: ", "salvage: "}

// An error begins with at most one name of a package, and what people are shown has none: text.Plain knows them all.
func TestPrefixes(t *testing.T) {
	found := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "cmd" || d.Name() == "bench" || d.Name() == "tests" || d.Name() == "examples"):
			return fs.SkipDir // programs and tests
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		for _, form := range errorForms(file) {
			prefix := prefixed.FindString(form)
			if prefix == "" {
				continue
			}
			found++
			if strings.HasPrefix(form, prefix+"%w") {
				t.Errorf("%s: %q puts a name before another", path, form)
			}
			if plain := text.Plain(form); plain != strings.TrimPrefix(form, prefix) && !slices.Contains(commands, prefix) {
				t.Errorf("%s: people are shown %q", path, plain)
			}
		}
		return nil
	})
	if err != nil || found < 100 {
		t.Errorf("%d errors with a name, %v", found, err)
	}
}

// errorForms returns the texts that a file gives to errors.New and fmt.Errorf.
func errorForms(file *ast.File) (forms []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		of, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || of.Sel.Name != "New" && of.Sel.Name != "Errorf" {
			return true
		}
		if lit, ok := call.Args[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			form, err := strconv.Unquote(lit.Value)
			if err == nil {
				forms = append(forms, form)
			}
		}
		return true
	})
	return forms
}
