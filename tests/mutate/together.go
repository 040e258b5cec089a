package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Compiling and linking takes many times as long as the tests do. So mutations whose
// tests are in one package are compiled together: each function that a mutation changes
// is there twice, and begins by looking at the environment for which one is to run.

// variable is the environment variable, and switchName the variable of the packages.
const (
	variable   = "SIEVEKV_MUTATION"
	switchName = "mutationThatRuns"
)

// errAlone is for mutations that cannot be compiled with others: what they change is not
// in the body of a function, or they do not compile.
var errAlone = errors.New("it has to be compiled alone")

// binary is a test program in which one of some mutations can be chosen.
type binary struct {
	path string
	dir  string // of the package's source
}

// compile compiles the tests of a package with mutations, which get the numbers of their places, from 1.
func (r *runner) compile(ctx context.Context, name, pkg string, list []mutation) (*binary, error) {
	files := make(map[string]*source)
	for i, m := range list {
		if err := addMutation(files, r.root, m, i+1); err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
	}
	replace := make(map[string]string)
	put := func(path string, data []byte) error {
		own := filepath.Join(r.dir, fmt.Sprintf("%s.%d.go", name, len(replace)))
		replace[path] = own
		return os.WriteFile(own, data, 0o644)
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		f := files[path]
		if err := put(path, f.text()); err != nil {
			return nil, err
		}
		choose := filepath.Join(filepath.Dir(path), "zz_mutation.go")
		if replace[choose] == "" {
			code := fmt.Sprintf("package %s\n\nimport \"os\"\n\nvar %s = os.Getenv(%q)\n", f.tree.Name.Name, switchName, variable)
			if err := put(choose, []byte(code)); err != nil {
				return nil, err
			}
		}
	}
	return r.build(ctx, name, pkg, replace)
}

// build compiles the tests of a package, with files replaced.
func (r *runner) build(ctx context.Context, name, pkg string, replace map[string]string) (*binary, error) {
	overlay, err := r.overlay(name, replace)
	if err != nil {
		return nil, err
	}
	b := &binary{path: filepath.Join(r.dir, name+".test"), dir: filepath.Join(r.root, pkg)}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-overlay="+overlay, "-vet=off", "-gcflags=github.com/sievekv/sievekv/...=-e", "-ldflags=-s -w", "-o", b.path, pkg)
	cmd.Dir = r.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %w\n%s", errAlone, err, out)
	}
	return b, nil
}

// test runs tests with one of the mutations, 0 for none, as runner.test does.
func (b *binary) test(ctx context.Context, which int, pattern string, timeout time.Duration) ([]byte, error) {
	env := fmt.Sprintf("%s=%d", variable, which)
	return b.run(ctx, []string{env}, "-test.count=1", "-test.timeout="+timeout.String(), "-test.run="+pattern)
}

// run runs the program.
func (b *binary) run(ctx context.Context, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, b.path, args...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = time.Second // for processes that a test leaves behind
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return out.Bytes(), err
}

// source is a file whose functions are there more than once.
type source struct {
	data   []byte
	set    *token.FileSet
	tree   *ast.File
	begins map[int]string // what comes first in a function's body, by its offset
	added  bytes.Buffer   // the functions as mutations change them
}

func parse(data []byte) (*source, error) {
	s := &source{data: data, set: token.NewFileSet(), begins: make(map[int]string)}
	var err error
	s.tree, err = parser.ParseFile(s.set, "", data, parser.ParseComments|parser.SkipObjectResolution)
	return s, err
}

func (s *source) offset(p token.Pos) int { return s.set.Position(p).Offset }

func (s *source) slice(n ast.Node) []byte { return s.data[s.offset(n.Pos()):s.offset(n.End())] }

// functions returns the functions with a body, by what is before that.
func (s *source) functions() map[string]*ast.FuncDecl {
	list := make(map[string]*ast.FuncDecl)
	for _, d := range s.tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			list[string(s.data[s.offset(f.Pos()):s.offset(f.Body.Pos())])] = f
		}
	}
	return list
}

// rest returns the file without the bodies of functions.
func (s *source) rest() string {
	var b strings.Builder
	from := 0
	for _, d := range s.tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			b.Write(s.data[from:s.offset(f.Body.Pos())])
			from = s.offset(f.Body.End())
		}
	}
	b.Write(s.data[from:])
	return b.String()
}

// text returns the file with what was added to it.
func (s *source) text() []byte {
	var b bytes.Buffer
	from := 0
	for _, at := range slices.Sorted(maps.Keys(s.begins)) {
		b.Write(s.data[from:at])
		b.WriteString(s.begins[at])
		from = at
	}
	b.Write(s.data[from:])
	b.Write(s.added.Bytes())
	return b.Bytes()
}

// addMutation adds the functions that a mutation changes to the files they are in.
func addMutation(files map[string]*source, root string, m mutation, number int) error {
	changed := make(map[string][]byte)
	for _, e := range m.edits {
		path := filepath.Join(root, e.file)
		if files[path] == nil {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if files[path], err = parse(data); err != nil {
				return err
			}
		}
		if changed[path] == nil {
			changed[path] = files[path].data
		}
		var err error
		if changed[path], err = e.apply(changed[path]); err != nil {
			return err
		}
	}
	for path, data := range changed {
		if err := files[path].add(data, number); err != nil {
			return err
		}
	}
	return nil
}

// add adds the functions that are others in a changed version of the file.
func (s *source) add(changed []byte, number int) error {
	to, err := parse(changed)
	if err != nil || s.rest() != to.rest() {
		return errAlone
	}
	functions := s.functions()
	for head, f := range to.functions() {
		own := functions[head]
		body := to.slice(f.Body)
		if bytes.Equal(body, s.slice(own.Body)) {
			continue
		}
		arguments, ok := argumentsOf(f)
		if !ok {
			return errAlone
		}
		name := fmt.Sprintf("%s_mutation%d", f.Name.Name, number)
		call := fmt.Sprintf("%s(%s)", name, arguments)
		if f.Recv != nil {
			call = f.Recv.List[0].Names[0].Name + "." + call
		}
		if f.Type.Results == nil {
			call += "; return"
		} else {
			call = "return " + call
		}
		at := s.offset(own.Body.Lbrace) + 1
		s.begins[at] += fmt.Sprintf(" if %s == \"%d\" { %s };", switchName, number, call)
		at = to.offset(f.Name.Pos()) - to.offset(f.Pos())
		fmt.Fprintf(&s.added, "\n%s%s%s%s\n", head[:at], name, head[at+len(f.Name.Name):], body)
	}
	return nil
}

// argumentsOf returns what a function is called with by its double, if each parameter has a name.
func argumentsOf(f *ast.FuncDecl) (list string, ok bool) {
	if f.Recv != nil && (len(f.Recv.List[0].Names) == 0 || f.Recv.List[0].Names[0].Name == "_") {
		return "", false
	}
	var names []string
	for _, p := range f.Type.Params.List {
		if len(p.Names) == 0 {
			return "", false
		}
		for _, n := range p.Names {
			name := n.Name
			if name == "_" {
				return "", false
			}
			if _, more := p.Type.(*ast.Ellipsis); more {
				name += "..."
			}
			names = append(names, name)
		}
	}
	return strings.Join(names, ", "), true
}
