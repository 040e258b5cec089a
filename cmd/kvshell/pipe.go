package main

import (
	"context"
	"io"
	"os"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/system"
)

// openFile is system.Open, and its errors have their code.
func openFile(ctx context.Context, name string) (*os.File, error) {
	file, err := system.Open(ctx, name)
	return file, exit.WithCode(exit.Local, err)
}

// reading returns a reader of a file that ends with the file or, for a pipe and the like, at an interrupt: nobody knows
// when these have something.
func reading(ctx context.Context, file *os.File) io.Reader {
	if regular, err := isRegular(file); err != nil || regular {
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

// writing makes write write to a file. If that is a pipe or the like, the end of ctx does not wait for a reader.
func writing(ctx context.Context, file *os.File, write func(io.Writer) error) error {
	if regular, err := isRegular(file); err != nil || regular {
		return write(file)
	}
	from, to := io.Pipe()
	written := make(chan error, 1)
	go func() {
		_, err := io.Copy(file, from)
		from.CloseWithError(err)
		written <- err
	}()
	defer context.AfterFunc(ctx, func() { from.CloseWithError(ctx.Err()) })()
	err := write(to)
	to.CloseWithError(err)
	if err != nil {
		return err
	}
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
