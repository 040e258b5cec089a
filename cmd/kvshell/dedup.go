package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/dedup"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/progress"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
)

func (sh *shell) dedupCommand() *cobra.Command {
	var f dedup.Flags
	cmd := &cobra.Command{
		Use:                   "dedup KEY FILE|- [-o OUT] [flags]",
		Short:                 "Prints the lines of a file that were not seen before",
		Long:                  dedupHelp,
		Args:                  exactArgs(2),
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.Note(cmd.Flags())
			if err := f.Check(args[0]); err != nil {
				return err
			}
			return sh.dedup(cmd.Context(), args[0], args[1], f)
		},
	}
	cmd.Flags().SortFlags = false
	f.Register(cmd.Flags())
	return cmd
}

const dedupHelp = `dedup prints the lines of FILE, or of standard input for -, that were not seen before, in order. Seen are
the lines of all earlier runs with the same KEY too: it names a filter, which is made if it is missing: a Bloom
filter, or with --type cuckoo or counting one from which lines can be deleted again (CF.DEL, CBF.DEL), so that they
count as new.
A new line is taken for a seen one at the filter's false-positive rate, and then lost; a seen one is never
printed again. A filter that holds more lines than it was made for grows, at the same rate: it takes more bits for each
line then. kvshell plan tells how many.

FILE may be gzipped, with one member or several. Lines may have any length, and end in LF or CRLF, or with the
file; they are printed with LF. An empty line is a line. What is compared is the bytes.

With -o, the new lines are appended to OUT, each exactly once even if the run is killed or the power fails: the
same command again goes on where it was. Until then KEY takes no other input and no other OUT, and OUT no other KEY,
unless --restart forgets the unfinished run. FILE must not change meanwhile (standard input must have the same bytes
again), nor must OUT: if it is not what was written, the run is refused, and what somebody appended to it goes to
OUT.cut. If KEY is deleted meanwhile or expires, the run is refused too. What tells of it is the key
OUT` + dedup.ClaimSuffix + `, which goes with the end of the run. A last line of OUT without a line break is given one.

Without -o, the new lines go to standard output. They count as seen when they were printed, whether or not somebody read
them: "| head -1" loses all that was printed behind the first line, as far as the pipe took it. If such a run is killed,
the next one may print its last batch once more. -o has neither of the two. Other news, such as the summary, then goes
to standard error.
`

// dedup opens what a run needs, and runs it.
func (sh *shell) dedup(ctx context.Context, key, file string, f dedup.Flags) (err error) {
	if sh.address != nil {
		return exit.Usagef("dedup needs the store in a directory: over a connection (%s) it could not promise that each new line is printed exactly once; give -d DIR",
			sh.server.Given())
	}
	if _, err := sh.dir(); err != nil {
		return err
	}
	p, err := dedup.Open(key, file, sh.stdin, f)
	if err != nil {
		return err
	}
	defer func() { err = exit.JoinLocal(err, p.Close()) }()
	p.Stdout, p.Notes = sh.stdout, sh.stderr
	db, err := sh.openOrCreate()
	if err != nil {
		return err
	}
	defer sh.closeStore(db, &err)
	if tty.IsTerminal(sh.stderr) && (p.ToFile() || !tty.IsTerminal(sh.stdout)) {
		p.Progress = progress.New(sh.stderr, p.InputSize())
	}
	return p.Run(ctx, db)
}
