// Platforms type-checks the module, its tests included, as it would be compiled for other platforms. It finds what
// differs between them: files that are left out, names and types of the operating system. It takes seconds, where
// compiling every dependency for another platform takes minutes.
//
//	go run ./tests/platforms darwin/arm64 windows/amd64 linux/arm64
//
// It prints each error, and exits with status 1 if there is one.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: platforms OS/ARCH ...")
		os.Exit(2)
	}
	failed := false
	for _, platform := range os.Args[1:] {
		n, err := check(platform)
		if err != nil {
			fmt.Fprintf(os.Stderr, "platforms: %s: %v\n", platform, err)
			failed = true
			continue
		}
		fmt.Printf("%s: %d packages\n", platform, n)
	}
	if failed {
		os.Exit(1)
	}
}

// check type-checks everything for a platform, such as linux/arm64, and returns the number of packages, dependencies
// included.
func check(platform string) (n int, err error) {
	system, arch, ok := strings.Cut(platform, "/")
	if !ok {
		return 0, errors.New("not an operating system and an architecture, such as linux/arm64")
	}
	list, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedImports | packages.NeedDeps | packages.NeedCompiledGoFiles |
			packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo,
		Env:   append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0"),
		Tests: true,
	}, "./...")
	if err != nil {
		return 0, err
	}
	var errs []error
	packages.Visit(list, nil, func(p *packages.Package) {
		n++
		for _, e := range p.Errors {
			errs = append(errs, e)
		}
	})
	return n, errors.Join(errs...)
}
