package dedup

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/cliflags"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/filters"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/input"
)

// maxBatchLines is the most lines of one commit, and the default of runs with OUT. printedLines is the default of other
// runs: at most this number of lines may be printed twice.
const (
	maxBatchLines = 1 << 18
	printedLines  = 4096
)

// Flags are the flags of dedup.
type Flags struct {
	filters.Flags
	out     string // "" for standard output
	batch   int
	restart bool
	stop    bool // at damage

	batchGiven bool
}

// Note notes which flags were given.
func (f *Flags) Note(flags *pflag.FlagSet) {
	f.Flags.Note(flags)
	f.batchGiven = flags.Changed("batch")
}

// Register adds the flags to a command.
func (f *Flags) Register(flags *pflag.FlagSet) {
	flags.StringVarP(&f.out, "output", "o", "", "append the new lines to the file `OUT`, each exactly once")
	f.Flags.Register(flags)
	cliflags.CountVar(flags, &f.batch, "batch", maxBatchLines, fmt.Sprintf("`LINES` in one commit, at most %d; without -o %d if it is not given", maxBatchLines, printedLines))
	flags.BoolVar(&f.restart, "restart", false, "forget an unfinished run and begin at the beginning of FILE")
	input.StopAtDamageVar(flags, &f.stop)
}

// Out returns the path of OUT, "" for standard output.
func (f *Flags) Out() string { return f.out }

// Check returns a usage error for flags that make no run. It needs no store.
func (f *Flags) Check(key string) error {
	if f.out == input.Stdin {
		f.out = "" // as in other programs, - is standard output
	}
	if f.out == "" && !f.batchGiven {
		f.batch = printedLines
	}
	switch {
	case key == "":
		return exit.Usagef("KEY must not be empty")
	case f.batch < 1 || f.batch > maxBatchLines:
		return exit.Usagef("--batch %d: must be 1 to %d lines", f.batch, maxBatchLines)
	}
	return f.Flags.Check()
}
