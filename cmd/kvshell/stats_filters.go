package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/filters"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/report"
	"github.com/sievekv/sievekv/module/reply"
)

// filterFlags are the flags of stats for a list of filters.
type filterFlags struct {
	on    bool
	by    string
	limit int
}

// maxListed is the most filters that stats lists.
const maxListed = 100_000

func (f *filterFlags) define(flags *pflag.FlagSet) {
	flags.BoolVar(&f.on, "filters", false, "list the first filters of an order")
	flags.StringVar(&f.by, "by", "fill", "with --filters: the order, `fill|growth|use`")
	flags.IntVar(&f.limit, "limit", 20, fmt.Sprintf("with --filters: how many, at most %d", maxListed))
}

func (f *filterFlags) check(flags *pflag.FlagSet, args []string) error {
	for _, name := range []string{"by", "limit"} {
		if flags.Changed(name) && !f.on {
			return exit.Usagef("--%s: only with --filters", name)
		}
	}
	switch {
	case f.on && len(args) > 0:
		return exit.Usagef("stats: a KEY %q and --filters exclude each other", args[0])
	case !slices.Contains(report.By, f.by):
		return exit.Usagef("--by %s: want %s", f.by, strings.Join(report.By, ", "))
	case f.limit < 1 || f.limit > maxListed:
		return exit.Usagef("--limit %d: want 1 to %d", f.limit, maxListed)
	}
	return nil
}

// statsOfFilters prints the first filters of an order.
func (sh *shell) statsOfFilters(ctx context.Context, f filterFlags, asJSON bool) (err error) {
	exec, err := sh.executorOfAll()
	if err != nil {
		return err
	}
	defer exec.Close(&err)
	list := report.NewFilters(f.by, f.limit)
	for _, typ := range filters.Types() {
		if err := eachOfType(ctx, exec, typ, list.Add); err != nil {
			return err
		}
	}
	return sh.printResult(list, asJSON)
}

// eachOfType calls f with what SIEVE.STATS answers of each key of a type.
func eachOfType(ctx context.Context, exec executor, typ string, f func(reply.Reply) error) error {
	for cursor := "0"; ; {
		r, err := answer(ctx, exec, "SCAN", cursor, "COUNT", "100", "TYPE", typ)
		if err != nil {
			return err
		}
		if len(r.Elems()) != 2 {
			return fmt.Errorf("SCAN: %d replies, want a cursor and keys", len(r.Elems()))
		}
		keys := r.Elems()[1].Elems()
		several := len(keys)
		if several == 2 { // SIEVE.STATS takes LIMIT and one word for another question
			several = 1
		}
		for part := range slices.Chunk(keys, max(1, several)) {
			if err := eachStats(ctx, exec, part, f); err != nil {
				return err
			}
		}
		cursor = string(r.Elems()[0].Bytes())
		if cursor == "0" {
			return nil
		}
	}
}

// eachStats calls f with what SIEVE.STATS answers of each of the keys that is still there.
func eachStats(ctx context.Context, exec executor, keys []reply.Reply, f func(reply.Reply) error) error {
	words := []string{"SIEVE.STATS"}
	for _, key := range keys {
		words = append(words, string(key.Bytes()))
	}
	r, err := answer(ctx, exec, words...)
	if err != nil {
		return err
	}
	for _, one := range r.Elems() {
		if one.Kind() == reply.KindNil {
			continue
		}
		if err := f(one); err != nil {
			return err
		}
	}
	return nil
}
