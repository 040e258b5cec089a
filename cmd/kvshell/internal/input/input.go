// Package input reads lines ahead, in batches, from a file or a pipe, plain or compressed by gzip or zstd. What is no text
// is refused.
//
// The file source.go finds out what a file is, and reads it as text; input.go makes lines and batches of that.
package input

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/system"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/text"
)

// Stdin names standard input, on the command line and in the records of dedup.
const Stdin = "-"

// batchBytes is the size of a batch, in bytes, from which on it takes no further line.
const batchBytes = 4 << 20

// longestLine is how many bytes a line may have, its terminator included: as many as an item that a client sends. A
// file without line breaks would take all memory otherwise. Of a device, which may never end, a line has at most
// batchBytes.
const longestLine = 512 << 20

// pipeAhead is how many batches are read ahead from a pipe. Such batches are small, as a pipe holds little at a time;
// load puts those that wait into one commit if they fit. They must not be many, because each may have a long line.
const pipeAhead = 4

// idleEvery is how often the function given to Await is called.
const idleEvery = 200 * time.Millisecond

// Input is what dedup and load read: lines of up to 512 MiB, each ended by LF or CRLF, or the last one by the end
// of the input. An empty line is a line. An input that begins as gzip's or zstd's files do is decompressed; it may have
// several members. A byte order mark at the beginning is left out, and UTF-16 after one is read as UTF-8: positions are
// those in the decompressed text in UTF-8.
type Input struct {
	File *os.File
	Name string // absolute path, or Stdin
	Size int64  // of the file in bytes, before decompression; -1 if unknown
	Skip uint64 // lines passed over before the first batch; set before Start

	// StopAtDamage makes the place from which on the input is unreadable its end. It is set before Look.
	StopAtDamage bool

	eager    bool   // a batch is handed over when the next read might wait, though it is not full
	device   bool   // a terminal, or a device such as /dev/zero
	maxLines int    // of a batch
	longest  int    // a line, in bytes
	held     *Batch // a batch that Take has received and left for its next call

	read   atomic.Int64 // bytes of the file
	failed error        // of reading the file; only the reading goroutine uses it

	r        *bufio.Reader // of the text; only the reading goroutine uses it
	encoding text.Encoding // of the text, as its first bytes tell
	damage   error         // why the input ended before its end, see StopAtDamage

	// Batches go round between the reading goroutine and the caller: the goroutine fills one while the caller works on
	// another. The batch that the goroutine waits to hand over counts as one of those read ahead.
	full chan *Batch
	free chan *Batch
	done chan struct{} // closed by Close
}

// Batch is some lines of the input, or no line and the error that ended the input. A caller gives a batch back by
// GiveBack.
type Batch struct {
	Items [][]byte // the lines without their terminators, in raw; those that Pass was called for are left out
	Err   error    // io.EOF at the end of the input

	// Digest is set if the batch is the part that Start was asked to read again. It has hashed the input up to the
	// end of it.
	Digest *xxhash.Digest

	raw    []byte   // as read
	ends   []int    // of each line in raw, its terminator included
	lines  [][]byte // all of them; Items are the last ones
	passed int      // lines that are left out of Items
}

// Pass leaves the first n lines out of the batch.
func (b *Batch) Pass(n int) {
	b.passed += n
	b.Items = b.lines[b.passed:]
}

// Part is a part of an input that an earlier run has read: whole lines, from byte Start to byte End of the text.
type Part struct {
	Start, End uint64
	Lines      int
	Sum        uint64 // XXH64, seed 0, of the input before End
}

// Open opens a file, or standard input if name is Stdin. A named pipe is opened when somebody writes to it, unless ctx ends
// before. What is in it is for Look.
func Open(ctx context.Context, name string, stdin *os.File, maxLines int) (*Input, error) {
	in := &Input{
		File: stdin, Name: Stdin, Size: -1, eager: true, maxLines: maxLines, longest: longestLine, done: make(chan struct{}),
	}
	if name != Stdin {
		f, err := system.Open(ctx, name)
		if err != nil {
			return nil, exit.WithCode(exit.Local, err)
		}
		in.File, in.Name = f, system.RealPath(name)
	}
	info, err := in.File.Stat()
	if err != nil {
		return nil, exit.JoinLocal(exit.WithCode(exit.Local, err), in.Close())
	}
	if info.IsDir() {
		return nil, exit.JoinLocal(exit.WithCode(exit.Local, fmt.Errorf("%s is a directory", name)), in.Close())
	}
	if in.device = info.Mode()&os.ModeCharDevice != 0; in.device {
		in.longest = batchBytes
	}
	if info.Mode().IsRegular() {
		in.Size, in.eager = info.Size(), false
	}
	ahead := 1
	if in.eager {
		ahead = pipeAhead
	}
	in.full, in.free = make(chan *Batch, ahead-1), make(chan *Batch, 2*ahead)
	for range cap(in.free) {
		in.free <- &Batch{}
	}
	return in, nil
}

// Look waits for the first bytes, and refuses input that is no text. Call it before Start, and before anything is
// changed. It does not wait for a person who types.
func (in *Input) Look(ctx context.Context) error {
	if in.device {
		return nil
	}
	opened := make(chan error, 1)
	go func() { opened <- in.begin() }()
	select {
	case err := <-opened:
		return err
	case <-ctx.Done(): // the input is not used any more
		return ctx.Err()
	}
}

// Close ends the reading and closes the file. If the reading goroutine waits for a pipe, it ends when the pipe has
// something, or with the process.
func (in *Input) Close() error {
	close(in.done)
	if in.Name == Stdin {
		return nil
	}
	return in.File.Close()
}

// String returns the name for messages.
func (in *Input) String() string {
	if in.Name == Stdin {
		return "standard input"
	}
	return in.Name
}

// Note returns a note for the user about how the input is read, "" for bytes that are read as they are. It is for after
// Look.
func (in *Input) Note() string { return in.encoding.Note(in) }

// Damage returns why the input has ended before its end, nil if it has not. It is for after the batch with io.EOF.
func (in *Input) Damage() error { return in.damage }

// DamageNote returns a note that tells of Damage, if there is any. So many lines were read.
func (in *Input) DamageNote(lines uint64) string {
	if in.damage == nil {
		return ""
	}
	return fmt.Sprintf("note: %v. Its first %d lines are taken for all of it\n", in.damage, lines)
}

// BytesRead returns how much of the file was read.
func (in *Input) BytesRead() int64 { return in.read.Load() }

// counting reads the file and counts the bytes.
type counting struct{ in *Input }

func (c counting) Read(p []byte) (int, error) {
	n, err := c.in.File.Read(p)
	c.in.read.Add(int64(n))
	if err != nil && !errors.Is(err, io.EOF) {
		c.in.failed = err
	}
	return n, err
}

// Start begins to read in a goroutine of its own. If from is not nil, the first batch is that part again, or an error
// if the input before the end of the part has changed.
func (in *Input) Start(from *Part) {
	go func() {
		var err error
		if in.r == nil {
			err = in.begin()
		}
		if err == nil {
			err = in.skipLines()
		}
		if err == nil && from != nil {
			err = in.hand(func(b *Batch) error { return in.again(b, from) })
		}
		for err == nil {
			err = in.settle(in.hand(in.fill))
		}
		select {
		case in.full <- &Batch{Err: in.named(err)}:
		case <-in.done:
		}
	}()
}

// settle is named, and with StopAtDamage makes an error of unreadable bytes the end of the input.
func (in *Input) settle(err error) error {
	err = in.named(err)
	if !in.StopAtDamage || !errors.Is(err, ErrUnreadable) {
		return err
	}
	in.damage = err
	return io.EOF
}

// named adds the name of the input to an error of reading it. The end of the input needs no name, and a refusal has it.
func (in *Input) named(err error) error {
	err = in.unreadable(err)
	var own *exit.Error
	if err == nil || errors.Is(err, io.EOF) || errors.As(err, &own) {
		return err
	}
	return exit.WithCode(exit.Local, fmt.Errorf("read %s: %w", in, err))
}

// hand has read fill a batch, and hands the batch over if it is not empty. It returns read's error, or errStopped.
func (in *Input) hand(read func(*Batch) error) error {
	var b *Batch
	select {
	case b = <-in.free:
	case <-in.done:
		return errStopped
	}
	err := read(b)
	if len(b.ends) == 0 && b.Digest == nil {
		return err
	}
	select {
	case in.full <- b:
		return err
	case <-in.done:
		return errStopped
	}
}

// errStopped ends the reading goroutine after Close. Nobody receives it.
var errStopped = errors.New("input was closed")

// Next waits for the next batch, or for the end of ctx.
func (in *Input) Next(ctx context.Context) (*Batch, error) { return in.Await(ctx, func() {}) }

// Await is Next, and calls idle now and then while it waits.
func (in *Input) Await(ctx context.Context, idle func()) (*Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if b := in.ready(); b != nil {
		return b, nil
	}
	tick := time.NewTicker(idleEvery)
	defer tick.Stop()
	for {
		select {
		case b := <-in.full:
			return b, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
			idle()
		}
	}
}

// Take waits for a batch, and returns it with further ones that are ready, as long as all together have no more lines
// than a full batch: from a pipe batches are small. The error is ctx's, or the one that ended the input: io.EOF at its
// end.
func (in *Input) Take(ctx context.Context, idle func()) (taken []*Batch, err error) {
	b := in.held
	if in.held = nil; b == nil {
		if b, err = in.Await(ctx, idle); err != nil {
			return nil, err
		}
	} else if err := ctx.Err(); err != nil {
		return nil, err
	}
	if b.Err != nil {
		return nil, b.Err
	}
	taken = append(taken, b)
	for lines := len(b.Items); in.eager && len(taken) < pipeAhead; {
		more := in.ready()
		if more == nil {
			return taken, nil
		}
		if lines += len(more.Items); more.Err != nil || lines > in.maxLines {
			in.held = more
			return taken, nil
		}
		taken = append(taken, more)
	}
	return taken, nil
}

// GiveBack gives back batches that the caller uses no longer. The reading goroutine fills them again.
func (in *Input) GiveBack(batches ...*Batch) {
	for _, b := range batches {
		in.free <- b
	}
}

// ready returns the next batch, nil if none is ready.
func (in *Input) ready() *Batch {
	select {
	case b := <-in.full:
		return b
	default:
		return nil
	}
}

// skipLines reads past the first Skip lines. It is an error if there are fewer.
func (in *Input) skipLines() error {
	const look = 1 << 10 // after this number of lines it checks whether the input was closed
	for n := uint64(0); n < in.Skip; n++ {
		if n%look == 0 && in.closed() {
			return errStopped
		}
		if err := in.skipLine(); errors.Is(err, io.EOF) {
			return exit.Refusef("--skip %d: %s has only %d lines", in.Skip, in, n)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// skipLine reads past a line. The error is io.EOF if there is no further line.
func (in *Input) skipLine() error {
	for begun := false; ; begun = true {
		part, err := in.r.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && (begun || len(part) > 0):
			return nil
		default:
			return err
		}
	}
}

func (in *Input) closed() bool {
	select {
	case <-in.done:
		return true
	default:
		return false
	}
}

// again reads up to the end of a part, and the part itself into b. If the input has changed, b stays empty.
func (in *Input) again(b *Batch, from *Part) error {
	b.reset()
	digest := xxhash.New()
	_, err := io.CopyN(digest, in.r, int64(from.Start))
	for range from.Lines {
		if err == nil {
			err = in.appendLine(b)
		}
	}
	digest.Write(b.raw) // cannot fail
	switch {
	case err != nil && !errors.Is(err, io.EOF):
	case err != nil, from.Start+uint64(len(b.raw)) != from.End, digest.Sum64() != from.Sum:
		err = exit.Refusef("%s is not what the unfinished run read: its first %d bytes differ; --restart reads it from the beginning", in, from.End)
	default:
		b.split()
		b.Digest = digest
		return nil
	}
	b.reset()
	return err
}

// fill reads a batch.
func (in *Input) fill(b *Batch) (err error) {
	b.reset()
	for err == nil && len(b.ends) < in.maxLines && len(b.raw) < batchBytes {
		if in.eager && len(b.ends) > 0 && in.mayWait() {
			break
		}
		err = in.appendLine(b)
	}
	b.split()
	return err
}

// mayWait reports whether the next line has not been read completely from the file.
func (in *Input) mayWait() bool {
	ready, err := in.r.Peek(in.r.Buffered())
	return err == nil && bytes.IndexByte(ready, '\n') < 0
}

// appendLine appends a line to the batch. After an error it leaves out what it has of a line, which may be only a part
// of it.
func (in *Input) appendLine(b *Batch) error {
	length := len(b.raw)
	for {
		part, err := in.r.ReadSlice('\n')
		b.raw = append(b.raw, part...)
		switch {
		case len(b.raw)-length > in.longest:
			err = exit.Refusef("%s %w: it has a line of more than %d bytes: is it a text?", in, ErrUnreadable, in.longest)
		case in.closed():
			err = errStopped
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == nil, errors.Is(err, io.EOF) && len(b.raw) > length:
			b.ends = append(b.ends, len(b.raw))
			return nil
		}
		b.raw = b.raw[:length]
		return err
	}
}

func (b *Batch) reset() {
	b.raw, b.ends, b.lines = b.raw[:0], b.ends[:0], b.lines[:0]
	b.Items, b.passed, b.Err, b.Digest = nil, 0, nil, nil
}

// FirstLines returns the first n of Items as they were read, with their terminators. n is 1 or more.
func (b *Batch) FirstLines(n int) []byte {
	start := 0
	if b.passed > 0 {
		start = b.ends[b.passed-1]
	}
	return b.raw[start:b.ends[b.passed+n-1]]
}

// split makes the items: the lines without their terminators.
func (b *Batch) split() {
	start := 0
	for _, end := range b.ends {
		line := bytes.TrimSuffix(b.raw[start:end], []byte("\n"))
		b.lines = append(b.lines, bytes.TrimSuffix(line, []byte("\r")))
		start = end
	}
	b.Items = b.lines
}
