package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/cliflags"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/filters"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/report"
	"github.com/sievekv/sievekv/scalableext"
)

// planFlags are the flags of plan.
type planFlags struct {
	kind   string
	config bloomext.Config
	log    uint64
	table  bool
	json   bool

	expansionGiven bool
}

func (sh *shell) planCommand() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:                   "plan --capacity N --error P [flags]",
		Short:                 "Tells how large a filter would be, and how good",
		Long:                  planHelp,
		Args:                  exactArgs(0),
		DisableFlagsInUseLine: true,
		Annotations:           storeless,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.expansionGiven = cmd.Flags().Changed("expansion")
			if err := f.check(cmd.Flags(), sh.layouts()); err != nil {
				return err
			}
			return sh.plan(f)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	cliflags.CountVar(flags, &f.config.Capacity, "capacity", 0, "different `ITEMS` expected, such as 64000, 64k, 1M or 1e6")
	flags.Float64Var(&f.config.ErrorRate, "error", 0,
		"highest false-positive `RATE`, such as 0.01; above 0.25 it is lowered to that; 0 for a cuckoo filter made without one")
	flags.StringVar(&f.kind, "type", filters.Bloom, "type of the filter, `bloom|cuckoo|counting`")
	cliflags.CountVar(flags, &f.config.Expansion, "expansion", 2, "the `FACTOR` between the capacities of a layer and the next")
	flags.BoolVar(&f.config.NonScaling, "non-scaling", false, "plan a filter that does not grow")
	cliflags.CountVar(flags, &f.log, "growth-log", scalableext.DefaultGrowthLog,
		"the most `BYTES` of the log from which a Bloom filter grows without more layers; 0 for none")
	flags.Var((*cliflags.Span)(&f.config.Window), "window",
		"plan a Bloom filter that forgets items that did not come for a `TIME`, such as 24h or 7d; --capacity is then for the items of one TIME")
	cliflags.CountVar(flags, &f.config.Last, "last", 0, "plan a Bloom filter that forgets all but the last `ITEMS`, in place of --capacity")
	f.config.Slices = scalableext.DefaultSlices
	cliflags.RangeVar(flags, &f.config.Slices, "slices", scalableext.MinSlices, scalableext.MaxSlices,
		fmt.Sprintf("`NUMBER` of slices of the --window or --last, %d to %d: an item is forgotten late by a slice at most", scalableext.MinSlices, scalableext.MaxSlices))
	flags.BoolVar(&f.table, "table", false, "print sizes for many capacities and rates, beside those of others")
	flags.BoolVar(&f.json, "json", false, "print it as JSON, on one line")
	return cmd
}

// check completes the flags, and returns a usage error if they make no plan.
func (f *planFlags) check(flags *pflag.FlagSet, layouts filters.Layouts) error {
	for _, name := range []string{"capacity", "error", "type", "expansion", "non-scaling", "growth-log", "window", "last", "slices", filters.BloomLayoutFlag, filters.CuckooLayoutFlag} {
		if err := cliflags.Exclusive(flags, "table", name); err != nil {
			return err
		}
	}
	for _, pair := range [][2]string{
		{"expansion", "non-scaling"}, {"growth-log", "non-scaling"}, {"window", "last"}, {"capacity", "last"}, {"window", "non-scaling"},
		{"window", "growth-log"}, {"last", "growth-log"}, {"last", "expansion"},
	} {
		if err := cliflags.Exclusive(flags, pair[0], pair[1]); err != nil {
			return err
		}
	}
	if err := f.checkWindow(flags, layouts); err != nil {
		return err
	}
	if f.config.GrowthLog = int64(f.log); f.log == 0 || f.expansionGiven && !flags.Changed("growth-log") {
		f.config.GrowthLog = -1
	}
	unrated := f.kind == filters.Cuckoo && layouts.Cuckoo == scalableext.LayoutCompatible // its rate follows from the layout
	if !f.table && !((flags.Changed("capacity") || flags.Changed("last")) && (flags.Changed("error") || unrated)) {
		return exit.Usagef("plan needs both --capacity N and --error P, or --table")
	}
	if err := filters.CheckKind(f.kind); err != nil {
		return err
	}
	switch f.kind {
	case filters.Bloom:
		f.config.Layout = layouts.Bloom
	case filters.Cuckoo:
		f.config.Layout = layouts.Cuckoo
	}
	switch {
	case f.expansionGiven && f.config.Expansion == 0:
		return exit.Usagef("--expansion 0: must be 1 to %d; --non-scaling plans a filter that does not grow",
			scalableext.MaxExpansion)
	case f.log > 0 && f.kind != filters.Bloom && flags.Changed("growth-log"):
		return exit.Usagef("--growth-log %d: is for --type %s, not %s", f.log, filters.Bloom, f.kind)
	case f.config.Layout == scalableext.LayoutCompatible && flags.Changed("growth-log"):
		return exit.Usagef("--growth-log %d --%s %v: filters with that layout have no log; leave out --growth-log, or the layout must be native",
			f.log, filters.BloomLayoutFlag, f.config.Layout)
	case f.log > scalableext.MaxLogBytes:
		return exit.Usagef("--growth-log %d: must be 0 to %d", f.log, int64(scalableext.MaxLogBytes))
	case !f.expansionGiven:
		f.config.Expansion = 0 // the default of the type; with --non-scaling it must be 0
	}
	return nil
}

// checkWindow completes the parameters of a filter that forgets.
func (f *planFlags) checkWindow(flags *pflag.FlagSet, layouts filters.Layouts) error {
	name := "window"
	if flags.Changed("last") {
		name = "last"
	}
	value := flags.Lookup(name).Value
	switch {
	case !flags.Changed(name):
		if flags.Changed("slices") {
			return exit.Usagef("--slices %d: only a filter with a --window, or with --last, has slices", f.config.Slices)
		}
		f.config.Slices = 0
		return nil
	case f.kind != filters.Bloom:
		return exit.Usagef("--%s %v --type %s: only a Bloom filter forgets", name, value, f.kind)
	case layouts.Bloom == scalableext.LayoutCompatible:
		return exit.Usagef("--%s %v --%s compatible: a filter that forgets must have the native layout", name, value, filters.BloomLayoutFlag)
	case name == "last" && f.config.Last == 0:
		return exit.Usagef("--last 0: must be above 0")
	case name == "last":
		f.config.Capacity = f.config.Last
	}
	return nil
}

// plan prints a plan, or the table of sizes.
func (sh *shell) plan(f planFlags) (err error) {
	var result report.Result
	if f.table {
		result, err = report.Sizes()
	} else {
		result, err = report.Plan(f.kind, f.config, sh.maxBytes())
	}
	if err != nil {
		return err
	}
	return sh.printResult(result, f.json)
}

const planHelp = `plan tells how large a filter for ITEMS different items at a false-positive RATE is, how it is laid out, and
which rate to expect when it holds so many items. For a filter that grows, it also tells which layers the filter has at
ten times the items. It needs no store.

A block is what one lookup reads; a line is 512 bits of it. With --type counting, a counting Bloom filter, a line is 128
counters of 4 bits. With --type cuckoo, a cuckoo filter, --error 0 plans one that is made without an error rate. A cuckoo
filter has blocks of equal size, so that it may have room for a few more than ITEMS.

With --bf-layout compatible it plans a Bloom filter that is RedisBloom's. A lookup reads each of its bits from a block of
its own, and it grows by layers of half of the rate each.

With --type cuckoo --cf-layout compatible, and no --error, it plans a cuckoo filter that is RedisBloom's, as it is made: when
it grows depends on the items.

With --window or --last it plans a Bloom filter that forgets, with all of its slices; with --window also for ten times the
items in one TIME, once all of its slices began when it had so many.

With --table it prints the sizes for many capacities and rates, beside those of RedisBloom (by its formula, without its
bookkeeping) and of TairBloom (as published).
`
