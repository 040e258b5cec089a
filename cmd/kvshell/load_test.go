package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
)

// numbers returns lines that are the numbers from one to another.
func numbers(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

// A run that is killed after a commit leaves whole batches, and the same command adds the rest.
func TestLoad_kill(t *testing.T) {
	const lines = 1000
	store := filepath.Join(t.TempDir(), "store")
	load := func(crash string, args ...string) (string, error) {
		cmd := exec.Command("kvshell", append([]string{"-d", store, "load", "seen", "-"}, args...)...)
		cmd.Env = append(os.Environ(), crashVariable+"="+crash)
		cmd.Stdin = strings.NewReader(numbers(1, lines))
		output, err := cmd.CombinedOutput()
		return string(output), err
	}
	card := func() (n int) {
		output, err := exec.Command("kvshell", "-d", store, "BF.CARD", "seen").Output()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(string(output), &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if output, err := load("loaded:3", "--batch=10", "--sync=always"); !wasKilled(err) {
		t.Fatalf("not killed: %v\n%s", err, output)
	}
	if n := card(); n != 30 {
		t.Errorf("killed behind three synced commits of 10 lines, it left %d lines", n)
	}
	if output, err := load("loaded:50", "--batch=10"); !wasKilled(err) {
		t.Fatalf("not killed: %v\n%s", err, output)
	}
	if n := card(); n%10 != 0 || n < 30 || n > 500 {
		t.Errorf("killed behind 50 commits of 10 lines, it left %d lines", n)
	}
	if output, err := load("", "--batch=10"); err != nil || !strings.Contains(output, "lines read           1000\n") {
		t.Errorf("the last run: %v\n%s", err, output)
	}
	if n := card(); n != lines {
		t.Errorf("%d lines in the end, want %d", n, lines)
	}
}

// BenchmarkLoad is seq 1 10000000 | kvshell load k -. Run it with -benchtime 1x.
func BenchmarkLoad(b *testing.B) {
	const lines = 10_000_000
	devNull, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer devNull.Close()
	for b.Loop() {
		r, w, err := os.Pipe()
		if err != nil {
			b.Fatal(err)
		}
		written := make(chan error, 1)
		go func() { written <- writeNumbers(w, lines) }()
		sh := &shell{stdin: r, stdout: devNull, stderr: tty.NewMessages(devNull), directory: b.TempDir()}
		code := sh.run(context.Background(), []string{"-d", sh.directory, "load", "k", "-"})
		if err := errors.Join(<-written, r.Close()); code != exit.OK || err != nil {
			b.Fatalf("exit code %d, %v", code, err)
		}
	}
	b.ReportMetric(float64(lines)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}

func writeNumbers(w io.WriteCloser, n int) error {
	buffered := bufio.NewWriterSize(w, 64<<10)
	for i := 1; i <= n; i++ {
		if _, err := fmt.Fprintln(buffered, i); err != nil {
			return err
		}
	}
	return errors.Join(buffered.Flush(), w.Close())
}
