package tests_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// surface are the packages that programs import, and mostNames is how many functions, methods and types they may export
// together. It only falls.
var surface = []string{
	".", "guard", "server", "module", "module/reply", "replica", "replica/admin", "dashboard", "portable", "backup", "salvage", "metrics",
	"kv", "txn", "compaction", "coreext", "scalableext", "bloomext", "cuckooext", "countingext", "bitmapext",
}

const mostNames = 922

// A package that is neither listed here nor internal is an accident.
func TestSurface(t *testing.T) {
	listed := make(map[string]bool)
	total := 0
	for _, pkg := range surface {
		listed[pkg] = true
		n := exported(t, filepath.Join("..", pkg))
		t.Logf("%4d %s", n, pkg)
		total += n
	}
	t.Logf("%4d functions, methods and types together, at most %d", total, mostNames)
	if total > mostNames {
		t.Errorf("the packages that programs import export %d functions, methods and types, at most %d", total, mostNames)
	}
	for pkg := range listPackages(t, "linux") {
		switch name := relative(pkg); {
		case listed[name], strings.Contains("/"+name+"/", "/internal/"), strings.HasPrefix(name, "cmd/"), name == "tests",
			strings.HasPrefix(name, "tests/"), strings.HasPrefix(name, "examples/"):
		default:
			t.Errorf("package %s is neither internal nor in the list of those that programs import", name)
		}
	}
}

// exported returns how many functions, methods and types a package exports.
func exported(t *testing.T, dir string) (n int) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s has %d files, %v", dir, len(paths), err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	of, err := doc.NewFromFiles(fset, files, dir)
	if err != nil {
		t.Fatal(err)
	}
	n += len(of.Funcs) + len(of.Types)
	for _, typ := range of.Types {
		n += len(typ.Funcs) + len(typ.Methods)
	}
	return n
}
