package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/cliflags"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// maxBatchLines is the most lines of one commit: with every probe of every line in a block of its own it
// stays below what a commit may hold.
const maxBatchLines = 4096

// dedupFlags are the flags of dedup.
type dedupFlags struct {
	filterFlags
	out     string
	batch   int
	restart bool
}

func (sh *shell) dedupCommand() *cobra.Command {
	var f dedupFlags
	cmd := &cobra.Command{
		Use:                   "dedup KEY FILE|- [-o OUT] [flags]",
		Short:                 "Prints the lines of a file that were not seen before",
		Long:                  dedupHelp,
		Args:                  exactArgs(2),
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.note(cmd.Flags())
			if err := f.check(args[0]); err != nil {
				return err
			}
			return sh.dedup(cmd.Context(), args[0], args[1], f)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.out, "output", "o", "", "append the new lines to the file `OUT`, each exactly once")
	f.register(flags)
	cliflags.CountVar(flags, &f.batch, "batch", maxBatchLines, "`LINES` in one commit, at most 4096")
	flags.BoolVar(&f.restart, "restart", false, "forget an unfinished run and begin at the beginning of FILE")
	return cmd
}

func (f *dedupFlags) check(key string) error {
	if f.out == stdinName {
		f.out = "" // as other programs have it, - is standard output
	}
	switch {
	case key == "":
		return exit.Usagef("KEY must not be empty")
	case f.batch < 1 || f.batch > maxBatchLines:
		return exit.Usagef("--batch %d: must be 1 to %d lines", f.batch, maxBatchLines)
	}
	return f.filterFlags.check()
}

// dedup opens what a run needs, runs it, and tells how it went.
func (sh *shell) dedup(ctx context.Context, key, file string, f dedupFlags) (err error) {
	if sh.address != nil {
		return exit.Usagef("dedup needs the store in a directory: over a connection (%s) it could not promise that each new line is printed exactly once; give -d DIR",
			sh.server.given())
	}
	if _, err := sh.dir(); err != nil {
		return err
	}
	in, err := openInput(file, sh.stdin, f.batch)
	if err != nil {
		return exit.WithCode(exit.Local, err)
	}
	defer func() { err = joinLocal(err, in.close()) }()
	p := &pass{key: []byte(key), in: in, stdout: sh.stdout, notes: sh.stderr, flags: f}
	if f.out != "" {
		if p.out, err = openOut(f.out); err != nil {
			return exit.WithCode(exit.Local, err)
		}
		defer func() { err = joinLocal(err, p.out.close()) }()
		if same, err := p.out.isFile(in.file); err != nil {
			return exit.WithCode(exit.Local, err)
		} else if same {
			return exit.Usagef("%s is both the input and OUT", file)
		}
	}
	if p.db, err = sh.openOrCreate(); err != nil {
		return err
	}
	defer closeStore(p.db, &err)
	p.filter = linesOf(p.db, p.key, f.kind)
	if term.IsTerminal(int(sh.stderr.Fd())) && (p.out != nil || !term.IsTerminal(int(sh.stdout.Fd()))) {
		p.progress = newProgress(sh.stderr, in.size)
	}
	started := time.Now()
	err = p.run(ctx)
	p.progress.clear()
	if err != nil {
		return p.explain(err)
	}
	return sh.summary(p, time.Since(started))
}

// joinLocal adds the error of closing a local file to a function's own.
func joinLocal(err, closed error) error {
	if closed == nil {
		return err
	}
	return errors.Join(err, exit.WithCode(exit.Local, closed))
}

// explain adds to the error that ended a run how far it got and how to go on.
func (p *pass) explain(err error) error {
	var own *exit.Error
	switch {
	case !p.begun, errors.As(err, &own) && own.Code == exit.Refused:
		return err
	case errors.Is(err, scalableext.ErrFull):
		return exit.Refusef("the filter %q is full: it holds the %d lines it was made for and does not grow. Of %s %d lines are done, %d of them new; for the next new one there is no room. Start over without --non-scaling or with a larger --capacity, and with a new KEY and OUT",
			p.key, p.capacity, p.in, p.done.lines, p.done.newLines)
	case errors.Is(err, scalableext.ErrCannotGrow):
		return exit.Refusef("the filter %q has grown as far as it can. Of %s %d lines are done, %d of them new; for the next new one there is no room. Start over with a larger --capacity or a higher --error, and with a new KEY and OUT: %w",
			p.key, p.in, p.done.lines, p.done.newLines, err)
	case errors.Is(err, kv.ErrNotFound) && p.out != nil:
		return exit.Refusef("the filter %q is gone: it expired, or was deleted. Of %s %d lines were done, %d of them new. %s",
			p.key, p.in, p.done.lines, p.done.newLines, p.startOver(p.started))
	case errors.Is(err, kv.ErrNotFound):
		return exit.Refusef("the filter %q is gone: it expired, or was deleted. Of %s %d lines were done, %d of them new; the same command again makes a new filter and reads from the beginning",
			p.key, p.in, p.done.lines, p.done.newLines)
	case errors.Is(err, context.Canceled):
		return exit.WithCode(exit.Interrupted, fmt.Errorf("interrupted after %d lines, %d of them new; %s", p.done.lines, p.done.newLines, p.goOn()))
	}
	err = fmt.Errorf("after %d lines: %w", p.done.lines, err)
	if code := exit.Code(err); code == exit.Local {
		return exit.WithCode(code, fmt.Errorf("%w; %s", err, p.goOn()))
	}
	return err
}

func (p *pass) goOn() string {
	if p.out != nil {
		return "the same command again goes on from there"
	}
	if p.unconfirmed > 0 {
		return fmt.Sprintf("the same command again reads from the beginning and prints what is missing, and perhaps the last %d lines once more", p.unconfirmed)
	}
	return "the same command again reads from the beginning and prints what is missing"
}

// summary tells what a finished run did, beside the lines, or instead of them if those went to a file.
func (sh *shell) summary(p *pass, took time.Duration) error {
	facts, err := p.filter.Facts()
	if err != nil {
		return err
	}
	disk, err := p.db.DiskBytes()
	if err != nil {
		return err
	}
	to := sh.stdout
	if p.out == nil {
		to = sh.stderr
	}
	read := fmt.Sprint(p.done.lines)
	if p.resumed.lines > 0 {
		read += fmt.Sprintf(" (%d of them before the interruption)", p.resumed.lines)
	}
	_, err = fmt.Fprintf(to, `lines read           %s
new                  %d
seen before          %d
rate                 %.0f lines/s
%s`,
		read, p.done.newLines, p.done.lines-p.done.newLines, perSecond(p.done.lines-p.resumed.lines, took),
		filterSummary(facts, disk))
	return exit.WithCode(exit.Local, err)
}

func perSecond(n uint64, took time.Duration) float64 { return float64(n) / max(took.Seconds(), 1e-9) }

// filterSummary are the last lines of a summary: about the filter, and the store.
func filterSummary(f filterFacts, disk uint64) string {
	made := fmt.Sprintf("%d of %d lines", f.items, f.capacity)
	if f.layers > 1 {
		made += fmt.Sprintf(" in %d layers", f.layers)
	}
	if f.estimated {
		made = "about " + made
	}
	return fmt.Sprintf(`filter               %s, %s
false-positive rate  %.2g expected now, at most %g asked for
on disk              %d bytes
`,
		made, f.full, f.expectedRate, f.rate, disk)
}
