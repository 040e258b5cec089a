package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/cliflags"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/crashpoint"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// maxLoadLines is the most lines of one commit of load, and the default: with every probe of every line in a block of
// its own it stays below what a commit may hold. Measured by seq 1 10000000 into a filter of the defaults, it loads
// 195,000 lines/s, commits of 4096 lines 167,000 and of 1024 lines 171,000 (two cores of a Xeon, Go 1.26, November
// 2026): the more lines, the fewer and larger the operands.
const maxLoadLines = 16384

// replaceSuffix makes of a key the one that load --replace builds its filter under. It is in the help of load.
const replaceSuffix = "#kvshell-load"

// replaceAttribute is an attribute of a filter that load --replace builds, until it is in its place: a filter that has
// it, under a key with replaceSuffix, is what a killed run left. Its value is a version.
const replaceAttribute = "load"

var replaceVersion = []byte{1}

// loadFlags are the flags of load.
type loadFlags struct {
	filterFlags
	batch   int
	skip    uint64
	replace bool
}

func (sh *shell) loadCommand() *cobra.Command {
	var f loadFlags
	cmd := &cobra.Command{
		Use:                   "load KEY FILE|- [flags]",
		Short:                 "Adds the lines of a file to a filter",
		Long:                  loadHelp,
		Args:                  exactArgs(2),
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.note(cmd.Flags())
			if err := f.check(args[0]); err != nil {
				return err
			}
			return sh.load(cmd.Context(), args[0], args[1], f)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	f.register(flags)
	cliflags.CountVar(flags, &f.batch, "batch", maxLoadLines, fmt.Sprintf("`LINES` in one commit, at most %d", maxLoadLines))
	cliflags.CountVar(flags, &f.skip, "skip", 0, "`LINES` at the beginning of FILE to pass over, as an interrupted run names them")
	flags.BoolVar(&f.replace, "replace", false, "make a new filter of FILE, and put it in the place of KEY when it is complete")
	return cmd
}

func (f *loadFlags) check(key string) error {
	switch {
	case key == "":
		return exit.Usagef("KEY must not be empty")
	case f.batch < 1 || f.batch > maxLoadLines:
		return exit.Usagef("--batch %d: must be 1 to %d lines", f.batch, maxLoadLines)
	case f.replace && f.skip > 0:
		return exit.Usagef("--skip %d with --replace: a new filter needs all of FILE, an interrupted --replace begins anew", f.skip)
	}
	return f.filterFlags.check()
}

// load opens what a run needs, runs it, and tells how it went.
func (sh *shell) load(ctx context.Context, key, file string, f loadFlags) (err error) {
	if sh.address != nil {
		return sh.loadToServer(ctx, key, file, f)
	}
	if _, err := sh.dir(); err != nil {
		return err
	}
	in, err := openInput(file, sh.stdin, f.batch)
	if err != nil {
		return exit.WithCode(exit.Local, err)
	}
	defer func() { err = joinLocal(err, in.close()) }()
	db, err := sh.openOrCreate()
	if err != nil {
		return err
	}
	defer closeStore(db, &err)
	l := newLoading(db, []byte(key), in, f)
	l.notes = sh.stderr
	if sh.sync != durability(kv.DurabilityDefault) {
		l.level = kv.Durability(sh.sync)
	}
	if term.IsTerminal(int(sh.stderr.Fd())) {
		l.progress = newProgress(sh.stderr, in.size)
	}
	err = l.run(ctx)
	l.progress.clear()
	if err != nil {
		return l.explain(err)
	}
	text, err := l.summary()
	if err != nil {
		return err
	}
	_, err = sh.stdout.WriteString(text)
	return exit.WithCode(exit.Local, err)
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

With --replace, a filter is made as the flags say, not like the one that is there, under the key KEY` + replaceSuffix + `.
When it is complete, one commit renames it to KEY: readers see the old filter or the new one. Ctrl-C and errors remove
it and leave KEY as it was. What a killed run leaves there is removed by the next with --replace. The time to live of
the old filter goes with it; the new one has none unless --ttl says so, from the moment it is in place.

On a server (-h HOST), also a Redis with RedisBloom, load works in the same way, but for these: --replace needs the
store in a directory; a filter that is there is not compared with the flags; and the lines are as durable as the server
makes its writes. If the connection is lost, load says with which --skip to go on.
`

// loading is one run of load over its input.
//
// Why nothing is lost: each commit has the lines of whole batches, commits survive a crash as a prefix, and adding a
// line again changes nothing. So whatever a crash leaves, the same command again completes it. A run that ends by
// itself has everything on stable storage before it says so: it syncs at its end, whatever the level of its commits.
//
// With replace, the lines go to a filter under a key of its own, and the last commit, under Always, renames that over
// the live one: a crash leaves the old filter or the new one, and in the first case perhaps the unfinished one, which
// the next such run removes.
type loading struct {
	db       *kv.DB
	live     []byte // the key as the user names it
	key      []byte // the key that is added to: live, or another with replace
	filter   lineFilter
	in       *input
	flags    loadFlags
	level    kv.Durability // of the commits but the last
	notes    io.Writer     // for what the user should know besides
	progress *progress

	begun    bool
	missing  bool // there is no filter yet
	synced   bool // what was counted as done is on stable storage
	unsure   bool // the store failed in the commit that puts the new filter in place
	started  time.Time
	took     time.Duration
	capacity uint64 // of the filter as it was made or found
	done     counts // of the lines behind those skipped: committed, and new ones among them
	held     *batch // taken from the input, for the next commit

	taken []*batch // of the commit under way
	added []bool   // answers for a batch
}

func newLoading(db *kv.DB, key []byte, in *input, f loadFlags) *loading {
	l := &loading{db: db, live: key, key: key, in: in, flags: f, level: kv.EverySec, notes: io.Discard}
	in.skip = f.skip
	l.filter = linesOf(db, key, f.kind)
	if f.replace {
		l.key = append(bytes.Clone(key), replaceSuffix...)
		l.filter = newLines(db, l.key, f.kind) // whatever the one it replaces is
	}
	return l
}

// run does the whole of it. When it returns without an error, all of it is on stable storage; with one, what it counted
// as done is if synced says so, or, with replace, there is nothing left of it unless the store has failed.
func (l *loading) run(ctx context.Context) error {
	if err := l.begin(); err != nil {
		return err
	}
	l.begun, l.started = true, time.Now()
	l.in.start(nil)
	err := l.commits(ctx)
	if err == nil {
		// Ctrl-C ends a whole pipeline: an input that it cut short must not pass for one that is done.
		err = ctx.Err()
	}
	if !l.flags.replace {
		if failed := l.db.Sync(); failed != nil {
			err = failed // whatever it was before: what was counted as done may not be
		} else {
			l.synced = true
		}
	} else if err == nil {
		err = l.putInPlace()
	}
	if err != nil && l.flags.replace {
		l.giveUp()
	}
	l.took = time.Since(l.started)
	return err
}

// giveUp removes the unfinished filter of a run with replace.
func (l *loading) giveUp() {
	if _, err := l.db.Delete(kv.Always, l.key); err != nil {
		fmt.Fprintf(l.notes, "note: the unfinished filter under the key %q is removed by the next --replace: %v\n",
			l.key, err)
	}
}

// begin sees that the filter that is there is what the flags ask for, or that one can be made.
func (l *loading) begin() error {
	facts, err := linesOf(l.db, l.live, l.flags.kind).Facts()
	switch {
	case errors.Is(err, kv.ErrNotFound), err == nil && l.flags.replace:
		l.capacity = max(l.flags.room, l.flags.capacity)
	case err != nil:
		return err // of another type too: it is not for load to replace it
	default:
		l.capacity = facts.capacity
		l.flags.tell(l.notes, l.key)
		return l.flags.fits(l.key, facts)
	}
	l.missing = true
	if !l.flags.replace {
		return nil
	}
	return l.removeLeftOver()
}

// removeLeftOver removes what a killed run with replace left. Anything else under its key is somebody's, and kept.
func (l *loading) removeLeftOver() error {
	o, err := l.db.Lookup(l.key)
	if err != nil || o == nil {
		return err
	}
	mark, err := l.db.Attribute(o, replaceAttribute)
	switch {
	case err != nil:
		return err
	case mark == nil:
		return exit.Refusef("the key %q, which --replace needs, holds something else than the left-over of such a run: rename it or remove it", l.key)
	}
	if _, err := l.db.Delete(l.level, l.key); err != nil {
		return err
	}
	fmt.Fprintf(l.notes, "note: what an unfinished --replace left under the key %q is removed\n", l.key)
	return nil
}

// make makes the filter if it is missing. It is not made before there is something to be said of the input: one that
// cannot be read, or is too short for the lines to be skipped, leaves none.
func (l *loading) make() error {
	if !l.missing {
		return nil
	}
	l.missing = false
	l.flags.tellLowered(l.notes)
	return l.commit(l.level, func(w *kv.Writer) error {
		life := l.flags.life()
		if l.flags.replace {
			life = 0 // it begins when the filter is put in its place
		}
		if err := l.filter.ReserveStaged(w, &l.flags.filterFlags, life); err != nil || !l.flags.replace {
			return err
		}
		o, err := w.Object(l.key)
		if err != nil {
			return err
		}
		w.SetAttribute(o, replaceAttribute, replaceVersion)
		return nil
	}, l.key)
}

// commit makes one commit of what stage stages.
func (l *loading) commit(level kv.Durability, stage func(*kv.Writer) error, keys ...[]byte) error {
	return l.db.Write(level, keys, stage)
}

// commits adds all lines.
func (l *loading) commits(ctx context.Context) error {
	for {
		ended := l.take(ctx)
		if ended != nil && !errors.Is(ended, io.EOF) {
			return ended
		}
		if err := l.make(); err != nil || ended != nil {
			return err
		}
		err := l.add()
		l.show()
		if err != nil {
			return err
		}
		for _, b := range l.taken {
			l.in.free <- b
		}
		crashpoint.Reached("loaded")
	}
}

// take waits for a batch, and takes with it those that are there already, up to a commit's size: from a pipe they come
// in small ones. The error is what ended the input, io.EOF if that is its end, or ctx.
func (l *loading) take(ctx context.Context) (err error) {
	b := l.held
	if l.held = nil; b == nil {
		if b, err = l.in.await(ctx, l.show); err != nil {
			return err
		}
	} else if err := ctx.Err(); err != nil {
		return err
	}
	switch {
	case errors.Is(b.err, io.EOF):
		return io.EOF
	case b.err != nil:
		return withInput(l.in, b.err)
	}
	l.taken = append(l.taken[:0], b)
	for lines := len(b.items); l.in.eager && len(l.taken) < pipeAhead; {
		more := l.in.ready()
		if more == nil {
			return nil
		}
		if lines += len(more.items); more.err != nil || lines > l.flags.batch {
			l.held = more
			return nil
		}
		l.taken = append(l.taken, more)
	}
	return nil
}

// add commits the batches taken. If the filter is full and cannot grow, the lines before the first that has no room
// are committed, and the error says so.
func (l *loading) add() error {
	var sum counts
	var full error
	err := l.commit(l.level, func(w *kv.Writer) error {
		for _, b := range l.taken {
			n, err := l.stage(w, b, &sum)
			switch {
			case hasNoRoom(err) && sum.lines > 0:
				full = err
				return nil
			case err != nil:
				return err
			case n < len(b.items):
				return fmt.Errorf("%d of %d lines of a batch were added", n, len(b.items))
			}
		}
		return nil
	}, l.key)
	if err != nil {
		return err
	}
	l.done.lines += sum.lines
	l.done.newLines += sum.newLines
	return full
}

// stage stages the adding of a batch and counts the lines that had room.
func (l *loading) stage(w *kv.Writer, b *batch, sum *counts) (int, error) {
	l.added = append(l.added[:0], make([]bool, len(b.items))...)
	n, err := l.filter.AddStaged(w, b.items, l.added)
	sum.lines += uint64(n)
	for _, isNew := range l.added[:n] {
		if isNew {
			sum.newLines++
		}
	}
	return n, err
}

// putInPlace renames the complete filter over the live one. Readers see the old one or the new.
func (l *loading) putInPlace() error {
	crashpoint.Reached("complete")
	err := l.commit(kv.Always, func(w *kv.Writer) error {
		o, err := w.Object(l.key)
		if err != nil {
			return err
		}
		if o == nil {
			return fmt.Errorf("%w: %q", kv.ErrNotFound, l.key)
		}
		w.SetAttribute(o, replaceAttribute, nil)
		if err := w.Rename(l.key, l.live); err != nil || l.flags.ttl == 0 {
			return err
		}
		_, err = w.Expire(l.live, l.db.Now()+int64(l.flags.ttl)*1000, kv.ExpireAlways)
		return err
	}, l.key, l.live)
	l.unsure = errors.Is(err, kv.ErrFailed)
	crashpoint.Reached("replaced")
	return err
}

func (l *loading) show() {
	if l.done.lines == 0 && l.flags.skip > 0 {
		l.progress.show(l.in.bytesRead.Load(), "skipping %d lines", l.flags.skip)
		return
	}
	rate := perSecond(l.done.lines, time.Since(l.started))
	l.progress.show(l.in.bytesRead.Load(), "%d lines, %.0f/s", l.done.lines, rate)
}

// explain adds to the error that ended a run how far it got and how to go on.
func (l *loading) explain(err error) error {
	var own *exit.Error
	if err == nil || !l.begun || errors.As(err, &own) && own.Code == exit.Refused {
		return err
	}
	switch {
	case errors.Is(err, scalableext.ErrFull):
		return exit.Refusef("the filter is full: it has room for %d lines and does not grow; %s: load FILE into one made without --non-scaling or with a larger --capacity",
			l.capacity, l.kept())
	case errors.Is(err, scalableext.ErrCannotGrow):
		return exit.Refusef("the filter has grown as far as it can; %s: load FILE into one made with a larger --capacity or a higher --error: %w",
			l.kept(), err)
	case errors.Is(err, kv.ErrNotFound):
		return exit.Refusef("the filter %q is gone after line %d: it expired, or was deleted; the same command, without --skip, makes a new one",
			l.key, l.flags.skip+l.done.lines)
	case errors.Is(err, context.Canceled):
		return exit.WithCode(exit.Interrupted, fmt.Errorf("interrupted; %s%s", l.kept(), l.goOn()))
	}
	return exit.WithCode(exit.Code(err), fmt.Errorf("%w; %s%s", err, l.kept(), l.goOn()))
}

// kept tells what a run that ended before its time leaves.
func (l *loading) kept() string {
	line := l.flags.skip + l.done.lines
	switch {
	case l.unsure:
		return fmt.Sprintf("the filter %q is whole, the old one or the new: which shows when the store is opened again",
			l.live)
	case l.flags.replace:
		return fmt.Sprintf("the new filter is given up after line %d, and %q is as it was", line, l.live)
	case !l.synced:
		return "of what was added last some may be lost"
	case l.missing:
		return "nothing was added"
	}
	return fmt.Sprintf("%q has the lines up to line %d, %d of them new", l.live, line, l.done.newLines)
}

// goOn tells how to go on after that.
func (l *loading) goOn() string {
	switch {
	case l.flags.replace:
		return ""
	case !l.synced:
		return "; the same command again adds what is missing"
	}
	return fmt.Sprintf("; to go on, add --skip %d to the same command", l.flags.skip+l.done.lines)
}

// summary tells what a finished run did.
func (l *loading) summary() (string, error) {
	facts, err := linesOf(l.db, l.live, l.flags.kind).Facts()
	if err != nil {
		return "", err
	}
	disk, err := l.db.DiskBytes()
	if err != nil {
		return "", err
	}
	read := fmt.Sprint(l.done.lines)
	if l.flags.skip > 0 {
		read += fmt.Sprintf(" (after %d skipped)", l.flags.skip)
	}
	return fmt.Sprintf(`lines read           %s
added                %d
known before         %d
rate                 %.0f lines/s
%s`,
		read, l.done.newLines, l.done.lines-l.done.newLines, perSecond(l.done.lines, l.took), filterSummary(facts, disk)), nil
}
