package main

import (
	"context"
	"os"
	"strings"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/report"
	"github.com/sievekv/sievekv/portable"
)

// asksAboutFile reports whether words ask about a file of export, and not for INFO, whose sections have neither a dot nor
// a slash in their names. Without a store there is no INFO.
func (sh *shell) asksAboutFile(words []string) bool {
	if len(words) != 2 || words[0] != "info" {
		return false
	}
	name := words[1]
	if name == "-" || strings.ContainsAny(name, `./\`) {
		return true
	}
	_, err := os.Stat(name)
	_, noStore := sh.dir()
	return err == nil && noStore != nil && sh.address == nil
}

// describeFile prints what a file of export has. It reads all of it, and says whether the checksums hold.
func (sh *shell) describeFile(ctx context.Context, file string) (err error) {
	in := sh.stdin
	if file != "-" {
		if in, err = os.Open(file); err != nil {
			return exit.WithCode(exit.Local, err)
		}
		defer func() { err = exit.JoinLocal(err, in.Close()) }()
	}
	info, damage := portable.Describe(ctx, in)
	if info.Type != "" {
		result, err := report.File(file, info)
		if err != nil {
			return err
		}
		if err := sh.printResult(result, sh.show.json); err != nil {
			return err
		}
	}
	return fileError(damage)
}
