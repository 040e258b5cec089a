package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/report"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
	"github.com/sievekv/sievekv/module/reply"
)

const statsHelp = `stats tells about the store, about one KEY, or with --filters about all filters. For a filter it tells how many items it holds, how full it is,
which false-positive rate to expect now, and its layers; for another key its type, its bytes, and when it expires.

Commits, syncs, blocks read and the like are counted from when the store was opened: with -d, by this run. The bytes that
a key has on disk are an estimate, without what was written last. Lookups and adds of a filter are counted from when it
was opened, which is when it is first used, or used again after it was closed to save memory.

With --filters it lists the first filters of an order: --by fill puts those first that have the largest share of their
capacity in use, growth those that have the most layers and then the most new items, and use those with the most lookups
and adds. Columns found and not found are lookups, new and known are adds, by items.

With --json it prints one object on one line, always with the same fields. Sizes are in bytes. expires_at_ms is in Unix
milliseconds, 0 for never; expansion is 0 for a filter that does not grow.
`

func (sh *shell) statsCommand() *cobra.Command {
	var asJSON bool
	var ranked filterFlags
	cmd := &cobra.Command{
		Use:   "stats [KEY | --filters] [flags]",
		Short: "Tells facts and figures about a store or a key",
		Long:  statsHelp,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exit.Usagef("usage: %s", cmd.UseLine())
			}
			return ranked.check(cmd.Flags(), args)
		},
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if ranked.on {
				return sh.statsOfFilters(cmd.Context(), ranked, asJSON)
			}
			return sh.stats(cmd.Context(), args, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON, on one line")
	ranked.define(cmd.Flags())
	return cmd
}

// stats prints what SIEVE.STATS answers about the store, or about the key that args name.
func (sh *shell) stats(ctx context.Context, args []string, asJSON bool) (err error) {
	exec, err := sh.executorOfAll()
	if err != nil {
		return err
	}
	defer exec.Close(&err)
	r, err := answer(ctx, exec, append([]string{"SIEVE.STATS"}, args...)...)
	if err != nil {
		return err
	}
	if len(args) > 0 {
		if len(r.Elems()) != 1 {
			return fmt.Errorf("SIEVE.STATS: %d replies for one key", len(r.Elems()))
		}
		if r = r.Elems()[0]; r.Kind() == reply.KindNil {
			return exit.Refusef("no key %q in %s", args[0], sh.target(exec))
		}
	}
	if asJSON {
		return sh.writeJSON(reply.AppendJSON(nil, r))
	}
	result, err := report.Stats(r, len(args) > 0)
	if err != nil {
		return err
	}
	return sh.printResult(result, false)
}

// printResult writes a result as text, with a chart on a terminal, or as one JSON object.
func (sh *shell) printResult(result report.Result, asJSON bool) error {
	if !asJSON {
		text := result.Text()
		if c, ok := result.(report.Charted); ok && tty.IsTerminal(sh.stdout) {
			text += c.Chart(marks())
		}
		return sh.write(text)
	}
	b, err := json.Marshal(result)
	if err != nil {
		return err
	}
	return sh.writeJSON(append(b, '\n'))
}

// marks returns what charts on this terminal are made of.
func marks() *report.Marks {
	if tty.ShowsBlocks() {
		return report.Blocks
	}
	return report.ASCII
}
