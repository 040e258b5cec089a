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
			f.MaxBytes, f.Layouts = sh.maxBytes(), sh.layouts()
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

const dedupHelp = `dedup prints, in order, the lines of FILE (of standard input for -) that it has not seen before: neither in
FILE nor in any earlier run with the same KEY. KEY names the filter that holds the lines seen. It is made if it is missing:
a Bloom filter or, with --type cuckoo or counting, a filter from which lines can be deleted again (CF.DEL, CBF.DEL), so
that they are new once more. With --bf-layout compatible, a Bloom filter that is made is RedisBloom's.

A line that was seen is never printed again; with --window, not before it is forgotten. A new line is not printed if the
filter takes it for a seen one, which happens at the filter's false-positive rate. A filter that gets more lines than it
was made for grows at the same rate, but takes more bits for each line: kvshell plan tells how many.

With --window 7d, a line is new again if it did not come for 7 days: it is forgotten 7 days to 7 days and 21 hours after
it came last, by the clock of this machine. --slices 24 makes that 7 days to 7 days and 7 hours.

FILE may be compressed by gzip or zstd. Archives, databases, and what is compressed otherwise, are known by their first bytes,
and refused. Lines may have up to 512 MiB, and end in LF or CRLF, or with the file; they are printed with LF. An empty line is
a line. Lines are compared byte by byte; a byte order mark at the beginning of FILE is left out, and UTF-16 after one is
read as UTF-8.

With -o, the new lines are appended to OUT, each exactly once even if the run is killed or the power fails: run the same
command again, and it goes on where it was. Until such a run is finished, dedup and load take no other input for KEY, and
dedup no other OUT for KEY, and no other KEY for OUT; --restart forgets the unfinished run. FILE may get another name
meanwhile, but must not change, and standard input must have the same bytes again. OUT must not change either: if what was
written to it has changed, the run is refused; what somebody has appended to it is moved to OUT.cut. A run is also refused if KEY was deleted meanwhile or
has expired: the key OUT` + dedup.ClaimSuffix + ` tells of the unfinished run, and is removed when a run is finished. If
the last line of OUT has no line break, it gets one.

If FILE is damaged or cut off, the run ends with an error there. With the whole file in its place, the same command goes on.
If there is none, add --stop-at-damage: then FILE ends before the damage, and the run is finished. Zeros after what gzip has
written are padding.

Without -o, the new lines go to standard output, and the summary and notes to standard error. Lines count as seen when
they were printed, even if nobody read them: with "| head -1" all lines that the pipe took after the first are lost. If
such a run is killed, the next one may print its last batch once more. With -o neither happens.
`

// dedup opens the input, OUT and the store, and runs dedup on them.
func (sh *shell) dedup(ctx context.Context, key, file string, f dedup.Flags) (err error) {
	if sh.address != nil {
		return exit.Usagef("dedup needs the store in a directory: over a connection (%s) it could not promise that each new line is printed exactly once; give -d DIR",
			sh.server.Given())
	}
	if _, err := sh.dir(); err != nil {
		return err
	}
	if err := sh.refuseOwnFiles(file, f.Out()); err != nil {
		return err
	}
	p, err := dedup.Open(ctx, key, file, sh.stdin, sh.stdout, sh.stderr, f)
	if err != nil {
		return err
	}
	defer func() { err = exit.JoinLocal(err, p.Close()) }()
	if err := p.Look(ctx); err != nil {
		return err
	}
	defer collectMore()()
	db, err := sh.openOrCreate()
	if err != nil {
		return err
	}
	defer sh.closeStore(db, &err)
	sh.compareMemory(db.Options(), 0)
	if sh.stderr.IsTerminal() && (p.ToFile() || !tty.IsTerminal(sh.stdout)) {
		p.Progress = progress.New(sh.stderr.File(), p.InputSize())
	}
	return p.Run(ctx, db)
}

// refuseOwnFiles refuses input and OUT of a run of dedup in the store's directory.
func (sh *shell) refuseOwnFiles(file, out string) error {
	if err := sh.refuseInput("dedup", file); err != nil {
		return err
	}
	if out == "" {
		return sh.refuseStream("dedup", "standard output", sh.stdout)
	}
	return sh.refuseOutput("dedup", out)
}
