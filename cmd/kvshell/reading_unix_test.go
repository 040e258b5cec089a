//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
)

// An interrupt is heard by the words that read a file while a pipe is silent, or has nobody who writes to it.
func TestInterrupted_pipes(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo.x")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{fifo, "-"} {
		for _, words := range [][]string{
			{"import", "k", file}, {"import", "k", file, "--from", "guava"}, {"info", file}, {"restore", file, filepath.Join(dir, "new")},
			{"import-rdb", file}, {"-f", file},
		} {
			ctx, interrupt := context.WithCancel(t.Context())
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			sh := &shell{stdin: r, stdout: os.Stdout, stderr: tty.NewMessages(os.Stderr), name: programName}
			ended := make(chan int)
			go func() { ended <- sh.run(ctx, append([]string{"-d", filepath.Join(dir, "store")}, words...)) }()
			interrupt()
			if code := <-ended; code != exit.Interrupted {
				t.Errorf("%q: exit code %d, want %d", words, code, exit.Interrupted)
			}
			if err := errors.Join(w.Close(), r.Close()); err != nil {
				t.Error(err)
			}
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "new*"))
	if len(left) > 0 || err != nil {
		t.Errorf("left: %q, %v", left, err)
	}
}
