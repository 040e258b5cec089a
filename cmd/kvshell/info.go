package main

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/report"
	"github.com/sievekv/sievekv/portable"
)

// infoHelp is the text of the man page. Info is no word for cobra: it is INFO where it does not name a file.
const infoHelp = `info describes a file that export has written: what it has, and whether it is whole. It reads all of it, and needs no
store. FILE has a dot or a slash in its name, or is - for standard input: with another word, or none, info is the command
INFO of a store. If the file is damaged, the exit code is 5.

  kvshell info seen.svkf
  kvshell info seen.svkf --json
`

// asksAboutFile reports whether words ask about a file of export, and not for INFO, whose sections have neither a dot nor
// a slash in their names. Without a store there is no INFO.
func (sh *shell) asksAboutFile(words []string) bool {
	name, _, ok := fileOfInfo(words)
	if !ok {
		return false
	}
	if name == "-" || strings.ContainsAny(name, `./\`) {
		return true
	}
	_, err := os.Stat(name)
	_, noStore := sh.dir()
	return err == nil && noStore != nil && sh.address == nil
}

// fileOfInfo returns the word that may be a file in info FILE [--json].
func fileOfInfo(words []string) (file string, asJSON, ok bool) {
	if len(words) < 2 || words[0] != "info" {
		return "", false, false
	}
	rest := slices.DeleteFunc(slices.Clone(words[1:]), func(w string) bool { return w == "--json" })
	if len(rest) != 1 || len(words) > 3 {
		return "", false, false
	}
	return rest[0], len(words) == 3, true
}

// describeFile prints what a file of export has. It reads all of it, and says whether the checksums hold.
func (sh *shell) describeFile(ctx context.Context, words []string) (err error) {
	file, asJSON, _ := fileOfInfo(words)
	in := sh.stdin
	if file != "-" {
		if in, err = openFile(ctx, file); err != nil {
			return err
		}
		defer func() { err = exit.JoinLocal(err, in.Close()) }()
	}
	info, damage := portable.Describe(ctx, reading(ctx, in))
	if info.Type != "" {
		result, err := report.File(file, info)
		if err != nil {
			return err
		}
		if err := sh.printResult(result, sh.show.json || asJSON); err != nil {
			return err
		}
	}
	return fileError(file, damage)
}
