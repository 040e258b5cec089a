package tests_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// packageSize is what there is of a package, without its tests.
type packageSize struct {
	lines, longest int
	names          int            // exported, of the package itself
	methods        map[string]int // exported, of each exported type
}

func sizeOf(t *testing.T, dir string) (s packageSize) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
	s.methods = make(map[string]int)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %d files, %v", dir, len(paths), err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		n := bytes.Count(data, []byte("\n"))
		s.lines, s.longest = s.lines+n, max(s.longest, n)
		file, err := parser.ParseFile(token.NewFileSet(), path, data, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			s.count(d)
		}
	}
	return s
}

func (s *packageSize) count(d ast.Decl) {
	name := func(id *ast.Ident) {
		if id.IsExported() {
			s.names++
		}
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			name(d.Name)
			return
		}
		of := d.Recv.List[0].Type
		if star, ok := of.(*ast.StarExpr); ok {
			of = star.X
		}
		if id, ok := of.(*ast.Ident); ok && id.IsExported() && d.Name.IsExported() {
			s.methods[id.Name]++
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				name(spec.Name)
			case *ast.ValueSpec:
				for _, id := range spec.Names {
					name(id)
				}
			}
		}
	}
}

// The engine stays small enough to be read, and storage's interface small enough to be known by heart.
func TestSize(t *testing.T) {
	// 390 lines are for members of a group (group.go, image.go): the role, messages that are applied to memory, and the door that they go by.
	if s := sizeOf(t, "kv"); s.lines > 8640 || s.longest > 450 || s.names > 130 {
		t.Errorf("kv has %d lines, %d in one file, and %d exported names; want 8640, 450 and 130 at most", s.lines, s.longest, s.names)
	}
	if s := sizeOf(t, "internal/storage"); s.longest > 450 || s.methods["Store"] > 20 || s.methods["Batch"] > 15 {
		t.Errorf("internal/storage has %d lines in one file and exported methods %v; want 450, 20 of Store and 15 of Batch at most", s.longest, s.methods)
	}
}

// Nobody keeps more than 90 lines in mind: no function of the program is longer.
func TestSize_functions(t *testing.T) {
	visitDirectories(t)
	const most = 90
	longest, where := 0, ""
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "tests" || d.Name() == "bench" || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			n := fset.Position(f.End()).Line - fset.Position(f.Pos()).Line + 1
			if n > most {
				t.Errorf("%s: %s has %d lines, at most %d", path, f.Name.Name, n, most)
			}
			if n > longest {
				longest, where = n, path+": "+f.Name.Name
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the longest function has %d lines: %s", longest, where)
}
