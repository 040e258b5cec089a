package system

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Open opens a file to read it. A named pipe is opened when somebody writes to it; the end of ctx does not wait for that.
func Open(ctx context.Context, name string) (*os.File, error) {
	return await(ctx, func() (*os.File, error) { return os.Open(name) })
}

// OpenToWrite opens a file that exists, to write to it. A named pipe is opened when somebody reads it; the end of ctx does
// not wait for that.
func OpenToWrite(ctx context.Context, name string) (*os.File, error) {
	return await(ctx, func() (*os.File, error) { return os.OpenFile(name, os.O_WRONLY, 0) })
}

// MaxSecrets is the most bytes of a file of passwords, users, certificates or keys.
const MaxSecrets = 64 << 20

// Content is what a file holds.
type Content struct {
	Data []byte
	Mode fs.FileMode
}

// ReadFile reads a file of up to most bytes. When ctx ends, it waits neither until a writer opens a named pipe, nor
// until the writer is done.
func ReadFile(ctx context.Context, name string, most int64) (Content, error) {
	return await(ctx, func() (c Content, err error) {
		f, err := os.Open(name)
		if err != nil {
			return c, err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		info, err := f.Stat()
		if err != nil {
			return c, err
		}
		c.Mode = info.Mode()
		if c.Data, err = io.ReadAll(io.LimitReader(f, most+1)); err == nil && int64(len(c.Data)) > most {
			err = fmt.Errorf("it has more than %d bytes", most)
		}
		return c, err
	})
}

// await returns what f returns, or the error of ctx if that ends first. Then f goes on, and nobody hears of it.
func await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := f()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
