package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/progress"
	"github.com/sievekv/sievekv/salvage"
)

func (sh *shell) salvageCommand() *cobra.Command {
	var o salvage.Options
	cmd := &cobra.Command{
		Use:                   "salvage DIR NEWDIR [flags]",
		Short:                 "Makes a new store of what is whole of a damaged one",
		Long:                  salvageHelp,
		Args:                  exactArgs(2),
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return sh.salvage(cmd.Context(), args[0], args[1], o)
		},
	}
	cmd.Flags().BoolVar(&o.Lossy, "lossy", false, "also recover keys that have lost something; filters are marked")
	return cmd
}

const salvageHelp = `salvage makes a store in NEWDIR, which must not exist, of all keys of the store in DIR that are whole, and names the
others. DIR is not changed. A key is whole if all that is stored of it can be read, and nothing that cannot be read may be
a newer version of it. So a filter with a lost block is left out: it would miss items that were added to it. A filter
that is being loaded by LOADCHUNK is left out too, and named; that is no loss, as its key is not there yet.

  kvshell salvage DIR NEWDIR            recovers what is whole
  kvshell salvage DIR NEWDIR --lossy    also what is not

With --lossy a filter may miss items, and stats and INFO say that it is lossy; its copies and what it is merged into
are lossy too. A string may be an older one, or one that was deleted: only the output of salvage says so.

If the end of the log is lost, NEWDIR is an earlier state of the store; if the file DURABLE is lost, it may be. If the MANIFEST is lost, nothing is known to be
whole: --lossy recovers all that there is, and what was deleted may come back.

The exit code is 0 if nothing is lost, otherwise 5.
`

func (sh *shell) salvage(ctx context.Context, dir, newDir string, o salvage.Options) error {
	switch {
	case sh.address != nil:
		return exit.Usagef("salvage: this needs the directory of a store, not %s", sh.server.Given())
	case dir == "" || newDir == "":
		return exit.Usagef(`salvage: DIR and NEWDIR must not be ""`)
	case isBelow(newDir, dir):
		return exit.Usagef("salvage: NEWDIR %s is inside DIR, %s, which salvage does not change: name a directory elsewhere", newDir, dir)
	}
	if sh.stderr.IsTerminal() {
		var bar *progress.Bar
		o.Progress = func(done, total uint64) {
			if bar == nil {
				bar = progress.New(sh.stderr.File(), int64(total))
			}
			bar.Show(int64(done), "salvage")
		}
		defer func() { bar.Clear() }()
	}
	options := sh.options(newDir, false)
	options.ReadOnly = false
	report, err := salvage.Recover(ctx, dir, newDir, *options, o)
	refused := errors.Is(err, salvage.ErrNotRecovered)
	if report != nil {
		text := damageText(report)
		if err == nil {
			text += recoveredText(report)
		}
		if werr := sh.write(text); werr != nil {
			return werr
		}
	}
	switch {
	case refused:
		return exit.WithCode(exit.Corrupt, fmt.Errorf("%w; with --lossy all that is left is recovered", err))
	case errors.Is(err, fs.ErrExist):
		return takenError("salvage: NEWDIR", err)
	case err != nil:
		return withoutWrites(openError(dir, err))
	case !report.Whole():
		return &exit.Error{Code: exit.Corrupt} // the report has told what is lost
	}
	return nil
}

func damageText(r *salvage.Report) string {
	text := ""
	for _, d := range r.Damage {
		text += fmt.Sprintf("damage: %s\n", d)
	}
	return text
}

func recoveredText(r *salvage.Report) string {
	text := ""
	for _, k := range r.Left {
		text += "left out: " + (*damagedKey)(&k).text() + "\n"
	}
	for _, k := range r.Loading {
		text += fmt.Sprintf("left out: %q (%s): LOADCHUNK has not brought all of its bytes yet; load it anew\n", k.Key, k.Type)
	}
	for _, k := range r.Lossy {
		text += "lossy: " + (*damagedKey)(&k).text() + "\n"
	}
	if r.Missing > 0 {
		text += fmt.Sprintf("missing: up to %d keys whose names are lost\n", r.Missing)
	}
	if r.Unknown {
		text += "missing: perhaps keys whose names are lost; their number is lost too\n"
	}
	if r.Earlier {
		text += "earlier: the end of the log is lost, and this is the store as it was before; all filters are marked lossy\n"
	}
	if r.MaybeEarlier {
		text += "earlier: perhaps; commits at the end of the log may be lost, and nothing tells; all filters are marked lossy\n"
	}
	for _, key := range r.Changed {
		text += fmt.Sprintf("changed by lost commits: %q\n", key)
	}
	if r.Guessed {
		text += "guessed: the MANIFEST is lost, and what was deleted may have come back\n"
	}
	if r.Unclosed {
		text += "note: the store was not closed; whether the log has lost commits of its last seconds is not known\n"
	}
	return text + fmt.Sprintf("keys recovered: %d, left out: %d\n", r.Recovered, len(r.Left)+len(r.Loading))
}
