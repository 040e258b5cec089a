// Mutate shows that the tests notice: it changes the source at one place at a time and runs the tests, which must fail
// each time.
//
//	go run ./tests/mutate [-run regexp] [-v] [-compile]
//
// It is run in the module's root directory, whose files it does not change. First it takes the protections of the store's
// protocols, storage and transactions out, which are quoted in a list of mutations, and prints a line for each:
// "caught NAME by TESTS" or "SURVIVED NAME". Then it goes over the functions of the areas, and makes each change that
// the operators know, see operators.go. It prints those that no test notices, unless they are accepted.
//
// The unchanged source is tested first and must pass. The exit status is 1 if a change was not noticed, could not be
// made or did not compile. With -run it makes only the mutations whose names match, and goes only over the packages
// that match. With -compile it only finds out whether the mutations compile, which takes a minute.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

func main() {
	pattern := flag.String("run", "", "make only the mutations whose names match this regular expression, and go over packages that match")
	verbose := flag.Bool("v", false, "print the output of the tests")
	compile := flag.Bool("compile", false, "only compile the mutations")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ok, err := mutate(ctx, *pattern, *verbose, *compile)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
	}
	if !ok {
		os.Exit(1)
	}
}

// mutate reports whether every change whose name matches was noticed.
func mutate(ctx context.Context, pattern string, verbose, compile bool) (ok bool, err error) {
	chosen, err := regexp.Compile(pattern)
	if err != nil {
		return false, err
	}
	quoted := slices.DeleteFunc(slices.Clone(mutations), func(m mutation) bool { return !chosen.MatchString(m.name) })
	walked := slices.DeleteFunc(slices.Clone(areas), func(a area) bool { return !chosen.MatchString(a.pkg) })
	if len(quoted)+len(walked) == 0 {
		return false, fmt.Errorf("no mutation's name and no package matches %q", pattern)
	}
	root, err := os.Getwd()
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return false, err
	}
	r := &runner{root: root, dir: dir, verbose: verbose}
	if compile {
		ok, err = true, r.compileAll(ctx, quoted)
	} else if ok, err = r.tryAll(ctx, quoted); err == nil {
		var noticed bool
		noticed, err = r.walkAll(ctx, walked)
		ok = ok && noticed
	}
	if rerr := os.RemoveAll(dir); err == nil {
		err = rerr
	}
	return ok && err == nil, err
}

// tryAll prints the result of each mutation and reports whether all were caught.
// As many are tried at once as there are processors.
func (r *runner) tryAll(ctx context.Context, list []mutation) (ok bool, err error) {
	ok = true
	for _, group := range groups(list) {
		caught, err := r.tryGroup(ctx, group)
		if err != nil {
			return false, err
		}
		ok = ok && caught
	}
	return ok, nil
}

// compileAll compiles the mutations of each package together.
func (r *runner) compileAll(ctx context.Context, list []mutation) (err error) {
	for _, group := range groups(list) {
		_, together, cerr := r.compilePackage(ctx, group)
		fmt.Printf("%s: %d of %d mutations compile together\n", group[0].pkg, len(together), len(group))
		err = errors.Join(err, cerr)
	}
	return err
}

// tryGroup is tryAll for mutations whose tests are in one package.
func (r *runner) tryGroup(ctx context.Context, list []mutation) (ok bool, err error) {
	try := r.tryAlone
	if program, together, err := r.compileTogether(ctx, list); err != nil {
		return false, err
	} else if program != nil {
		try = func(ctx context.Context, m mutation, i int) ([]string, error) {
			if at := slices.Index(together, i); at >= 0 {
				return r.outcome(program.test(ctx, at+1, m.tests, r.hangs[m.tests]))
			}
			return r.tryAlone(ctx, m, i)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	outcomes := make([]chan outcome, len(list))
	free := make(chan struct{}, runtime.NumCPU())
	for i := range list {
		outcomes[i] = make(chan outcome, 1)
	}
	go func() {
		for i, m := range list { // in order, as they are printed
			free <- struct{}{}
			go func() {
				defer func() { <-free }()
				by, err := try(ctx, m, i)
				outcomes[i] <- outcome{by, err}
			}()
		}
	}()
	ok = true
	for i, m := range list {
		o := <-outcomes[i]
		switch {
		case err != nil: // of an earlier one, which ended all
		case o.err != nil:
			err = fmt.Errorf("%s: %w", m.name, o.err)
			cancel()
		case len(o.by) == 0:
			ok = false
			fmt.Println("SURVIVED", m.name)
		default:
			fmt.Println("caught", m.name, "by", strings.Join(o.by, ", "))
		}
	}
	return ok, err
}

// groups returns the mutations by the packages of their tests, in the order of the first of each.
func groups(list []mutation) (of [][]mutation) {
	at := make(map[string]int)
	for _, m := range list {
		i, known := at[m.pkg]
		if !known {
			i = len(of)
			at[m.pkg], of = i, append(of, nil)
		}
		of[i] = append(of[i], m)
	}
	return of
}

// outcome is what the tests made of a mutation: those that failed.
type outcome struct {
	by  []string
	err error
}
