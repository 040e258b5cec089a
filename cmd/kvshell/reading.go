package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
)

// openFile opens a file to read it. A named pipe is opened when somebody writes to it; an interrupt does not wait for that.
func openFile(ctx context.Context, name string) (*os.File, error) {
	opened, failed := make(chan *os.File, 1), make(chan error, 1)
	go func() {
		if file, err := os.Open(name); err != nil {
			failed <- err
		} else {
			opened <- file
		}
	}()
	select {
	case file := <-opened:
		return file, nil
	case err := <-failed:
		return nil, exit.WithCode(exit.Local, err)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// reading returns a reader of a file whose end is that of the file or, for a pipe and the like, an interrupt: nobody knows
// when these have something.
func reading(ctx context.Context, file *os.File) io.Reader {
	if info, err := file.Stat(); err != nil || info.Mode().IsRegular() {
		return file
	}
	from, to := io.Pipe()
	go func() {
		_, err := io.Copy(to, file)
		to.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { to.CloseWithError(ctx.Err()) })
	return from
}

// localError gives an error that is about a local file its code, unless it is an interrupt.
func localError(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return exit.WithCode(exit.Local, err)
}
