package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/dedup"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/input"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/load"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/progress"
	"github.com/sievekv/sievekv/kv"
)

func (sh *shell) loadCommand() *cobra.Command {
	var f load.Flags
	cmd := &cobra.Command{
		Use:                   "load KEY FILE|- [flags]",
		Short:                 "Adds the lines of a file to a filter",
		Long:                  loadHelp,
		Args:                  exactArgs(2),
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.Note(cmd.Flags())
			f.MaxBytes, f.Layouts = sh.maxBytes(), sh.layouts()
			if err := f.Check(args[0]); err != nil {
				return err
			}
			return sh.load(cmd.Context(), args[0], args[1], f)
		},
	}
	cmd.Flags().SortFlags = false
	f.Register(cmd.Flags())
	return cmd
}

const loadHelp = `load adds the lines of FILE (of standard input for -) to the filter KEY. If the filter is missing, load makes it
with the defaults of dedup: an error rate of 0.000001, and room for 1,000,000 lines before it grows. A filter that exists
keeps what it was made with, and load refuses an --error, --capacity, --non-scaling or --window that differs. A filter that is made
for as many lines as it gets is smaller, and is filled faster, than one that has to grow. A filter with an unfinished
run of dedup -o is refused: that run would take the lines of load for lines that it has written.

FILE is read as by dedup: plain, or compressed by gzip or zstd, and in UTF-8 or any bytes, or in UTF-16 with a byte order
mark; lines of up to 512 MiB that end in LF or CRLF, or with the file. An empty line is a line. What is no text is refused.
If FILE is damaged or cut off, load ends with an error there; --stop-at-damage takes the lines before that place for all of it.

When load ends without an error, all lines are on stable storage, even if --sync is lower for single commits (the default
here is everysec). A crash before the end leaves the lines of some whole commits, from the beginning of FILE on. Run the same
command again to add the rest: adding a line twice does no harm.

Ctrl-C keeps what was committed, syncs it, and says with which --skip to go on. --skip passes over so many lines at the
beginning of FILE, which must have them.

With --type cuckoo or counting, a filter that is made is a cuckoo filter or a counting Bloom filter, from which items
can be deleted again (CF.DEL, CBF.DEL). A line that comes several times is added to it once.

With --bf-layout compatible, a Bloom filter that is made is RedisBloom's; --hash and --window do not go with it.

With --window 7d, a filter that is made forgets lines that were not loaded for 7 days, up to 21 hours later, by the clock of the
store's machine. --slices 24 makes that 7 hours.

With --replace, load makes a new filter as the flags say, whatever the old one was made with, under the key
KEY` + load.ReplaceSuffix + `. When it is complete, one commit renames it to KEY: readers see the old filter or the new one.
Ctrl-C and errors remove the new filter and leave KEY as it was. If a run is killed, the next run with --replace removes
what it left. The new filter does not take over the old one's time to live: --ttl gives it one, from the rename on.

On a server (-h HOST), also a Redis with RedisBloom, load works in the same way, with three differences: --replace is
refused, as it needs the store in a directory; a filter that exists is not compared with the flags; and the lines are as
durable as the server makes its writes. If the connection is lost, load says with which --skip to go on.
`

// load opens the input, and adds its lines to a filter in the store or on the server.
func (sh *shell) load(ctx context.Context, key, file string, f load.Flags) (err error) {
	run := sh.loadToServer
	if sh.address == nil {
		run = sh.loadToStore
		if _, err := sh.dir(); err != nil {
			return err
		}
	} else if f.Replace {
		return exit.Usagef("load --replace needs the store in a directory: over a connection (%s) it could not tell what a killed run left "+
			"from other keys; give -d DIR", sh.server.Given())
	}
	if err := sh.refuseInput("load", file); err != nil {
		return err
	}
	most := f.Batch
	if sh.address != nil {
		most = min(most, load.MaxSentLines)
	}
	in, err := input.Open(ctx, file, sh.stdin, most)
	if err != nil {
		return err
	}
	defer func() { err = exit.JoinLocal(err, in.Close()) }()
	in.StopAtDamage = f.Stop
	if err := in.Look(ctx); err != nil {
		return err
	}
	fmt.Fprint(sh.stderr, in.Note())
	var bar *progress.Bar
	if sh.stderr.IsTerminal() {
		bar = progress.New(sh.stderr.File(), in.Size)
	}
	return run(ctx, key, in, f, bar)
}

func (sh *shell) loadToStore(ctx context.Context, key string, in *input.Input, f load.Flags, bar *progress.Bar) (err error) {
	defer collectMore()()
	db, err := sh.openOrCreate()
	if err != nil {
		return err
	}
	defer sh.closeStore(db, &err)
	sh.compareMemory(db.Options(), 0)
	if err := dedup.CheckFinished(db, []byte(key)); err != nil {
		return err
	}
	l := load.New(db, []byte(key), in, f)
	l.Notes, l.Progress = sh.stderr, bar
	if sh.sync != durability(kv.DurabilityDefault) {
		l.Level = kv.Durability(sh.sync)
	}
	text, err := l.Do(ctx)
	if err != nil {
		return err
	}
	return sh.write(text)
}

func (sh *shell) loadToServer(ctx context.Context, key string, in *input.Input, f load.Flags, bar *progress.Bar) (err error) {
	c := sh.client()
	defer c.Close(&err)
	l := load.NewOnServer(c, key, in, f)
	l.Notes, l.Progress = sh.stderr, bar
	text, err := l.Do(ctx)
	if err != nil {
		return err
	}
	return sh.write(text)
}
