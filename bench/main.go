package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// topic is a part of the comparison: a table, and perhaps a plot.
type topic struct {
	name  string
	about string // what the page says above the table
	run   func(b *bench) error
}

// topics are in the order of the page. The first have figures that sievekv must reach.
var topics = []topic{
	{"dedup", dedupAbout, dedup},
	{"load", loadAbout, load},
	{"addmany", addManyAbout, addMany},
	{"lookups", lookupsAbout, lookups},
	{"adds", addsAbout, adds},
	{"cold", coldAbout, cold},
	{"random", randomAbout, random},
	{"server", serverAbout, servers},
	{"groups", groupsAbout, groups},
	{"failovers", failoversAbout, failovers},
	{"layouts", layoutsAbout, layouts},
	{"bitmaps", bitmapsAbout, bitmaps},
	{"levels", levelsAbout, levels},
	{"bytes", bytesAbout, logBytes},
	{"small", smallAbout, small},
	{"open", openAbout, opening},
	{"guard", guardAbout, guards},
	{"dashboard", dashboardAbout, dashboards},
	{"views", viewsAbout, views},
	{"transactions", transactionsAbout, transactions},
	{"growth", growthAbout, growth},
	{"rates", ratesAbout, rates},
	{"libraries", librariesAbout, libraries},
	{"sizes", sizesAbout, sizes},
}

func main() {
	var b bench
	quick := flag.Bool("quick", false, "less than three minutes: fewer items and repetitions")
	full := flag.Bool("full", false, "everything, with filters of 100 million items and more repetitions")
	only := flag.String("topic", "", "only these topics, with commas between them")
	write := flag.Bool("write", false, "write docs/BENCHMARKS.md and its plots, too")
	flag.IntVar(&b.missed, "missed", 100, "MB that are written while a member of a group is away, for the topic failovers")
	flag.StringVar(&b.root, "dir", os.TempDir(), "where stores and files are made, in a directory that is removed at the end")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go -C bench run . [flags]\n\nFlags:")
		flag.PrintDefaults()
		fmt.Fprintln(flag.CommandLine.Output(), "\nTopics:", strings.Join(topicNames(), " "))
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b.ctx = ctx
	chosen, err := choose(*only)
	switch {
	case err != nil:
	case flag.NArg() > 0:
		err = fmt.Errorf("%q is no flag; see --help", flag.Args())
	case *quick && *full:
		err = errors.New("--quick and --full exclude each other")
	case *write && *only != "":
		err = errors.New("--write and --topic exclude each other: the page has all topics")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	switch {
	case *quick:
		b.mode = quickMode
	case *full:
		b.mode = fullMode
	}
	if err := b.runAll(chosen, *write); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func topicNames() (names []string) {
	for _, t := range topics {
		names = append(names, t.name)
	}
	return names
}

// choose returns the topics with these names, or all.
func choose(names string) (chosen []topic, err error) {
	if names == "" {
		return topics, nil
	}
	for name := range strings.SplitSeq(names, ",") {
		i := slices.Index(topicNames(), name)
		if i < 0 {
			return nil, fmt.Errorf("no topic %q: there are %s", name, strings.Join(topicNames(), ", "))
		}
		chosen = append(chosen, topics[i])
	}
	return chosen, nil
}
