// Package input reads lines ahead, in batches, from a file or a pipe, plain or gzipped.
package input

import (
	"bufio"
	"bytes"
	"compress/gzip"
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
)

// Stdin names standard input, on the command line and in the records of dedup.
const Stdin = "-"

// batchBytes is the size of a batch, in bytes, from which on it takes no further line.
const batchBytes = 4 << 20

// longestLine is how many bytes a line may have, its terminator included: as many as an item that a client sends. A
// file without line breaks, or a device that never ends, would take all memory otherwise.
const longestLine = 512 << 20

// pipeAhead is how many batches are read ahead from a pipe. Such batches are small, as a pipe holds little at a time;
// load puts those that wait into one commit if they fit. They must not be many, because each may have a long line.
const pipeAhead = 4

// idleEvery is how often the function given to Await is called.
const idleEvery = 200 * time.Millisecond

// Input is what dedup and load read: lines of up to 512 MiB, each ended by LF or CRLF, or the last one by the end
// of the input. An empty line is a line. An input that begins as gzip does is decompressed; it may have several members.
type Input struct {
	File *os.File
	Name string // absolute path, or Stdin
	Size int64  // of the file in bytes, before decompression; -1 if unknown
	Skip uint64 // lines passed over before the first batch; set before Start

	eager    bool   // a batch is handed over when the next read might wait, though it is not full
	device   bool   // a terminal, or a device such as /dev/zero
	maxLines int    // of a batch
	longest  int    // a line, in bytes
	held     *Batch // a batch that Take has received and left for its next call

	read atomic.Int64 // bytes of the file

	r *bufio.Reader // of the file after decompression; only the reading goroutine uses it

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

// Part is a part of an input that an earlier run has read: whole lines, from byte Start to byte End after
// decompression.
type Part struct {
	Start, End uint64
	Lines      int
	Sum        uint64 // XXH64, seed 0, of the input before End
}

// Open opens a file, or standard input if name is Stdin. Of a file it looks at the first bytes: a compressed form that
// is not read is an error.
func Open(name string, stdin *os.File, maxLines int) (*Input, error) {
	in := &Input{
		File: stdin, Name: Stdin, Size: -1, eager: true, maxLines: maxLines, longest: longestLine, done: make(chan struct{}),
	}
	if name != Stdin {
		f, err := os.Open(name)
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
	in.device = info.Mode()&os.ModeCharDevice != 0
	if info.Mode().IsRegular() {
		in.Size, in.eager = info.Size(), false
		// At the start of a pipe, Look looks.
		if err := in.refuseUnread(bufio.NewReader(io.NewSectionReader(in.File, 0, 16))); err != nil {
			return nil, exit.JoinLocal(in.named(err), in.Close())
		}
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

// Look waits for the first bytes of a pipe, and refuses a compressed form that is not read. It is for before Start, and
// before anything is changed. It does not wait for somebody who types.
func (in *Input) Look(ctx context.Context) error {
	if !in.eager || in.device {
		return nil
	}
	opened := make(chan error, 1)
	go func() { opened <- in.open() }()
	select {
	case err := <-opened:
		if err != nil {
			err = in.named(err)
		}
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

// BytesRead returns how much of the file was read.
func (in *Input) BytesRead() int64 { return in.read.Load() }

// counting reads the file and counts the bytes.
type counting struct{ in *Input }

func (c counting) Read(p []byte) (int, error) {
	n, err := c.in.File.Read(p)
	c.in.read.Add(int64(n))
	return n, err
}

// Start begins to read in a goroutine of its own. If from is not nil, the first batch is that part again, or an error
// if the input before the end of the part has changed.
func (in *Input) Start(from *Part) {
	go func() {
		var err error
		if in.r == nil {
			err = in.open()
		}
		if err == nil {
			err = in.skipLines()
		}
		if err == nil && from != nil {
			err = in.hand(func(b *Batch) error { return in.again(b, from) })
		}
		for err == nil {
			err = in.hand(in.fill)
		}
		select {
		case in.full <- &Batch{Err: in.named(err)}:
		case <-in.done:
		}
	}()
}

// named adds the name of the input to an error of reading it. The end of the input needs no name, and a refusal has it.
func (in *Input) named(err error) error {
	var own *exit.Error
	if errors.Is(err, io.EOF) || errors.As(err, &own) {
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
// than a full batch: from a pipe batches are small. The error is that of ctx, or what ended the input: io.EOF at its
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

// unread are the compressed forms that are refused: what files begin with, and the program that reads them.
var unread = []struct{ magic, by, reader string }{
	{"\xfd7zXZ\x00", "xz", "xz -dc"},
	{"BZh?1AY&SY", "bzip2", "bzip2 -dc"}, // the digit stands for the size of blocks
	{"\x28\xb5\x2f\xfd", "zstd", "zstd -dc"},
	{"PK\x03\x04", "zip", "unzip -p"},
}

// refuseUnread returns an error if the input begins as a compressed form does that is not read.
func (in *Input) refuseUnread(r *bufio.Reader) error {
	for _, form := range unread {
		if is, err := begins(r, form.magic); err != nil {
			return err
		} else if is {
			return exit.Refusef("%s is compressed by %s, which kvshell does not read: decompress it, as in: %s FILE | kvshell ...",
				in, form.by, form.reader)
		}
	}
	return nil
}

// begins reports whether r begins with magic, in which ? is any digit but 0. It waits only for bytes that it needs: a
// pipe may have sent a short line.
func begins(r *bufio.Reader, magic string) (bool, error) {
	for i := range len(magic) {
		first, err := r.Peek(i + 1)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		if len(first) <= i || first[i] != magic[i] && (magic[i] != '?' || first[i] < '1' || first[i] > '9') {
			return false, nil
		}
	}
	return true, nil
}

// open finds out whether the input is gzipped.
func (in *Input) open() error {
	in.r = bufio.NewReaderSize(counting{in}, 256<<10)
	if err := in.refuseUnread(in.r); err != nil {
		return err
	}
	gzipped, err := begins(in.r, "\x1f\x8b\x08")
	if err != nil || !gzipped {
		return err
	}
	z, err := gzip.NewReader(in.r)
	if err != nil {
		return err
	}
	in.r = bufio.NewReaderSize(z, 256<<10)
	return nil
}

// skipLines reads past the first Skip lines. It is an error if there are fewer.
func (in *Input) skipLines() error {
	const look = 1 << 10 // it checks after so many lines whether the input was closed
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
			err = exit.Refusef("%s has a line of more than %d bytes: is it a text?", in, in.longest)
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
