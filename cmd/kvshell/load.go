package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/input"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/load"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/progress"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
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

const loadHelp = `load adds the lines of FILE, or of standard input for -, to the filter KEY, which is made if it is missing: with
the same defaults as by dedup, an error rate of 0.000001 and room for 1,000,000 lines before it grows. A filter that is
there keeps its own; load refuses --error, --capacity or --non-scaling that differ from them. One that is made for as
many lines as it gets is smaller, and filled faster, than one that has to grow.

FILE is read as by dedup: plain or gzipped, with one member or several; lines of any length that end in LF or CRLF, or
with the file. An empty line is a line.

When load has ended without an error, everything is on stable storage, whatever the level of single commits (--sync;
everysec unless given). A crash before that leaves the lines of whole commits, from the beginning on; the same
command again adds the rest, and passes over what is there: adding a line twice does no harm.

Ctrl-C keeps what was committed, syncs it, and says with which --skip to go on. --skip passes over lines without adding
them; the file must have so many.

With --type cuckoo or counting, a filter that is made is a cuckoo filter or a counting Bloom filter, from which items
can be deleted again (CF.DEL, CBF.DEL). Each different line is added to it once, however often it comes.

With --replace, a filter is made as the flags say, not like the one that is there, under the key KEY` + load.ReplaceSuffix + `.
When it is complete, one commit renames it to KEY: readers see the old filter or the new one. Ctrl-C and errors remove
it and leave KEY as it was. What a killed run leaves there is removed by the next with --replace. The time to live of
the old filter goes with it; the new one has none unless --ttl says so, from the moment it is in place.

On a server (-h HOST), also a Redis with RedisBloom, load works in the same way, but for these: --replace needs the
store in a directory; a filter that is there is not compared with the flags; and the lines are as durable as the server
makes its writes. If the connection is lost, load says with which --skip to go on.
`

// load opens the input and has it loaded.
func (sh *shell) load(ctx context.Context, key, file string, f load.Flags) (err error) {
	load := sh.loadToServer
	if sh.address == nil {
		load = sh.loadToStore
		if _, err := sh.dir(); err != nil {
			return err
		}
	} else if f.Replace {
		return exit.Usagef("load --replace needs the store in a directory: over a connection (%s) it could not tell what a killed run left "+
			"from other keys; give -d DIR", sh.server.Given())
	}
	in, err := input.Open(file, sh.stdin, f.Batch)
	if err != nil {
		return exit.WithCode(exit.Local, err)
	}
	defer func() { err = exit.JoinLocal(err, in.Close()) }()
	var bar *progress.Bar
	if tty.IsTerminal(sh.stderr) {
		bar = progress.New(sh.stderr, in.Size)
	}
	return load(ctx, key, in, f, bar)
}

func (sh *shell) loadToStore(ctx context.Context, key string, in *input.Input, f load.Flags, bar *progress.Bar) (err error) {
	db, err := sh.openOrCreate()
	if err != nil {
		return err
	}
	defer sh.closeStore(db, &err)
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
