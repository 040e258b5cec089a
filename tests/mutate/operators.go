package main

import (
	"fmt"
	"go/ast"
	"go/printer"
	"go/token"
	"maps"
	"slices"
	"strings"
)

// The operators change any function, where the list of mutations quotes it. They are
//
//   - drop: a statement is left out, if it is a call, an assignment to what there is, or counts;
//   - never: a condition of an if or a case does not hold; of conditions joined by "or" each by itself;
//   - always: one of two conditions joined by "and" holds;
//   - late: an if that ends with a return, and the statement before or after it that is a call or an assignment, swap places.
//
// All are made in one program: a point of the source asks whether it is the one that is changed.

// point is a place of the source at which an operator can be used.
type point struct {
	function string // its package and name, such as kv.(*DB).Read
	operator string
	text     string // of what is changed, on one line
	line     int
	file     string
}

// String returns what the list of accepted points has for the point.
func (p point) String() string { return fmt.Sprintf("%s: %s %s", p.function, p.operator, p.text) }

// points are a package's, by number.
type points struct {
	list    []point
	pkg     string
	name    string // of the file at hand
	of      *source
	within  string // the function at hand
	inserts map[int][]string
}

// add adds a point of the source, and returns its number.
func (p *points) add(operator string, n ast.Node) int {
	p.list = append(p.list, point{
		function: p.within,
		operator: operator,
		text:     strings.Join(strings.Fields(string(p.of.slice(n))), " "),
		line:     p.of.set.Position(n.Pos()).Line,
		file:     p.name,
	})
	return len(p.list) - 1
}

// insert adds text before what is at a place of the file, behind what was inserted there before.
func (p *points) insert(at token.Pos, format string, args ...any) {
	o := p.of.offset(at)
	p.inserts[o] = append(p.inserts[o], fmt.Sprintf(format, args...))
}

// around puts text before and after a node.
func (p *points) around(n ast.Node, before, after string) {
	p.insert(n.Pos(), "%s", before)
	// What ends here was begun later than what it is in: it has to end first.
	at := p.of.offset(n.End())
	p.inserts[at] = append([]string{after}, p.inserts[at]...)
}

// file returns a file in which every point of the functions chosen asks whether it is changed.
func (p *points) file(s *source, name string, chosen func(function string) bool) []byte {
	p.of, p.name, p.inserts = s, name, make(map[int][]string)
	for _, d := range s.tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		p.within = p.pkg + "." + nameOf(f)
		if chosen(nameOf(f)) {
			ast.Inspect(f.Body, p.visit)
		}
	}
	var out []byte
	from := 0
	for _, at := range slices.Sorted(maps.Keys(p.inserts)) {
		out = append(out, s.data[from:at]...)
		for _, text := range p.inserts[at] {
			out = append(out, text...)
		}
		from = at
	}
	return append(out, s.data[from:]...)
}

// nameOf returns the name of a function as the compiler has it, without its package.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	var b strings.Builder
	of := f.Recv.List[0].Type
	star, pointer := of.(*ast.StarExpr)
	if pointer {
		of = star.X
	}
	switch generic := of.(type) {
	case *ast.IndexExpr:
		of = generic.X
	case *ast.IndexListExpr:
		of = generic.X
	}
	if err := printer.Fprint(&b, token.NewFileSet(), of); err != nil {
		panic(err) // a strings.Builder takes all
	}
	if pointer {
		return "(*" + b.String() + ")." + f.Name.Name
	}
	return b.String() + "." + f.Name.Name
}

func (p *points) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok != token.CONST
	case *ast.BlockStmt:
		p.statements(n.List)
	case *ast.CaseClause:
		p.statements(n.Body)
	case *ast.CommClause:
		p.statements(n.Body)
	case *ast.IfStmt:
		p.never(n.Cond)
	case *ast.SwitchStmt:
		if n.Tag == nil {
			for _, c := range n.Body.List {
				for _, cond := range c.(*ast.CaseClause).List {
					p.never(cond)
				}
			}
		}
	case *ast.BinaryExpr:
		if n.Op == token.LAND {
			p.always(n.X)
			p.always(n.Y)
		}
	}
	return true
}

// never adds a condition.
func (p *points) never(e ast.Expr) {
	switch n := e.(type) {
	case *ast.ParenExpr:
		p.never(n.X)
		return
	case *ast.BinaryExpr:
		if n.Op == token.LOR {
			p.never(n.X)
			p.never(n.Y)
			return
		}
	}
	if !p.passesOn(e) {
		p.around(e, fmt.Sprintf("mutationNever(%d, ", p.add("never", e)), ")")
	}
}

// always adds a condition that is joined to another by "and".
func (p *points) always(e ast.Expr) {
	if b, ok := e.(*ast.BinaryExpr); ok && b.Op == token.LAND {
		return // it is visited itself
	}
	p.around(e, fmt.Sprintf("mutationAlways(%d, ", p.add("always", e)), ")")
}

// passesOn reports whether a condition is that an error is passed on. Faults of the disk and torture show that, and each
// would need a test of its own here.
func (p *points) passesOn(e ast.Expr) bool {
	b, ok := e.(*ast.BinaryExpr)
	if !ok || b.Op != token.NEQ {
		return false
	}
	x, ok := b.X.(*ast.Ident)
	return ok && strings.HasSuffix(strings.ToLower(x.Name), "err") && string(p.of.slice(b.Y)) == "nil"
}

// statements adds the statements of a block.
func (p *points) statements(list []ast.Stmt) {
	for i, s := range list {
		simple := p.simple(s)
		if i > 0 && (simple && p.early(list[i-1]) || p.early(s) && p.simple(list[i-1])) {
			which := p.add("late", s)
			p.insert(list[i-1].Pos(), "if mutationIs(%d) { %s };", which, p.of.slice(s))
			p.around(s, fmt.Sprintf("if !mutationIs(%d) {", which), "}")
		}
		if simple {
			p.around(s, fmt.Sprintf("if !mutationIs(%d) {", p.add("drop", s)), "}")
		}
	}
}

// simple reports whether a statement can be left out.
func (p *points) simple(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.AssignStmt:
		return s.Tok != token.DEFINE && string(p.of.slice(s.Lhs[0])) != "_"
	case *ast.IncDecStmt:
		return true
	case *ast.DeferStmt:
		return p.calls(s.Call)
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		return ok && p.calls(call)
	}
	return false
}

// calls reports whether a test could notice that a call is left out: not a call of a lock, which the race detector
// checks, and not one that is there for tests.
func (p *points) calls(call *ast.CallExpr) bool {
	name := string(p.of.slice(call.Fun))
	if at := strings.LastIndexByte(name, '.'); at >= 0 {
		name = name[at+1:]
	}
	switch name {
	case "panic", "Lock", "Unlock", "RLock", "pauseAt", "Helper":
		return false
	}
	return true
}

// early reports whether a statement is an if that ends with a return, and does not pass on an error.
func (p *points) early(s ast.Stmt) bool {
	n, ok := s.(*ast.IfStmt)
	if !ok || n.Else != nil || len(n.Body.List) == 0 || p.passesOn(n.Cond) {
		return false
	}
	_, ok = n.Body.List[len(n.Body.List)-1].(*ast.ReturnStmt)
	return ok
}

// runtimeOf returns the file that lets one of n points of a package be changed, and tells which are reached.
func runtimeOf(pkg string, n int) []byte {
	return fmt.Appendf(nil, `package %s

import (
	mutationOS "os"
	mutationNumbers "strconv"
	mutationAtomic "sync/atomic"
)

var (
	mutationReached [%d]mutationAtomic.Bool
	mutationList    = mutationOS.Getenv("%s")
	mutationChosen  = func() int {
		n, err := mutationNumbers.Atoi(mutationOS.Getenv("%s"))
		if err != nil {
			return -1
		}
		return n
	}()
)

func mutationIs(n int) bool {
	if mutationList != "" && !mutationReached[n].Load() && !mutationReached[n].Swap(true) {
		f, err := mutationOS.OpenFile(mutationList, mutationOS.O_APPEND|mutationOS.O_CREATE|mutationOS.O_WRONLY, 0o644)
		if err == nil {
			f.WriteString(mutationNumbers.Itoa(n) + "\n")
			f.Close()
		}
	}
	return n == mutationChosen
}

func mutationNever[B ~bool](n int, cond B) B { return cond && !B(mutationIs(n)) }

func mutationAlways[B ~bool](n int, cond B) B { return cond || B(mutationIs(n)) }
`, pkg, n+1, reached, variable)
}
