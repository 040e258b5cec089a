package tests_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Begin, Block and Valid of a section cost no call in a lookup, as the compiler says.
func TestSection_inlined(t *testing.T) {
	cmd := exec.Command("go", "build", "-gcflags="+modulePath+"/bloomext=-m", "./bloomext")
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	in := make(map[string]bool)
	for line := range strings.Lines(string(out)) {
		if _, call, found := strings.Cut(line, "inlining call to memory."); found && strings.Contains(line, "handle.go:") {
			in[strings.TrimSpace(call)] = true
		}
	}
	for _, name := range []string{"(*Object).Begin", "Section.Usable", "Section.Block", "Section.Valid"} {
		if !in[name] {
			t.Errorf("%s is called, not inlined", name)
		}
	}
}

// What a lookup rests on is asked by a section alone: kv offers nothing that callers would have to combine.
func TestSection_names(t *testing.T) {
	paths, err := filepath.Glob("../kv/*.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				seen[id.Name] = true
			}
			return true
		})
	}
	for _, name := range []string{"Live", "Ready", "Fixed", "ErrMoved"} {
		if seen[name] {
			t.Errorf("kv has something called %s", name)
		}
	}
	if !seen["Memory"] {
		t.Error("no name was found")
	}
}
