package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// runner runs tests on the source with some files replaced. The source itself is
// left alone: the go command is told which files to read in place of others.
type runner struct {
	root    string // of the module
	dir     string // for the files that replace others
	verbose bool
	hangs   map[string]time.Duration // bounds runs of tests, by their pattern, in the package that is under way
}

// hangs bounds a run of tests, beside three times what they take without a mutation: a
// mutation may make goroutines wait for each other for ever, which is a way of being caught.
const hangs = time.Minute

// patience bounds a run of tests without a mutation.
const patience = 20 * time.Minute

// test runs the tests of a package that match a pattern, with files replaced, and returns the output. The error is an
// *exec.ExitError if they did not pass. Name is for a file of its own.
func (r *runner) test(ctx context.Context, name, pkg, pattern string, replace map[string]string) ([]byte, error) {
	overlay, err := r.overlay(name, replace)
	if err != nil {
		return nil, err
	}
	// Neither vet, debugging information nor optimisation: most of the time is the compiler's and the linker's.
	cmd := exec.CommandContext(ctx, "go", "test", "-overlay="+overlay, "-vet=off", "-ldflags=-s -w",
		"-gcflags=github.com/sievekv/sievekv/...=-N -l -dwarf=false", "-count=1", "-timeout="+r.hangs[pattern].String(), "-run", pattern, pkg)
	cmd.Dir = r.root
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if r.verbose {
		fmt.Printf("=== %s\n%s", name, out.Bytes())
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return out.Bytes(), err
}

// overlay writes what tells the go command which files to read in place of others, and returns its path.
func (r *runner) overlay(name string, replace map[string]string) (path string, err error) {
	path = filepath.Join(r.dir, name+".json")
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(path, data, 0o644)
	}
	return path, err
}

// compileTogether compiles those mutations of one package that can be compiled together, tests the source as it is,
// and returns a program and the places of those mutations in the list. It returns none if that is for nothing.
func (r *runner) compileTogether(ctx context.Context, list []mutation) (b *binary, together []int, err error) {
	pkg := list[0].pkg
	if b, together, err = r.compilePackage(ctx, list); err != nil {
		return nil, nil, err
	}
	var patterns []string
	for _, m := range list {
		if !slices.Contains(patterns, m.tests) {
			patterns = append(patterns, m.tests)
		}
	}
	r.hangs = make(map[string]time.Duration)
	for _, pattern := range patterns {
		began := time.Now()
		out, err := b.test(ctx, 0, pattern, patience)
		if err != nil {
			return nil, nil, fmt.Errorf("the tests of %s fail without a mutation: %w\n%s", pkg, err, out)
		}
		if bytes.Contains(out, []byte("no tests to run")) {
			return nil, nil, fmt.Errorf("%s has no tests %s", pkg, pattern)
		}
		r.hangs[pattern] = hangs + 3*time.Since(began)
	}
	return b, together, nil
}

// compilePackage compiles those mutations of one package that can be compiled together, and returns their places in
// the list.
func (r *runner) compilePackage(ctx context.Context, list []mutation) (b *binary, together []int, err error) {
	pkg := list[0].pkg
	var chosen []mutation
	for i, m := range list {
		switch err := addMutation(make(map[string]*source), r.root, m, i+1); {
		case err == nil:
			together, chosen = append(together, i), append(chosen, m)
		case !errors.Is(err, errAlone):
			return nil, nil, fmt.Errorf("%s: %w", m.name, err)
		}
	}
	if b, err = r.compile(ctx, strings.ReplaceAll(strings.Trim(pkg, "./"), "/", "_"), pkg, chosen); err != nil {
		return nil, nil, err
	}
	return b, together, nil
}

// tryAlone runs the tests of a mutation on the source with the mutation made, and returns those that failed.
func (r *runner) tryAlone(ctx context.Context, m mutation, i int) (failed []string, err error) {
	name := fmt.Sprint("alone", i)
	replace := make(map[string]string)
	for i, e := range m.edits {
		path := filepath.Join(r.root, e.file)
		from, again := replace[path]
		if !again {
			from = path
		}
		data, err := os.ReadFile(from)
		if err != nil {
			return nil, err
		}
		if data, err = e.apply(data); err != nil {
			return nil, err
		}
		replace[path] = filepath.Join(r.dir, fmt.Sprintf("%s.%d.go", name, i))
		if err := os.WriteFile(replace[path], data, 0o644); err != nil {
			return nil, err
		}
	}
	return r.outcome(r.test(ctx, name, m.pkg, m.tests, replace))
}

// outcome returns the tests that failed in a run of them.
func (r *runner) outcome(out []byte, err error) (failed []string, _ error) {
	var exit *exec.ExitError
	if err == nil || !errors.As(err, &exit) {
		return nil, err
	}
	if failed = failures(out); len(failed) == 0 {
		return nil, fmt.Errorf("no test failed, but the run did:\n%s", out)
	}
	return failed, nil
}

var (
	failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)
	died       = regexp.MustCompile(`(?m)^(panic|fatal error): `)
	runaway    = regexp.MustCompile(`(?m)^\t+(Test\w+)[ /]`)
)

// failures returns the top-level tests that failed, or ran when the time was up.
func failures(out []byte) (names []string) {
	for _, match := range failedTest.FindAllSubmatch(out, -1) {
		names = append(names, string(match[1]))
	}
	if bytes.Contains(out, []byte("panic: test timed out")) {
		for _, match := range runaway.FindAllSubmatch(out, -1) {
			names = append(names, string(match[1])+" (hung)")
		}
	}
	// Not in a test's own goroutine, or not as a panic that it could catch.
	if len(names) == 0 && died.Match(out) {
		names = append(names, "the end of the process")
	}
	slices.Sort(names)
	return slices.Compact(names)
}
