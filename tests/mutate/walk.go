package main

import (
	"context"
	"errors"
	"fmt"
	"go/build"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// reached is the variable of the environment with the file in which a program lists the points that it has reached.
const reached = "SIEVEKV_REACHED"

// area is functions of a package, and the packages whose tests must notice each change of them.
type area struct {
	pkg       string
	tests     []string
	functions string // their names without the package, apart by spaces
}

// walk changes the functions of an area at one point after the other.
type walk struct {
	*runner
	area
	points   points
	programs map[string]*binary // by package of tests
	by       [][]*aTest         // the tests that reach each point, the fastest first
}

// aTest is a test of a program.
type aTest struct {
	pkg, name string
	took      time.Duration
}

// walkAll prints the points of the areas at which no test notices a change, and reports whether there are none except
// accepted ones.
func (r *runner) walkAll(ctx context.Context, list []area) (ok bool, err error) {
	ok = true
	for i, a := range list {
		w := &walk{runner: r, area: a, programs: make(map[string]*binary)}
		if err := w.prepare(ctx, fmt.Sprint("walk", i)); err != nil {
			return false, fmt.Errorf("%s: %w", a.pkg, err)
		}
		noticed, err := w.run(ctx)
		if err != nil {
			return false, fmt.Errorf("%s: %w", a.pkg, err)
		}
		ok = ok && noticed
	}
	return ok, nil
}

// prepare compiles the tests and finds out which points each of them reaches.
func (w *walk) prepare(ctx context.Context, name string) error {
	replace, err := w.replaced(name)
	if err != nil {
		return err
	}
	w.by = make([][]*aTest, len(w.points.list))
	for i, pkg := range w.area.tests {
		b, err := w.build(ctx, fmt.Sprint(name, "_", i), pkg, replace)
		if err != nil {
			return err
		}
		w.programs[pkg] = b
		if err := w.trace(ctx, pkg, b); err != nil {
			return err
		}
	}
	for _, tests := range w.by {
		slices.SortStableFunc(tests, func(a, b *aTest) int { return int(a.took - b.took) })
	}
	return nil
}

// replaced writes the files of the package with its points, and returns them by the files they are in place of.
func (w *walk) replaced(name string) (map[string]string, error) {
	chosen := make(map[string]bool)
	for _, name := range strings.Fields(w.functions) {
		chosen[name] = true
	}
	files, err := build.ImportDir(filepath.Join(w.root, w.pkg), 0)
	if err != nil {
		return nil, err
	}
	w.points.pkg = w.short()
	replace := make(map[string]string)
	put := func(file string, data []byte) error {
		path := filepath.Join(w.root, w.pkg, file)
		replace[path] = filepath.Join(w.dir, fmt.Sprintf("%s.%d.go", name, len(replace)))
		return os.WriteFile(replace[path], data, 0o644)
	}
	for _, file := range files.GoFiles {
		data, err := os.ReadFile(filepath.Join(w.root, w.pkg, file))
		if err != nil {
			return nil, err
		}
		s, err := parse(data)
		if err != nil {
			return nil, err
		}
		changed := w.points.file(s, file, func(function string) bool { return chosen[function] })
		if err := put(file, changed); err != nil {
			return nil, err
		}
	}
	return replace, put("zz_mutation.go", runtimeOf(files.Name, len(w.points.list)))
}

// trace runs each test of a program and notes which points it reaches.
func (w *walk) trace(ctx context.Context, pkg string, b *binary) error {
	out, err := b.run(ctx, nil, "-test.list=.")
	if err != nil {
		return err
	}
	list := filepath.Join(w.dir, "reached")
	for _, name := range strings.Fields(string(out)) {
		if !regexp.MustCompile(`^(Test|Example|Fuzz)`).MatchString(name) {
			continue
		}
		if err := os.WriteFile(list, nil, 0o644); err != nil {
			return err
		}
		began := time.Now()
		out, err := b.run(ctx, []string{reached + "=" + list}, "-test.run=^"+name+"$", "-test.timeout="+patience.String())
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil { // as those do that look at what the compiler made, or count allocations
			fmt.Printf("%s: %s is left out, for it fails without a change\n", pkg, name)
			if w.verbose {
				fmt.Printf("%s\n", out)
			}
			continue
		}
		test := &aTest{pkg, name, time.Since(began)}
		data, err := os.ReadFile(list)
		if err != nil {
			return err
		}
		for _, number := range strings.Fields(string(data)) {
			n, err := strconv.Atoi(number)
			if err != nil {
				return err
			}
			if !slices.Contains(w.by[n], test) { // processes that a test starts list for themselves
				w.by[n] = append(w.by[n], test)
			}
		}
	}
	return nil
}

// run prints the points at which no test notices the change.
func (w *walk) run(ctx context.Context) (ok bool, err error) {
	ok = true
	free := make(chan struct{}, runtime.NumCPU())
	var wait sync.WaitGroup
	var mu sync.Mutex
	caught := 0
	for i, p := range w.points.list {
		free <- struct{}{}
		wait.Go(func() {
			defer func() { <-free }()
			noticed, terr := w.notices(ctx, i)
			mu.Lock()
			defer mu.Unlock()
			switch _, known := accepted[p.String()]; {
			case terr != nil:
				err = errors.Join(err, fmt.Errorf("%s: %w", p, terr))
			case noticed:
				caught++
			case !known:
				ok = false
				fmt.Printf("SURVIVED %s (%s:%d, %d tests)\n", p, p.file, p.line, len(w.by[i]))
			}
		})
	}
	wait.Wait()
	fmt.Printf("%s: %d of %d changes are noticed\n", w.pkg, caught, len(w.points.list))
	return ok, err
}

// short returns the package's name as it is in the names of its functions.
func (a area) short() string {
	if a.pkg == "." {
		return "sievekv"
	}
	return strings.TrimPrefix(a.pkg, "./")
}

// notices reports whether a test fails when a point is changed. The fastest tests are tried one by one.
func (w *walk) notices(ctx context.Context, n int) (bool, error) {
	tests := w.by[n]
	few := min(len(tests), 4)
	for _, t := range tests[:few] {
		if failed, err := w.fail(ctx, n, []*aTest{t}); failed || err != nil {
			return failed, err
		}
	}
	for _, pkg := range w.area.tests {
		var rest []*aTest
		for _, t := range tests[few:] {
			if t.pkg == pkg {
				rest = append(rest, t)
			}
		}
		if len(rest) == 0 {
			continue
		}
		if failed, err := w.fail(ctx, n, rest); failed || err != nil {
			return failed, err
		}
	}
	return false, nil
}

// fail reports whether one of some tests of a package fails, or hangs, when a point is changed.
func (w *walk) fail(ctx context.Context, n int, tests []*aTest) (bool, error) {
	names := make([]string, len(tests))
	limit := hangs / 2
	for i, t := range tests {
		names[i] = t.name
		limit += 5 * t.took
	}
	pattern := "^(" + strings.Join(names, "|") + ")$"
	_, err := w.programs[tests[0].pkg].run(ctx, []string{fmt.Sprintf("%s=%d", variable, n)},
		"-test.failfast", "-test.timeout="+limit.String(), "-test.run="+pattern)
	return err != nil, ctx.Err()
}
