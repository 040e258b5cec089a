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

// Stdin stands for standard input, on the command line and in records.
const Stdin = "-"

// batchBytes is the size of a batch, in bytes, at which it takes no further line. A longer line is a batch
// of its own.
const batchBytes = 4 << 20

// pipeAhead is how many batches are read ahead from a pipe. They are as small as what the pipe holds at a time, and
// load makes one commit of those that wait. Each may hold a line of any length, so they must not be many.
const pipeAhead = 4

// idleEvery is how often the function given to Await is called.
const idleEvery = 200 * time.Millisecond

// Input is what dedup and load read: lines of any length, each ended by LF or CRLF, the last one perhaps by the end of the
// input. An empty line is a line. Gzip is recognized by its first bytes, and may have several members.
type Input struct {
	File *os.File
	Name string // absolute path, or Stdin
	Size int64  // of the file in bytes, before decompression; -1 if unknown
	Skip uint64 // lines passed over before the first batch; set before Start

	eager    bool   // a batch is handed over as soon as the next read might wait
	maxLines int    // of a batch
	held     *Batch // that Take has looked at and left for the next call

	read atomic.Int64 // bytes of the file

	r *bufio.Reader // of the file after decompression; used by the reading goroutine alone

	// Batches go round between the reading goroutine and the caller: of a file one is filled while the caller works on
	// another. The batch that the reading goroutine waits to hand over is one of those read ahead.
	full chan *Batch
	free chan *Batch
	done chan struct{} // closed by Close
}

// Batch is lines of the input, or, without any line, the error that ended it. A caller that has taken a batch gives it back
// by GiveBack.
type Batch struct {
	Items [][]byte // the lines without their terminators, in raw
	Err   error    // io.EOF at the end of the input

	// Digest is set on the batch that Start was asked to read again: it has hashed the input up to the end of the batch.
	Digest *xxhash.Digest

	raw  []byte // as read
	ends []int  // of each line in raw, its terminator included
}

// Part is a part of an input that was read before: whole lines from byte Start, after decompression, to byte End.
type Part struct {
	Start, End uint64
	Lines      int
	Sum        uint64 // XXH64, seed 0, of the input before End
}

// Open opens a file, or takes standard input for Stdin. Nothing is read yet.
func Open(name string, stdin *os.File, maxLines int) (*Input, error) {
	in := &Input{
		File: stdin, Name: Stdin, Size: -1, eager: true, maxLines: maxLines, done: make(chan struct{}),
	}
	if name != Stdin {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		in.File, in.Name = f, system.RealPath(name)
	}
	info, err := in.File.Stat()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	if info.IsDir() {
		return nil, errors.Join(fmt.Errorf("%s is a directory", name), in.Close())
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

// Close ends the reading and closes the file. A reading goroutine that waits for a silent pipe ends when something comes out
// of the pipe, or with the process.
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

// counting reads the file and counts.
type counting struct{ in *Input }

func (c counting) Read(p []byte) (int, error) {
	n, err := c.in.File.Read(p)
	c.in.read.Add(int64(n))
	return n, err
}

// Start begins to read in a goroutine of its own. If from is not nil, the first batch is that part once more, or an error
// if the input before its end is not what it was.
func (in *Input) Start(from *Part) {
	go func() {
		err := in.open()
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

// named names the input in an error of reading it, unless it is the end of the input or a refusal, which has named it.
func (in *Input) named(err error) error {
	var own *exit.Error
	if errors.Is(err, io.EOF) || errors.As(err, &own) {
		return err
	}
	return exit.WithCode(exit.Local, fmt.Errorf("read %s: %w", in, err))
}

// hand lets read fill a batch and hands it over if there is something in it. It returns read's error, or
// errStopped.
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

// errStopped ends the reading goroutine; nobody is there to see it.
var errStopped = errors.New("input was closed")

// Next returns the next batch, waiting for it no longer than ctx lets it.
func (in *Input) Next(ctx context.Context) (*Batch, error) { return in.Await(ctx, func() {}) }

// Await is Next with a function that is called now and then while it waits.
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

// Take waits for a batch, and takes with it those that are there already, up to the size of one: from a pipe they come in
// small ones. The error is what ended the input, io.EOF if that is its end, or ctx.
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

// GiveBack gives batches back that are no longer used, so that the reading goroutine can fill them again.
func (in *Input) GiveBack(batches ...*Batch) {
	for _, b := range batches {
		in.free <- b
	}
}

// ready returns the next batch if there is one, nil if it has to be waited for.
func (in *Input) ready() *Batch {
	select {
	case b := <-in.full:
		return b
	default:
		return nil
	}
}

// open looks whether the input is gzipped.
func (in *Input) open() error {
	in.r = bufio.NewReaderSize(counting{in}, 256<<10)
	magic, err := in.r.Peek(3)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if !bytes.Equal(magic, []byte{0x1f, 0x8b, 8}) {
		return nil
	}
	z, err := gzip.NewReader(in.r)
	if err != nil {
		return err
	}
	in.r = bufio.NewReaderSize(z, 256<<10)
	return nil
}

// skipLines reads past the lines to be skipped. It is an error if there are fewer.
func (in *Input) skipLines() error {
	const look = 1 << 10 // lines from one look at whether the input was closed to the next
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

// skipLine reads past a line. The error is io.EOF where none begins.
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

// again reads up to the end of a part, and the part into b. If it is not the same again, b is left empty.
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

// mayWait reports whether the next line is not all there yet.
func (in *Input) mayWait() bool {
	ready, err := in.r.Peek(in.r.Buffered())
	return err == nil && bytes.IndexByte(ready, '\n') < 0
}

// appendLine appends a line to the batch. At an error of reading, what there is of a line is left out: it
// may be only a part.
func (in *Input) appendLine(b *Batch) error {
	length := len(b.raw)
	for {
		part, err := in.r.ReadSlice('\n')
		b.raw = append(b.raw, part...)
		switch {
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
	b.raw, b.ends, b.Items = b.raw[:0], b.ends[:0], b.Items[:0]
	b.Err, b.Digest = nil, nil
}

// FirstLines returns the first n lines as they were read, n being 1 or more.
func (b *Batch) FirstLines(n int) []byte { return b.raw[:b.ends[n-1]] }

// split makes the items: the lines without their terminators.
func (b *Batch) split() {
	start := 0
	for _, end := range b.ends {
		line := bytes.TrimSuffix(b.raw[start:end], []byte("\n"))
		b.Items = append(b.Items, bytes.TrimSuffix(line, []byte("\r")))
		start = end
	}
}
