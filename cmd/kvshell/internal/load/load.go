// Package load adds the lines of an input to a filter: in a store, or on a server.
package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/cliflags"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/crashpoint"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/filters"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/input"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/progress"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// maxLoadLines is the most lines of one commit of load, and the default. With more lines in a commit, operands are
// fewer and larger.
const maxLoadLines = 1 << 18

// MaxSentLines is the most lines of one command that load sends to a server: many more would not fit into the server's
// commit, or be served one command at a time.
const MaxSentLines = 16384

// ReplaceSuffix is what load --replace adds to KEY for the key under which it builds the new filter. The help of load
// has it.
const ReplaceSuffix = "#kvshell-load"

// replaceAttribute is an attribute of the filter that load --replace builds, until the filter is renamed to KEY. A
// filter that has it, under a key with ReplaceSuffix, was left by a killed run. Its value is a version.
const replaceAttribute = "load"

var replaceVersion = []byte{1}

// Flags are the flags of load.
type Flags struct {
	filters.Flags
	Batch   int
	skip    uint64
	Replace bool
	Stop    bool // at damage
}

// Register adds the flags to a command.
func (f *Flags) Register(flags *pflag.FlagSet) {
	f.Flags.Register(flags)
	cliflags.CountVar(flags, &f.Batch, "batch", maxLoadLines, fmt.Sprintf("`LINES` in one commit, at most %d; in one command to a server at most %d", maxLoadLines, MaxSentLines))
	cliflags.CountVar(flags, &f.skip, "skip", 0, "`LINES` at the beginning of FILE to pass over, as an interrupted run names them")
	flags.BoolVar(&f.Replace, "replace", false, "make a new filter of FILE, and put it in the place of KEY when it is complete")
	input.StopAtDamageVar(flags, &f.Stop)
}

// Check returns a usage error for flags that make no run. It needs no store.
func (f *Flags) Check(key string) error {
	switch {
	case key == "":
		return exit.Usagef("KEY must not be empty")
	case f.Batch < 1 || f.Batch > maxLoadLines:
		return exit.Usagef("--batch %d: must be 1 to %d lines", f.Batch, maxLoadLines)
	case f.Replace && f.skip > 0:
		return exit.Usagef("--skip %d with --replace: a new filter needs all of FILE, an interrupted --replace begins anew", f.skip)
	}
	return f.Flags.Check()
}

// Loading is one run of load over its input.
//
// Why nothing is lost: each commit has the next lines of the input, commits survive a crash as a prefix, and adding a
// line again changes nothing. So the same command completes whatever a crash has left. At its end a run syncs the
// store, whatever the level of its commits: when it reports success, everything is on stable storage.
//
// With replace, the lines go to a new filter under another key. The last commit, at the level Always, renames that
// filter to the live key. A crash leaves the old filter or the new one. If it leaves the old one, it may also leave
// the unfinished one, which the next run with replace removes.
type Loading struct {
	db       *kv.DB
	live     []byte // the key as the user names it
	key      []byte // the key that is added to: live, or another with replace
	filter   filters.Filter
	in       *input.Input
	flags    Flags
	Level    kv.Durability // of the commits but the last
	Notes    io.Writer     // for notes to the user
	Progress *progress.Bar

	begun    bool
	missing  bool // the filter is not made yet
	synced   bool // the lines counted in done are on stable storage
	unsure   bool // the store has failed during the commit that renames the new filter
	started  time.Time
	took     time.Duration
	capacity uint64          // of the filter as it was made or found
	done     progress.Counts // the lines committed, without those skipped

	added []bool // answers for a batch
}

// New returns a run that adds the lines of an input to the filter under a key.
func New(db *kv.DB, key []byte, in *input.Input, f Flags) *Loading {
	l := &Loading{db: db, live: key, key: key, in: in, flags: f, Level: kv.EverySec, Notes: io.Discard}
	in.Skip = f.skip
	l.filter = filters.Of(db, key, f.Kind)
	if f.Replace {
		l.key = append(bytes.Clone(key), ReplaceSuffix...)
		l.filter = filters.New(db, l.key, f.Kind) // of the type of the flags, not of the old filter
	}
	return l
}

// Do runs load and returns what it did, as text. Its error says how to go on.
func (l *Loading) Do(ctx context.Context) (string, error) {
	err := l.run(ctx)
	l.Progress.Clear()
	if err != nil {
		return "", l.explain(err)
	}
	fmt.Fprint(l.Notes, l.in.DamageNote(l.flags.skip+l.done.Lines))
	return l.summary()
}

// run does the whole run. If it returns no error, everything is on stable storage. After an error, synced says
// whether the lines in done are on stable storage; with replace the new filter is gone, unless the store has failed.
func (l *Loading) run(ctx context.Context) error {
	if err := l.begin(); err != nil {
		return err
	}
	l.begun, l.started = true, time.Now()
	l.in.Start(nil)
	err := l.commits(ctx)
	if err == nil {
		// Ctrl-C ends all programs of a pipeline: the end of the input may be where the program before was interrupted.
		err = ctx.Err()
	}
	if !l.flags.Replace {
		if failed := l.db.Sync(); failed != nil {
			err = failed // more important than another error: lines in done may be lost
		} else {
			l.synced = true
		}
	} else if err == nil {
		err = l.putInPlace()
	}
	if err != nil && l.flags.Replace {
		l.giveUp()
	}
	l.took = time.Since(l.started)
	return err
}

// giveUp removes the unfinished filter of a run with replace. After an error it leaves that to the next such run.
func (l *Loading) giveUp() {
	if _, err := l.db.Delete(kv.Always, l.key); err != nil {
		fmt.Fprintf(l.Notes, "note: the unfinished filter under the key %q is removed by the next --replace: %v\n",
			l.key, err)
	}
}

// begin compares a filter that exists with the flags. If there is none, it makes sure that make makes one.
func (l *Loading) begin() error {
	facts, err := filters.Of(l.db, l.live, l.flags.Kind).Facts()
	switch {
	case errors.Is(err, kv.ErrNotFound), err == nil && l.flags.Replace:
		l.capacity = max(l.flags.Room, l.flags.Capacity)
	case err != nil:
		return err // also if the key holds another type, which load never replaces
	default:
		l.capacity = facts.Capacity
		l.flags.Tell(l.Notes, l.key, facts)
		return l.flags.Fits(l.key, facts)
	}
	l.missing = true
	if !l.flags.Replace {
		return nil
	}
	return l.removeLeftOver()
}

// removeLeftOver removes the filter that a killed run with replace left. It refuses to remove anything else under
// that key.
func (l *Loading) removeLeftOver() error {
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
	if _, err := l.db.Delete(l.Level, l.key); err != nil {
		return err
	}
	fmt.Fprintf(l.Notes, "note: what an unfinished --replace left under the key %q is removed\n", l.key)
	return nil
}

// make makes the filter if it is missing. It is called when the first lines were read: an input that cannot be read,
// or is too short for --skip, makes no filter.
func (l *Loading) make() error {
	if !l.missing {
		return nil
	}
	l.missing = false
	l.flags.TellLowered(l.Notes)
	return l.commit(l.Level, func(w *kv.Writer) error {
		life := l.flags.Life()
		if l.flags.Replace {
			life = 0 // it begins when the filter is renamed
		}
		if err := l.filter.ReserveStaged(w, &l.flags.Flags, life); err != nil || !l.flags.Replace {
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
func (l *Loading) commit(level kv.Durability, stage func(*kv.Writer) error, keys ...[]byte) error {
	return l.db.Write(level, keys, stage)
}

// commits adds all lines.
func (l *Loading) commits(ctx context.Context) error {
	for {
		taken, ended := l.in.Take(ctx, l.show)
		if ended != nil && !errors.Is(ended, io.EOF) {
			return ended
		}
		if err := l.make(); err != nil || ended != nil {
			return err
		}
		err := l.add(ctx, taken)
		if err != nil {
			return err
		}
		l.in.GiveBack(taken...)
		crashpoint.Reached("loaded")
	}
}

// add commits batches, each commit with as many lines as fit. If a line has no room in the filter, the lines before it
// are committed, and the error says so.
func (l *Loading) add(ctx context.Context, taken []*input.Batch) (err error) {
	for len(taken) > 0 && err == nil {
		if len(taken[0].Items) == 0 {
			taken = taken[1:]
			continue
		}
		if err = ctx.Err(); err == nil {
			err = l.addSome(taken)
			l.show()
		}
	}
	return err
}

// addSome makes one commit of the first lines of batches, and leaves them out of the batches.
func (l *Loading) addSome(taken []*input.Batch) error {
	var sum progress.Counts
	var full error
	var staged []int // lines of each batch
	err := l.commit(l.Level, func(w *kv.Writer) error {
		for _, b := range taken {
			n, err := l.stage(w, b, &sum)
			staged = append(staged, n)
			switch {
			case filters.HasNoRoom(err) && sum.Lines > 0:
				full = err
				return nil
			case err != nil:
				return err
			case n < len(b.Items):
				return nil
			}
		}
		return nil
	}, l.key)
	if err != nil {
		return err
	}
	for i, n := range staged {
		taken[i].Pass(n)
	}
	l.done.Lines += sum.Lines
	l.done.New += sum.New
	if f, ok := l.filter.(interface{ Added(n int) }); ok { // a Bloom filter, which may have a log to grow from
		f.Added(int(sum.New))
	}
	return full
}

// stage stages the adding of the lines of a batch that fit into the commit, at least one if sum has none yet. It adds
// those that had room to sum, and returns their number.
func (l *Loading) stage(w *kv.Writer, b *input.Batch, sum *progress.Counts) (int, error) {
	least := 0
	if sum.Lines == 0 {
		least = 1
	}
	l.added = append(l.added[:0], make([]bool, len(b.Items))...)
	n, err := l.filter.AddFitting(w, b.Items, l.added, least)
	sum.Lines += uint64(n)
	for _, isNew := range l.added[:n] {
		if isNew {
			sum.New++
		}
	}
	return n, err
}

// putInPlace renames the complete filter to the live key. Readers see the old filter or the new one.
func (l *Loading) putInPlace() error {
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
		if err := w.Rename(l.key, l.live); err != nil || l.flags.TTL == 0 {
			return err
		}
		_, err = w.Expire(l.live, l.db.Now()+int64(l.flags.TTL)*1000, kv.ExpireAlways)
		return err
	}, l.key, l.live)
	l.unsure = errors.Is(err, kv.ErrFailed)
	crashpoint.Reached("replaced")
	return err
}

func (l *Loading) show() {
	if l.done.Lines == 0 && l.flags.skip > 0 {
		l.Progress.Show(l.in.BytesRead(), "skipping %d lines", l.flags.skip)
		return
	}
	rate := progress.PerSecond(l.done.Lines, time.Since(l.started))
	l.Progress.Show(l.in.BytesRead(), "%d lines, %.0f/s", l.done.Lines, rate)
}

// explain adds to the error that ended a run how far the run came, and how to go on.
func (l *Loading) explain(err error) error {
	var own *exit.Error
	unreadable := errors.Is(err, input.ErrUnreadable)
	if err == nil || !l.begun || errors.As(err, &own) && own.Code == exit.Refused && !unreadable {
		return err
	}
	switch {
	case unreadable:
		return exit.WithCode(exit.Code(err), fmt.Errorf("%w; %s; %s", err, l.kept(), input.WayOut))
	case errors.Is(err, scalableext.ErrFull):
		return exit.Refusef("the filter is full: it has room for %d lines and does not grow; %s: load FILE into one made without --non-scaling or with a larger --capacity",
			l.capacity, l.kept())
	case errors.Is(err, scalableext.ErrCannotGrow):
		return exit.Refusef("the filter has grown as far as it can; %s: load FILE into one made with a larger --capacity or a higher --error: %w",
			l.kept(), err)
	case errors.Is(err, kv.ErrNotFound):
		return exit.Refusef("the filter %q is gone after line %d: it expired, or was deleted; the same command, without --skip, makes a new one",
			l.key, l.flags.skip+l.done.Lines)
	case errors.Is(err, context.Canceled):
		return exit.WithCode(exit.Interrupted, fmt.Errorf("interrupted; %s%s", l.kept(), l.goOn()))
	}
	return exit.WithCode(exit.Code(err), fmt.Errorf("%w; %s%s", err, l.kept(), l.goOn()))
}

// kept tells what an unfinished run leaves.
func (l *Loading) kept() string {
	line := l.flags.skip + l.done.Lines
	switch {
	case l.unsure:
		return fmt.Sprintf("%q is the old filter or the new one, and complete: open the store again to see which",
			l.live)
	case l.flags.Replace:
		return fmt.Sprintf("the new filter is given up after line %d, and %q is as it was", line, l.live)
	case !l.synced:
		return "some of the lines added last may be lost"
	case l.missing:
		return "nothing was added"
	}
	return fmt.Sprintf("%q has the lines up to line %d, %d of them new", l.live, line, l.done.New)
}

// goOn tells how to go on after an unfinished run.
func (l *Loading) goOn() string {
	switch {
	case l.flags.Replace:
		return ""
	case !l.synced:
		return "; the same command again adds what is missing"
	}
	return fmt.Sprintf("; to go on, add --skip %d to the same command", l.flags.skip+l.done.Lines)
}

// summary tells what a finished run did.
func (l *Loading) summary() (string, error) {
	facts, err := filters.Of(l.db, l.live, l.flags.Kind).Facts()
	if err != nil {
		return "", err
	}
	disk, err := l.db.DiskBytes()
	if err != nil {
		return "", err
	}
	read := fmt.Sprint(l.done.Lines)
	if l.flags.skip > 0 {
		read += fmt.Sprintf(" (after %d skipped)", l.flags.skip)
	}
	return fmt.Sprintf(`lines read           %s
added                %d
known before         %d
rate                 %.0f lines/s
%s`,
		read, l.done.New, l.done.Lines-l.done.New, progress.PerSecond(l.done.Lines, l.took), filters.Summary(facts, disk)), nil
}
