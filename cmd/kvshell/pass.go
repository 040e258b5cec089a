package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/cespare/xxhash/v2"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/crashpoint"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/kv"
)

// Why each new line is in OUT exactly once, whatever the crash.
//
// What is written. The first commit of a run makes the filter, if it is missing, and sets the record: how
// long OUT is, and that nothing was read yet. It also sets the claim on OUT. It is on stable storage before
// anything is written to OUT.
// Then, for each batch in turn: (1) OUT is synced; (2) one commit adds the batch's lines to the filter and
// sets the record: where the batch lies in the input, which of its lines were new, how long OUT was
// before it, and how that ends; (3) the new lines are written to OUT. The last commit, after a sync of OUT,
// removes the record and the claim.
//
// What a crash leaves. Commits survive as a prefix, each whole or not at all, so the filter and the record
// are always those of one batch, say b: the filter has the lines up to the end of b. OUT has all new lines
// from before b, at least as many bytes as the record says: they were synced before the commit of b was
// made, so before it could survive. Behind them OUT has any part of what was written later, or bytes that
// are none of it.
//
// What the next run does. It reads the input up to the end of b and compares its hash: the same bytes are
// the same lines. It goes back to the recorded length of OUT, writes the new lines of b by the recorded answers,
// not by the filter, which knows them by now, and goes on behind b. What it finds in OUT behind the recorded
// length it writes over; as soon as that is something else than what it writes there, or zeros, it moves the rest
// to another file: somebody may have appended to OUT. A crash of that run changes nothing of
// this: until its first commit, the record is the same.
//
// What else may happen between two runs. OUT is replaced: the hash of its end, or its length, is not as recorded, and
// the run is refused. The filter, and the record with it, is deleted or expires: then the claim on OUT is there and no
// record belongs to it, and every run to OUT is refused. A filter that is renamed takes its record along. Another run is
// told to forget this one and takes OUT: then the claim has its number, and this one is refused.
//
// This holds at every level of durability, for a kill and for a loss of power alike: a lower level means
// that the surviving prefix is shorter, and more is done again. It is assumed that a sync that returned
// means stable storage, and that nobody else writes to OUT while a run is under way.
//
// On standard output nothing can be taken back, so there the order is the other way: the new lines are
// printed, then the batch is committed. A crash in between makes the next run print them again.

// pass is one run of dedup over its input.
type pass struct {
	db       *kv.DB
	filter   lineFilter
	key      []byte
	in       *input
	out      *outFile  // nil: the lines go to stdout
	stdout   io.Writer // for the lines, if there is no OUT
	notes    io.Writer // for what the user should know beside them
	flags    dedupFlags
	progress *progress

	begun    bool
	from     *record // of the run that this one goes on with; nil if it is a new one
	number   uint64  // of this run, and of those that it goes on with
	started  int64   // length of OUT before the first of them, -1 if unknown
	claimed  bool    // the claim on OUT was committed
	capacity uint64  // of the filter

	// Up to the last commit; the digest, which needs an OUT, is ahead while one is made.
	digest   *xxhash.Digest // of the input
	position uint64         // in the input, in bytes after decompression
	done     counts
	resumed  counts // what of done another run did

	unconfirmed int // lines printed to stdout and not committed

	answers []bool // of the batch
	lines   []byte // the new ones of the batch, as they are to be written
}

// counts are how many lines were read, and how many of those were new.
type counts struct {
	lines, newLines uint64
}

// run does the whole of it. When it returns, with an error or without, OUT is on stable storage as far as
// it was written.
func (p *pass) run(ctx context.Context) error {
	if err := p.begin(); err != nil {
		return err
	}
	p.begun = true
	p.in.start(p.from)
	err := p.batches(ctx)
	if p.out != nil {
		if err == nil || hasNoRoom(err) {
			err = errors.Join(err, exit.WithCode(exit.Local, p.out.cutOff(p.out.length)))
		}
		p.tellCut()
		err = errors.Join(err, exit.WithCode(exit.Local, p.out.sync()))
	}
	if err == nil {
		// Ctrl-C ends a whole pipeline: an input that it cut short must not pass for one that is done.
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	return p.finish()
}

func (p *pass) batches(ctx context.Context) error {
	for {
		b, err := p.in.next(ctx)
		switch {
		case err != nil:
			return err
		case errors.Is(b.err, io.EOF):
			return nil
		case b.err != nil:
			return withInput(p.in, b.err)
		case b.digest != nil:
			err = p.repeat(b)
		case p.out != nil:
			err = p.toOut(b)
		default:
			err = p.toStdout(b)
		}
		if err != nil {
			return err
		}
		p.progress.show(p.in.bytesRead.Load(), "%d lines, %d new", p.done.lines, p.done.newLines)
		p.in.free <- b
	}
}

// withInput names the input in an error of reading it; a refusal has named it.
func withInput(in *input, err error) error {
	var own *exit.Error
	if errors.As(err, &own) {
		return err
	}
	return exit.WithCode(exit.Local, fmt.Errorf("read %s: %w", in, err))
}

// begin decides whether this run is a new one or goes on with another, and makes the filter.
func (p *pass) begin() error {
	facts, err := p.filter.Facts()
	exists := !errors.Is(err, kv.ErrNotFound)
	p.capacity = max(p.flags.room, p.flags.capacity)
	if exists {
		if err != nil {
			return err
		}
		if err := p.flags.fits(p.key, facts); err != nil {
			return err
		}
		p.flags.tell(p.notes, p.key)
		p.capacity = facts.capacity
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
	return p.resume(r, claimed)
}

// stored returns the record of an unfinished run of the filter, and the claim on OUT; each is nil if there is none.
func (p *pass) stored() (r *record, claimed *claim, err error) {
	if p.out != nil {
		if claimed, err = storedClaim(p.db, p.out.path); err != nil {
			return nil, nil, err
		}
	}
	b, err := p.storedRecord()
	if err != nil || b == nil {
		return nil, claimed, err
	}
	if r, err = decodeRecord(b); err != nil && !p.flags.restart {
		return nil, nil, fmt.Errorf("key %q: %w; --restart forgets it", p.key, err)
	}
	if err != nil {
		r = &record{} // of which nothing is known but that there is one
	}
	return r, claimed, nil
}

// refuseClaimed is the error of a run to a file that another has claimed.
func (p *pass) refuseClaimed(c *claim) error {
	if c.Key != quoted(p.key) {
		return exit.Refusef("%s has an unfinished run of key %s from %s: finish that first, by the same command as before, or forget it by --restart",
			p.out.path, c.Key, c.Input)
	}
	return exit.Refusef("%s has lines of an unfinished run of key %s from %s, whose filter is gone: it expired or was deleted. %s",
		p.out.path, c.Key, c.Input, p.startOver(c.OutLength))
}

// startOver says what to do about lines that a run wrote before its filter went.
func (p *pass) startOver(length int64) string {
	if length < 0 {
		return "--restart appends to OUT, lines that it has already too"
	}
	return fmt.Sprintf("OUT had %d bytes before that run: cut it to them (truncate -s %d %s) and give --restart, and its lines are written anew; --restart alone appends to it, lines that it has already too",
		length, length, p.out.path)
}

// storedRecord returns the record of an unfinished run, nil if there is none.
func (p *pass) storedRecord() ([]byte, error) {
	o, err := p.db.Lookup(p.key)
	if err != nil || o == nil {
		return nil, err
	}
	return p.db.Attribute(o, recordAttribute)
}

// beginNew makes the first commit of a new run, durable whatever the level: without it, what is in OUT by
// then would be taken for what was there before. It forgets the run of a record or of a claim on OUT, if there is one.
func (p *pass) beginNew(exists bool, r *record, claimed *claim) error {
	p.digest = xxhash.New()
	if !exists {
		p.flags.tellLowered(p.notes)
	}
	if p.out == nil {
		fmt.Fprintf(p.notes, "note: lines that are printed count as seen, also those that a pipe took and nobody read, as of | head; and if this run is killed, the next may print its last lines, up to %d, once more. With -o OUT each is written exactly once\n", p.flags.batch)
	}
	if r != nil || claimed != nil {
		fmt.Fprintln(p.notes, "note: an unfinished run is forgotten; new lines of its last batch may be missing from what it wrote")
	}
	var others []string // files with claims that are forgotten
	if r != nil {
		others = append(others, r.out)
	}
	return p.commit(kv.Always, func(w *kv.Writer) error {
		if !exists {
			err := p.filter.ReserveStaged(w, &p.flags.filterFlags, p.flags.life())
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
func (p *pass) forget(w *kv.Writer, r *record) error {
	if err := p.setRecord(w, nil); err != nil {
		return err
	}
	if c, err := storedClaim(p.db, r.out); err != nil || c == nil || c.Run != r.run {
		return nil // it is not this run's
	}
	return dropClaim(w, r.out)
}

// stageFirst stages the first record and the claim on OUT, now that the run is not refused any more.
func (p *pass) stageFirst(w *kv.Writer) error {
	for _, step := range []func() error{p.out.make, p.out.endLine, p.out.sync} {
		if err := step(); err != nil {
			return exit.WithCode(exit.Local, err)
		}
	}
	p.number, p.started = rand.Uint64(), p.out.length
	return p.stageRecord(w, 0, nil)
}

// resume checks that this run may go on with the one of a record.
func (p *pass) resume(r *record, claimed *claim) error {
	out := "standard output"
	if p.out != nil {
		out = p.out.path
	}
	if r.input != p.in.name || r.out != out {
		return exit.Refusef("key %q has an unfinished run from %s to %s: finish it by the same command, or forget it by --restart; this run is from %s to %s",
			p.key, r.input, r.out, p.in.name, out)
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
	moved, err := p.out.goOn(r)
	if err != nil {
		return exit.WithCode(exit.Local, err)
	}
	if moved {
		fmt.Fprintf(p.notes, "note: %s is another file than before, with the same lines\n", out)
	}
	p.from, p.done = r, counts{r.lines, r.newLines}
	return nil
}

// repeat writes the lines of the record's batch to OUT once more.
func (p *pass) repeat(b *batch) error {
	crashpoint.Reached("repeating")
	newLines := p.selectNew(b, p.from.answers)
	p.digest, p.position = b.digest, p.from.end
	p.advance(len(b.items), newLines)
	p.resumed = p.done
	fmt.Fprintf(p.notes, "note: going on after line %d of an unfinished run\n", p.done.lines)
	return exit.WithCode(exit.Local, p.out.write(p.lines))
}

// toOut takes a batch through the three steps. Of a batch that the filter has no room for, it is the lines
// before the first that has none.
func (p *pass) toOut(b *batch) error {
	if err := p.out.sync(); err != nil {
		return exit.WithCode(exit.Local, err)
	}
	crashpoint.Reached("synced")
	var n, newLines int
	var length uint64
	var full error
	err := p.commit(kv.DurabilityDefault, func(w *kv.Writer) (err error) {
		if n, full, err = p.stage(w, b); err != nil {
			return err
		}
		length = p.hash(b, n)
		newLines = p.selectNew(b, p.answers[:n])
		return p.stageRecord(w, length, p.answers[:n])
	})
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
	return full
}

// toStdout prints the new lines of a batch and commits it. The filter's lock is held while printing,
// which may take as long as the reader of a pipe likes; this process is the store's only one and wants
// nothing else of it.
func (p *pass) toStdout(b *batch) error {
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
	return full
}

// finish removes the record and the claim, now that all of OUT is on stable storage.
func (p *pass) finish() error {
	crashpoint.Reached("finishing")
	if p.out != nil {
		err := p.commit(kv.DurabilityDefault, func(w *kv.Writer) error {
			err := p.setRecord(w, nil)
			if errors.Is(err, kv.ErrNotFound) {
				err = nil // the filter went, but all is written
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
func (p *pass) tellCut() {
	if p.out.cut > 0 {
		p.progress.clear()
		fmt.Fprintf(p.notes, "note: %d bytes at the end of %s are not this run's: they were cut off, and are in %s\n",
			p.out.cut, p.out.path, p.out.cutPath())
	}
}

// commit makes one commit of what stage stages, which may be about the filter and the claims on OUT and on other
// files.
func (p *pass) commit(level kv.Durability, stage func(*kv.Writer) error, others ...string) error {
	keys := [][]byte{p.key}
	if p.out != nil {
		others = append(others, p.out.path)
	}
	for _, out := range others {
		keys = append(keys, claimKey(out))
	}
	return p.db.Write(level, keys, stage)
}

// stage stages the adding of a batch's lines and sets answers. If the filter is full and cannot grow, n is the number
// of lines before the first that has no room, and full the error; with none before it, there is nothing to
// commit, and the error is err.
func (p *pass) stage(w *kv.Writer, b *batch) (n int, full, err error) {
	p.answers = append(p.answers[:0], make([]bool, len(b.items))...)
	n, err = p.filter.AddStaged(w, b.items, p.answers)
	if hasNoRoom(err) && n > 0 {
		return n, err, nil
	}
	return n, nil, err
}

// hash adds the first n lines of a batch to the digest, and returns their length in the input.
func (p *pass) hash(b *batch, n int) (length uint64) {
	part := b.raw[:b.ends[n-1]]
	p.digest.Write(part) // cannot fail
	return uint64(len(part))
}

// selectNew sets p.lines to the lines of a batch that are new, each ended by LF, and returns their number.
// Lines without an answer are left out.
func (p *pass) selectNew(b *batch, answers []bool) (n int) {
	p.lines = p.lines[:0]
	for i, isNew := range answers {
		if isNew {
			p.lines = append(append(p.lines, b.items[i]...), '\n')
			n++
		}
	}
	return n
}

// stageRecord stages the record of a batch of length bytes behind position, already in the digest, and the claim on
// OUT if it was not made yet.
func (p *pass) stageRecord(w *kv.Writer, length uint64, answers []bool) error {
	file, err := p.out.identity()
	if err != nil {
		return exit.WithCode(exit.Local, err)
	}
	if !p.claimed {
		c := &claim{Version: claimVersion, Run: p.number, Key: quoted(p.key), Input: p.in.name, OutLength: p.started}
		if err := c.stage(w, p.out.path); err != nil {
			return err
		}
	}
	return p.setRecord(w, &record{
		version: recordVersion,
		start:   p.position, end: p.position + length, sum: p.digest.Sum64(),
		outLength: uint64(p.out.length), lines: p.done.lines, newLines: p.done.newLines,
		answers: answers, input: p.in.name, out: p.out.path,
		run: p.number, tailSum: p.out.tailSum(), file: file,
	})
}

// setRecord stages a record; nil removes it.
func (p *pass) setRecord(w *kv.Writer, r *record) error {
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

func (p *pass) advance(lines, newLines int) {
	p.done.lines += uint64(lines)
	p.done.newLines += uint64(newLines)
}
