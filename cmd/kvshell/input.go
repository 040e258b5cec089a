package main

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

// stdinName stands for standard input, on the command line and in records.
const stdinName = "-"

// batchBytes is the size of a batch, in bytes, at which it takes no further line. A longer line is a batch
// of its own.
const batchBytes = 4 << 20

// pipeAhead is how many batches are read ahead from a pipe. They are as small as what the pipe holds at a time, and
// load makes one commit of those that wait. Each may hold a line of any length, so they must not be many.
const pipeAhead = 4

// idleEvery is how often somebody who waits for the input may show it.
const idleEvery = 200 * time.Millisecond

// input is what dedup and load read: lines of any length, ended by LF or CRLF or, the last one, by the end of the
// input. An empty line is a line. Gzip is told by its magic bytes, and may have several members.
type input struct {
	file     *os.File
	name     string // absolute path, or stdinName
	size     int64  // of the file in bytes, before decompression; -1 if unknown
	eager    bool   // a batch is handed over as soon as the next read might wait
	maxLines int    // of a batch
	skip     uint64 // lines passed over before the first batch

	bytesRead atomic.Int64 // of the file

	r *bufio.Reader // of what the file says, after decompression; the reading goroutine's

	// Batches go round: as many are read ahead as are worked on, one each for a file. The one that the reading goroutine
	// waits to hand over is among those read ahead.
	full chan *batch
	free chan *batch
	done chan struct{} // closed by close
}

// batch is lines of the input, or, without any, the error that ended it. Who takes one gives it back by
// free when it is done with it.
type batch struct {
	raw   []byte   // as read
	ends  []int    // of each line in raw, its terminator included
	items [][]byte // the lines without their terminators, in raw
	err   error    // io.EOF at the end of the input

	// digest is set on the batch of a resumed run's record: it has hashed the input up to the end of it.
	digest *xxhash.Digest
}

// openInput opens a file, or takes standard input for stdinName. Nothing is read yet.
func openInput(name string, stdin *os.File, maxLines int) (*input, error) {
	in := &input{
		file: stdin, name: stdinName, size: -1, eager: true, maxLines: maxLines, done: make(chan struct{}),
	}
	if name != stdinName {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		in.file, in.name = f, system.RealPath(name)
	}
	info, err := in.file.Stat()
	if err != nil {
		return nil, errors.Join(err, in.close())
	}
	if info.IsDir() {
		return nil, errors.Join(fmt.Errorf("%s is a directory", name), in.close())
	}
	if info.Mode().IsRegular() {
		in.size, in.eager = info.Size(), false
	}
	ahead := 1
	if in.eager {
		ahead = pipeAhead
	}
	in.full, in.free = make(chan *batch, ahead-1), make(chan *batch, 2*ahead)
	for range cap(in.free) {
		in.free <- &batch{}
	}
	return in, nil
}

// close ends the reading and closes the file. A goroutine that waits for a silent pipe ends when that says
// something, or with the process.
func (in *input) close() error {
	close(in.done)
	if in.name == stdinName {
		return nil
	}
	return in.file.Close()
}

// String returns the name for messages.
func (in *input) String() string {
	if in.name == stdinName {
		return "standard input"
	}
	return in.name
}

// Read reads the file and counts.
func (in *input) Read(p []byte) (int, error) {
	n, err := in.file.Read(p)
	in.bytesRead.Add(int64(n))
	return n, err
}

// start begins to read in a goroutine of its own. If from is not nil, the first batch is that of the
// record, once more; or an error, if the input is not the one the record is about.
func (in *input) start(from *record) {
	go func() {
		err := in.open()
		if err == nil {
			err = in.skipLines()
		}
		if err == nil && from != nil {
			err = in.hand(func(b *batch) error { return in.again(b, from) })
		}
		for err == nil {
			err = in.hand(in.fill)
		}
		select {
		case in.full <- &batch{err: err}:
		case <-in.done:
		}
	}()
}

// hand lets read fill a batch and hands it over if there is something in it. It returns read's error, or
// errStopped.
func (in *input) hand(read func(*batch) error) error {
	var b *batch
	select {
	case b = <-in.free:
	case <-in.done:
		return errStopped
	}
	err := read(b)
	if len(b.ends) == 0 && b.digest == nil {
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

// next returns the next batch, waiting for it no longer than ctx lets it.
func (in *input) next(ctx context.Context) (*batch, error) { return in.await(ctx, func() {}) }

// await is next for those who have something to do now and then while they wait.
func (in *input) await(ctx context.Context, idle func()) (*batch, error) {
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

// ready returns the next batch if there is one, nil if it has to be waited for.
func (in *input) ready() *batch {
	select {
	case b := <-in.full:
		return b
	default:
		return nil
	}
}

// open looks whether the input is gzipped.
func (in *input) open() error {
	in.r = bufio.NewReaderSize(in, 256<<10)
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
func (in *input) skipLines() error {
	const look = 1 << 10 // lines from one look at whether the input was closed to the next
	for n := uint64(0); n < in.skip; n++ {
		if n%look == 0 && in.closed() {
			return errStopped
		}
		if err := in.skipLine(); errors.Is(err, io.EOF) {
			return exit.Refusef("--skip %d: %s has only %d lines", in.skip, in, n)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// skipLine reads past a line. The error is io.EOF where none begins.
func (in *input) skipLine() error {
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

func (in *input) closed() bool {
	select {
	case <-in.done:
		return true
	default:
		return false
	}
}

// again reads up to the end of the record's batch, and that batch into b. If it is not the same again, b
// is left empty.
func (in *input) again(b *batch, from *record) error {
	b.reset()
	digest := xxhash.New()
	_, err := io.CopyN(digest, in.r, int64(from.start))
	for range from.answers {
		if err == nil {
			err = in.appendLine(b)
		}
	}
	digest.Write(b.raw) // cannot fail
	switch {
	case err != nil && !errors.Is(err, io.EOF):
	case err != nil, from.start+uint64(len(b.raw)) != from.end, digest.Sum64() != from.sum:
		err = exit.Refusef("%s is not what the unfinished run read: its first %d bytes differ; --restart reads it from the beginning", in, from.end)
	default:
		b.split()
		b.digest = digest
		return nil
	}
	b.reset()
	return err
}

// fill reads a batch.
func (in *input) fill(b *batch) (err error) {
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
func (in *input) mayWait() bool {
	ready, err := in.r.Peek(in.r.Buffered())
	return err == nil && bytes.IndexByte(ready, '\n') < 0
}

// appendLine appends a line to the batch. At an error of reading, what there is of a line is left out: it
// may be only a part.
func (in *input) appendLine(b *batch) error {
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

func (b *batch) reset() {
	b.raw, b.ends, b.items = b.raw[:0], b.ends[:0], b.items[:0]
	b.err, b.digest = nil, nil
}

// split makes the items: the lines without their terminators.
func (b *batch) split() {
	start := 0
	for _, end := range b.ends {
		line := bytes.TrimSuffix(b.raw[start:end], []byte("\n"))
		b.items = append(b.items, bytes.TrimSuffix(line, []byte("\r")))
		start = end
	}
}
