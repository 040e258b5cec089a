package main

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Each operator finds its points, and the file with them is one that compiles.
func TestOperators(t *testing.T) {
	const file = `package x

func (c *cache[K]) get(k K, now int64) (v int, err error) {
	c.asked++
	if c.closed || now > c.end {
		return 0, errClosed
	}
	v = c.values[k]
	const both = true && true
	c.mu.Lock()
	if err != nil {
		return 0, err
	}
	c.touch(k) // the last one
	return v, nil
}

func other() { panic("not chosen") }

func last(a, b bool) bool {
	switch {
	case a:
		defer note(func() { n = 1 })
	}
	return a && (b || n > 0)
}
`
	s, err := parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	p := points{pkg: "x"}
	changed := p.file(s, "x.go", func(function string) bool { return function != "other" })
	if _, err := parser.ParseFile(token.NewFileSet(), "x.go", changed, 0); err != nil {
		t.Errorf("%v in\n%s", err, changed)
	}
	var got []string
	for _, at := range p.list {
		got = append(got, at.String())
	}
	slices.Sort(got)
	want := []string{
		"x.(*cache).get: drop c.asked++",
		"x.(*cache).get: drop c.touch(k)",
		"x.(*cache).get: drop v = c.values[k]",
		"x.(*cache).get: late if c.closed || now > c.end { return 0, errClosed }",
		"x.(*cache).get: late v = c.values[k]",
		"x.(*cache).get: never c.closed",
		"x.(*cache).get: never now > c.end",
		"x.last: always (b || n > 0)",
		"x.last: always a",
		"x.last: drop defer note(func() { n = 1 })",
		"x.last: drop n = 1",
		"x.last: never a",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the points are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The functions of the areas exist, and what is accepted is a point of them.
func TestAreas(t *testing.T) {
	all := make(map[string]bool)
	for _, a := range areas {
		w := walk{runner: &runner{root: filepath.Join("..", ".."), dir: t.TempDir()}, area: a}
		if _, err := w.replaced("file"); err != nil {
			t.Fatal(err)
		}
		found := make(map[string]bool)
		for _, p := range w.points.list {
			found[strings.TrimPrefix(p.function, a.short()+".")] = true
			all[p.String()] = true
		}
		for _, name := range strings.Fields(a.functions) {
			if !found[name] {
				t.Errorf("%s has no function %s, or it has nothing to change", a.pkg, name)
			}
		}
	}
	for p, reason := range accepted {
		if !all[p] || reason == "" {
			t.Errorf("accepted is %q with the reason %q: there is no such point, or no reason", p, reason)
		}
	}
}
