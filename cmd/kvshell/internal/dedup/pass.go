// Package dedup prints the lines of an input that were not seen before, or appends them to a file, OUT, each exactly
// once.
//
// A run is a Pass over the input; pass.go explains why each line is in OUT exactly once. Its commits store a record
// in the filter (record.go) and a claim on OUT (claim.go). The file out.go writes OUT.
package dedup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/cmdline"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/crashpoint"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/filters"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/input"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/progress"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
	"github.com/sievekv/sievekv/kv"
)

// Why each new line is in OUT exactly once, whatever the crash.
//
// What is written. The first commit of a run makes the filter, if it is missing. It sets the record, which says how
// long OUT is and that nothing was read yet, and the claim on OUT. It is on stable storage before anything is written
// to OUT. Then the input is taken in batches. Here a batch is the lines of one commit: those that were read ahead
// together, or a part of them if not all fit into a commit. Each batch takes three steps:
//
//  1. OUT is synced. Meanwhile it is found out which lines of the batch are new.
//  2. One commit adds the lines of the batch to the filter, and sets the record: where the batch is in the input, which of its
//     lines were new, how long OUT was before the batch, and a hash of the end of OUT.
//  3. The new lines are written to OUT.
//
// At the end OUT is synced, and the last commit removes the record and the claim. The end is the input's end or, if the
// user says so, the place where the input can no longer be read.
//
// What a crash leaves. Commits survive as a prefix, each whole or not at all. So the filter and the record always
// belong to one batch, say b, and the filter has the lines up to the end of b. OUT has all new lines from before b, at
// least as many bytes as the record says: they were synced before the commit of b was made. After these bytes OUT has
// any part of what was written later, or other bytes.
//
// What the next run does. It reads the input up to the end of b, and compares the hash of what it reads with the
// record: equal bytes are equal lines. It goes back to the recorded length of OUT, and writes the new lines of b.
// Which lines are new it takes from the record, as the filter has all of them by now. Then it goes on after b. It
// overwrites what OUT has after the recorded length. If it finds there other bytes than those it writes, somebody may
// have appended to OUT: it moves the rest to another file. Zeros do not count, as a power failure may leave them. If
// this run crashes too, nothing changes: until its first commit the record is the same.
//
// What else may happen between two runs. If OUT is replaced, its length or the hash of its end is not the recorded
// one, and the run is refused. If the filter is deleted or expires, the record is gone with it, but the claim on OUT
// is there, and every run to OUT is refused. A filter that is renamed keeps its record. If a run with --restart takes
// OUT over, the claim has the number of that run, and the old run is refused.
//
// This holds at every level of durability, after a kill and after a power failure: with a lower level fewer commits
// survive, and more work is done again. It is assumed that synced bytes survive, and that nobody else writes to OUT
// during a run.
//
// What was printed to standard output cannot be taken back. So there the new lines are printed first, and then the
// batch is committed. After a crash in between the next run prints them again.

// Pass is one run of dedup over its input.
type Pass struct {
	db       *kv.DB
	filter   filters.Filter
	key      []byte
	in       *input.Input
	out      *outFile  // nil: the lines go to stdout
	stdout   io.Writer // for the lines, if there is no OUT
	notes    io.Writer // for notes to the user
	flags    Flags
	Progress *progress.Bar
	reopen   func() error // opens OUT

	begun    bool
	from     *record // of the unfinished run that this run goes on with; nil for a new run
	number   uint64  // of this run, and of the unfinished runs that it goes on with
	started  int64   // length of OUT before the first of these runs, -1 if unknown
	claimed  bool    // the claim on OUT was committed
	capacity uint64  // of the filter

	// These are as of the last commit. While a commit is made, the digest is ahead of it. Without OUT there is no
	// digest.
	digest   *xxhash.Digest // of the input
	position uint64         // in the input, in bytes after decompression
	done     progress.Counts
	resumed  progress.Counts // the part of done that earlier runs did

	unconfirmed int // lines that were printed to stdout and are not committed yet

	answers []bool // of the batch: whether each line is new
	lines   []byte // the new lines of the batch, in the form in which they are written
}

// Open opens the input and OUT of a run. It needs no store.
func Open(ctx context.Context, key, file string, stdin, stdout *os.File, stderr *tty.Messages, f Flags) (*Pass, error) {
	in, err := input.Open(ctx, file, stdin, f.batch)
	if err != nil {
		return nil, err
	}
	in.StopAtDamage = f.stop
	p := &Pass{key: []byte(key), in: in, stdout: stdout, notes: stderr, flags: f}
	if f.out == "" {
		return p, nil
	}
	p.reopen = func() error { return p.openOut(file, stdout, stderr.File()) }
	if err := p.reopen(); err != nil {
		return nil, exit.JoinLocal(err, p.Close())
	}
	return p, nil
}

// takeOut makes OUT this run's alone, as it is now. Since it was opened the run may have waited for the store, and another
// run may have written to OUT, or somebody may have put another file in its place.
func (p *Pass) takeOut() error {
	if p.out == nil {
		return nil
	}
	if err := p.out.close(); err != nil {
		return exit.WithCode(exit.Local, err)
	}
	p.out = nil
	if err := p.reopen(); err != nil {
		return err
	}
	return exit.WithCode(exit.Local, p.out.take())
}

// openOut opens OUT. It must not be the input, nor where the summary or notes go: these would be written over the lines.
func (p *Pass) openOut(file string, stdout, stderr *os.File) (err error) {
	if p.out, err = openOutFile(p.flags.out); err != nil {
		return exit.WithCode(exit.Local, err)
	}
	if is, err := p.out.notText(); err != nil {
		return exit.WithCode(exit.Local, err)
	} else if is != "" {
		return exit.Refusef("%s is %s: lines cannot be appended to it", p.flags.out, is)
	}
	for _, other := range []struct {
		file   *os.File
		reason string
	}{
		{p.in.File, file + " is both the input and OUT"},
		{stdout, p.flags.out + " is standard output: give -o - to print the new lines"},
		{stderr, p.flags.out + " is standard error, which gets notes: give -o - to print the new lines to standard output"},
	} {
		same, err := p.out.isFile(other.file)
		if err != nil {
			return exit.WithCode(exit.Local, err)
		}
		if same {
			return exit.Usagef("%s", other.reason)
		}
	}
	return nil
}

// Close closes OUT and the input.
func (p *Pass) Close() (err error) {
	if p.out != nil {
		err = p.out.close()
	}
	return errors.Join(err, p.in.Close())
}

// Look is input.Look, and tells how the input is read. It is for before the store is opened.
func (p *Pass) Look(ctx context.Context) error {
	err := p.in.Look(ctx)
	if err == nil {
		fmt.Fprint(p.notes, p.in.Note())
	}
	return err
}

// ToFile reports whether the lines go to a file.
func (p *Pass) ToFile() bool { return p.out != nil }

// InputSize returns the size of the input in bytes, -1 if it is not known.
func (p *Pass) InputSize() int64 { return p.in.Size }

// Run runs dedup on a store and tells how it went.
func (p *Pass) Run(ctx context.Context, db *kv.DB) error {
	p.db, p.filter = db, filters.Of(db, p.key, p.flags.Kind)
	started := time.Now()
	err := p.takeOut()
	if err == nil {
		err = p.run(ctx)
	}
	p.Progress.Clear()
	if err != nil {
		return p.explain(err)
	}
	fmt.Fprint(p.notes, p.in.DamageNote(p.done.Lines))
	return p.summary(time.Since(started))
}

// run does the whole run. When it returns, also with an error, what was written to OUT is on stable storage.
func (p *Pass) run(ctx context.Context) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	p.begun = true
	p.in.Start(p.from.part())
	err := p.batches(ctx)
	if p.out != nil {
		if err == nil || filters.HasNoRoom(err) {
			err = errors.Join(err, exit.WithCode(exit.Local, p.out.cutOff(p.out.length)))
		}
		p.tellCut()
		err = errors.Join(err, exit.WithCode(exit.Local, p.out.sync()))
	}
	if err == nil {
		// Ctrl-C ends all programs of a pipeline: the end of the input may be where the program before was interrupted.
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	return p.finish()
}

func (p *Pass) batches(ctx context.Context) error {
	for {
		b, err := p.in.Next(ctx)
		switch {
		case err != nil:
			return err
		case errors.Is(b.Err, io.EOF):
			return nil
		case b.Err != nil:
			return b.Err
		case b.Digest != nil:
			err = p.repeat(b)
		default:
			err = p.parts(ctx, b)
		}
		if err != nil {
			return err
		}
		p.in.GiveBack(b)
	}
}

// parts commits the lines of a batch, each time as many as fit into a commit.
func (p *Pass) parts(ctx context.Context, b *input.Batch) (err error) {
	for err == nil && len(b.Items) > 0 {
		if err = ctx.Err(); err != nil {
			return err
		}
		if p.out != nil {
			err = p.toOut(b)
		} else {
			err = p.toStdout(b)
		}
		p.Progress.Show(p.in.BytesRead(), "%d lines, %d new", p.done.Lines, p.done.New)
	}
	return err
}

// begin decides whether this run is new or goes on with an unfinished one, and makes the filter if it is missing.
func (p *Pass) begin(ctx context.Context) error {
	facts, err := p.filter.Facts()
	exists := !errors.Is(err, kv.ErrNotFound)
	p.capacity = max(p.flags.Room, p.flags.Capacity)
	if exists {
		if err != nil {
			return err
		}
		if err := p.flags.Fits(p.key, facts); err != nil {
			return err
		}
		p.flags.Tell(p.notes, p.key, facts)
		p.capacity = facts.Capacity
	}
	r, claimed, err := p.stored()
	if err != nil {
		return err
	}
	switch {
	case p.flags.restart, r == nil && claimed == nil:
		defer crashpoint.Reached("begun")
		return p.beginNew(exists, r, claimed)
	case r == nil:
		return p.refuseClaimed(claimed)
	}
	return p.resume(ctx, r, claimed)
}

// stored returns the record of an unfinished run of the filter, and the claim on OUT; each is nil if there is none.
func (p *Pass) stored() (r *record, claimed *claim, err error) {
	if p.out != nil {
		if claimed, err = storedClaim(p.db, p.out.path); err != nil {
			return nil, nil, err
		}
	}
	b, err := storedRecord(p.db, p.key)
	if err != nil || b == nil {
		return nil, claimed, err
	}
	if r, err = decodeRecord(b); err != nil && !p.flags.restart {
		return nil, nil, fmt.Errorf("key %q: %w; --restart forgets it", p.key, err)
	}
	if err != nil {
		r = &record{} // there is a record, which --restart forgets without knowing what is in it
	}
	return r, claimed, nil
}

// refuseClaimed returns the error of a run to an OUT that another run has claimed.
func (p *Pass) refuseClaimed(c *claim) error {
	if c.Key != cmdline.Quoted(p.key) {
		return exit.Refusef("%s has an unfinished run of key %s from %s: finish that first, by the same command as before, or forget it by --restart",
			p.out.path, c.Key, c.Input)
	}
	return exit.Refusef("%s has lines of an unfinished run of key %s from %s, whose filter is gone: it expired or was deleted. %s",
		p.out.path, c.Key, c.Input, p.startOver(c.OutLength))
}

// startOver says what to do about the lines that a run has written, when its filter is gone.
func (p *Pass) startOver(length int64) string {
	if length < 0 {
		return "--restart appends to OUT, also lines that it has already"
	}
	return fmt.Sprintf("OUT had %d bytes before that run: cut it to these (truncate -s %d %s) and give --restart to write its lines anew; --restart alone appends to OUT, also lines that it has already",
		length, length, p.out.path)
}

// storedRecord returns the record of an unfinished run of a filter, nil if there is none.
func storedRecord(db *kv.DB, key []byte) ([]byte, error) {
	o, err := db.Lookup(key)
	if err != nil || o == nil {
		return nil, err
	}
	return db.Attribute(o, recordAttribute)
}

// CheckFinished returns an error if a filter has an unfinished run, which would take lines that are added meanwhile for
// lines that it has written.
func CheckFinished(db *kv.DB, key []byte) error {
	b, err := storedRecord(db, key)
	if err != nil || b == nil {
		return err
	}
	r, err := decodeRecord(b)
	if err != nil {
		return fmt.Errorf("key %q: %w; dedup --restart forgets it", key, err)
	}
	return exit.Refusef("key %q has an unfinished run of dedup from %s to %s, which would take the lines of load for lines that it has written: finish it by the same command, or forget it by dedup --restart",
		key, r.input, r.out)
}

// beginNew makes the first commit of a new run. It is durable at every level: if it were lost, the next run would
// take lines of this run for lines that OUT had before. It forgets an unfinished run that has a record, or a claim on
// OUT.
func (p *Pass) beginNew(exists bool, r *record, claimed *claim) error {
	p.digest = xxhash.New()
	if !exists {
		p.flags.TellLowered(p.notes)
	}
	if p.out == nil {
		fmt.Fprintf(p.notes, "note: printed lines count as seen even if nobody reads them, as with | head; if this run is killed, the next one may print up to %d lines once more. With -o OUT each line is written exactly once\n", p.flags.batch)
	}
	if r != nil || claimed != nil {
		fmt.Fprintln(p.notes, "note: an unfinished run is forgotten; new lines of its last batch may be missing from what it wrote")
	}
	var others []string // files whose claims are removed
	if r != nil {
		others = append(others, r.out)
	}
	return p.commit(kv.Always, func(w *kv.Writer) error {
		if !exists {
			err := p.filter.ReserveStaged(w, &p.flags.Flags, p.flags.Life())
			if err != nil {
				return err
			}
		}
		if r != nil {
			if err := p.forget(w, r); err != nil {
				return err
			}
		}
		if p.out == nil {
			return nil
		}
		return p.stageFirst(w)
	}, others...)
}

// forget stages the removal of a record, and of the claim of its run.
func (p *Pass) forget(w *kv.Writer, r *record) error {
	if err := p.setRecord(w, nil); err != nil {
		return err
	}
	if c, err := storedClaim(p.db, r.out); err != nil || c == nil || c.Run != r.run {
		return nil // the claim belongs to another run
	}
	return dropClaim(w, r.out)
}

// stageFirst makes OUT, and stages the first record and the claim on OUT. It is called when the run cannot be refused
// any more.
func (p *Pass) stageFirst(w *kv.Writer) error {
	for _, step := range []func() error{p.out.make, p.out.endLine, p.out.sync} {
		if err := step(); err != nil {
			return exit.WithCode(exit.Local, err)
		}
	}
	p.number, p.started = rand.Uint64(), p.out.length
	return p.stageRecord(w, 0, nil)
}

// resume checks that this run may go on with the unfinished run of a record.
func (p *Pass) resume(ctx context.Context, r *record, claimed *claim) error {
	out := "standard output"
	if p.out != nil {
		out = p.out.path
	}
	renamed, err := p.renamed(ctx, r)
	if err != nil {
		return err
	}
	if r.input != p.in.Name && !renamed || r.out != out {
		return exit.Refusef("key %q has an unfinished run from %s to %s: finish it by the same command, or forget it by --restart; this run is from %s to %s",
			p.key, r.input, r.out, p.in.Name, out)
	}
	switch {
	case r.version == 1 && claimed == nil:
		p.number, p.started = rand.Uint64(), -1
	case claimed == nil || claimed.Run != r.run:
		return exit.Refusef("the unfinished run of key %q from %s to %s cannot go on: another run to that file was begun since; --restart forgets it",
			p.key, r.input, r.out)
	default:
		p.number, p.started, p.claimed = r.run, claimed.OutLength, true
	}
	if renamed {
		fmt.Fprintf(p.notes, "note: the unfinished run read %s; %s has what it read, and takes its place\n", r.input, p.in)
	}
	moved, err := p.out.goOn(r)
	if err != nil {
		return exit.WithCode(exit.Local, err)
	}
	if moved {
		fmt.Fprintf(p.notes, "note: %s is another file than before, with the same lines\n", out)
	}
	p.from, p.done = r, progress.Counts{Lines: r.lines, New: r.newLines}
	return nil
}

// renamed reports whether the input is another file than the record's, and has all that the unfinished run read:
// programs that rotate logs rename them. It opens the input for itself, because the run reads it once more.
func (p *Pass) renamed(ctx context.Context, r *record) (same bool, err error) {
	if r.input == p.in.Name || r.input == input.Stdin || p.in.Name == input.Stdin || r.end == 0 || p.in.Size < 0 {
		return false, nil
	}
	in, err := input.Open(ctx, p.in.Name, nil, p.flags.batch)
	if err != nil {
		return false, err
	}
	defer func() { err = exit.JoinLocal(err, in.Close()) }()
	if err := in.Look(ctx); err != nil {
		return false, err
	}
	in.Start(r.part())
	b, err := in.Next(ctx)
	return err == nil && b.Digest != nil, err
}

// repeat writes the lines of the record's batch to OUT once more.
func (p *Pass) repeat(b *input.Batch) error {
	crashpoint.Reached("repeating")
	newLines := p.selectNew(b, p.from.answers)
	p.digest, p.position = b.Digest, p.from.end
	p.advance(len(b.Items), newLines)
	p.resumed = p.done
	fmt.Fprintf(p.notes, "note: going on after line %d of an unfinished run\n", p.done.Lines)
	return exit.WithCode(exit.Local, p.out.write(p.lines))
}

// toOut takes the lines of a batch that fit into a commit through the three steps. If the filter has no room for a
// line, it does so with the lines before that line, and returns the error.
func (p *Pass) toOut(b *input.Batch) error {
	var n, newLines int
	var length uint64
	var full error
	synced := make(chan error, 1)
	go func() { synced <- exit.WithCode(exit.Local, p.out.sync()) }()
	awaited := false
	err := p.commit(kv.DurabilityDefault, func(w *kv.Writer) (err error) {
		n, full, err = p.stage(w, b)
		serr := <-synced // OUT is as it was until here
		awaited = true
		if err = cmp.Or(serr, err); err != nil {
			return err
		}
		crashpoint.Reached("synced")
		length = p.hash(b, n)
		newLines = p.selectNew(b, p.answers[:n])
		return p.stageRecord(w, length, p.answers[:n])
	})
	if !awaited { // the commit could not begin
		err = cmp.Or(<-synced, err)
	}
	if err != nil {
		return err
	}
	p.claimed = true
	crashpoint.Reached("committed")
	p.position += length
	p.advance(n, newLines)
	if err := p.out.write(p.lines); err != nil {
		return exit.WithCode(exit.Local, err)
	}
	crashpoint.Reached("written")
	p.added(newLines)
	b.Pass(n)
	return full
}

// toStdout prints the new lines of a batch, as many as fit into a commit, and commits them. It holds the filter's lock
// while it prints, which takes as long as the reader of the pipe likes. Nothing else waits for that lock: no other
// process has the store open.
func (p *Pass) toStdout(b *input.Batch) error {
	var n, newLines int
	var full error
	err := p.commit(kv.DurabilityDefault, func(w *kv.Writer) (err error) {
		if n, full, err = p.stage(w, b); err != nil {
			return err
		}
		newLines = p.selectNew(b, p.answers[:n])
		p.unconfirmed = newLines
		_, err = p.stdout.Write(p.lines)
		crashpoint.Reached("printed")
		return exit.WithCode(exit.Local, err)
	})
	if err != nil {
		return err
	}
	p.unconfirmed = 0
	p.advance(n, newLines)
	p.added(newLines)
	b.Pass(n)
	return full
}

// added lets a Bloom filter that grows from a log do some of it, now that a commit has added new lines.
func (p *Pass) added(newLines int) {
	if f, ok := p.filter.(interface{ Added(n int) }); ok {
		f.Added(newLines)
	}
}

// finish removes the record and the claim, now that all of OUT is on stable storage.
func (p *Pass) finish() error {
	crashpoint.Reached("finishing")
	if p.out != nil {
		err := p.commit(kv.DurabilityDefault, func(w *kv.Writer) error {
			err := p.setRecord(w, nil)
			if errors.Is(err, kv.ErrNotFound) {
				err = nil // the filter is gone, but all lines are written
			}
			return errors.Join(err, dropClaim(w, p.out.path))
		})
		if err != nil {
			return err
		}
		crashpoint.Reached("finished")
	}
	return p.db.Sync()
}

// tellCut tells of what was cut off OUT.
func (p *Pass) tellCut() {
	if p.out.cut > 0 {
		p.Progress.Clear()
		fmt.Fprintf(p.notes, "note: %d bytes at the end of %s are not this run's: they were cut off, and are in %s\n",
			p.out.cut, p.out.path, p.out.cutPath())
	}
}

// commit makes one commit of what stage stages. It may change the filter, and the claims on OUT and on other files.
func (p *Pass) commit(level kv.Durability, stage func(*kv.Writer) error, others ...string) error {
	keys := [][]byte{p.key}
	if p.out != nil {
		others = append(others, p.out.path)
	}
	for _, out := range others {
		keys = append(keys, claimKey(out))
	}
	return p.db.Write(level, keys, stage)
}

// stage stages the adding of as many lines of a batch as fit into a commit, and sets answers. If a line has no room in
// the filter, n is the number of lines before it, and full is the error. If that is the first line there is nothing
// to commit, and the error is err.
func (p *Pass) stage(w *kv.Writer, b *input.Batch) (n int, full, err error) {
	p.answers = append(p.answers[:0], make([]bool, len(b.Items))...)
	n, err = p.filter.AddFitting(w, b.Items, p.answers, 1)
	if filters.HasNoRoom(err) && n > 0 {
		return n, err, nil
	}
	return n, nil, err
}

// hash adds the first n lines of a batch to the digest, and returns their length in the input.
func (p *Pass) hash(b *input.Batch, n int) (length uint64) {
	part := b.FirstLines(n)
	p.digest.Write(part) // cannot fail
	return uint64(len(part))
}

// selectNew sets p.lines to the new lines of a batch, each ended by LF, and returns their number. It leaves out lines
// without an answer.
func (p *Pass) selectNew(b *input.Batch, answers []bool) (n int) {
	p.lines = p.lines[:0]
	for i, isNew := range answers {
		if isNew {
			p.lines = append(append(p.lines, b.Items[i]...), '\n')
			n++
		}
	}
	return n
}

// stageRecord stages the record of a batch, which has length bytes after position and is in the digest already. It
// also stages the claim on OUT, if it was not committed yet.
func (p *Pass) stageRecord(w *kv.Writer, length uint64, answers []bool) error {
	file, err := p.out.identity()
	if err != nil {
		return exit.WithCode(exit.Local, err)
	}
	if !p.claimed {
		c := &claim{Version: claimVersion, Run: p.number, Key: cmdline.Quoted(p.key), Input: p.in.Name, OutLength: p.started}
		if err := c.stage(w, p.out.path); err != nil {
			return err
		}
	}
	return p.setRecord(w, &record{
		version: recordVersion,
		start:   p.position, end: p.position + length, sum: p.digest.Sum64(),
		outLength: uint64(p.out.length), lines: p.done.Lines, newLines: p.done.New,
		answers: answers, input: p.in.Name, out: p.out.path,
		run: p.number, tailSum: p.out.tailSum(), file: file,
	})
}

// setRecord stages a record; nil removes it.
func (p *Pass) setRecord(w *kv.Writer, r *record) error {
	o, err := w.Object(p.key)
	if err != nil {
		return err
	}
	if o == nil {
		return fmt.Errorf("%w: %q was deleted meanwhile, or its time to live has ended", kv.ErrNotFound, p.key)
	}
	var value []byte
	if r != nil {
		value = appendRecord(nil, r)
	}
	w.SetAttribute(o, recordAttribute, value)
	return nil
}

func (p *Pass) advance(lines, newLines int) {
	p.done.Lines += uint64(lines)
	p.done.New += uint64(newLines)
}
