//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
)

// Ctrl-C ends a run between two batches: what was read is in OUT, and the same command goes on.
func TestDedup_interrupted(t *testing.T) {
	_, text := readList(t)
	want := firstOccurrences(text)
	run := &dedupRun{dir: t.TempDir(), input: urlList, flags: []string{"--batch=32"}}
	k := killer{run: run, rng: rand.New(rand.NewPCG(1, 1))}
	for i, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		cmd := run.command("")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		k.awaitOut(t, int64(len(want)*(i+1)/4), ended)
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		checkInterrupted(t, <-ended)
		m := regexp.MustCompile(`interrupted after (\d+) lines, (\d+) of them new; the same command again goes on from there\n$`).FindSubmatch(stderr.Bytes())
		if m == nil {
			t.Fatalf("standard error says\n%s", stderr.Bytes())
		}
		lines, err := strconv.Atoi(string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		read := strings.Join(strings.SplitAfter(text, "\n")[:lines], "")
		run.checkOut(t, firstOccurrences(read))
		if got := strconv.Itoa(strings.Count(firstOccurrences(read), "\n")); got != string(m[2]) {
			t.Errorf("%s new lines, said to be %s", got, m[2])
		}
	}
	run.finish(t)
	run.checkOut(t, want)
}

// Ctrl-C is heard while standard input is silent.
func TestInterrupted_silentInput(t *testing.T) {
	tests := []struct {
		name  string
		args  []string
		say   string
		await string // on stdout, before the interrupt
	}{
		{"dedup", []string{"dedup", "seen", "-"}, "a\nb\nhalf a line", "a\nb\n"},
		{"script", nil, "BF.RESERVE seen 0.01 100 NONSCALING\nPING\nhalf a li", "OK\nPONG\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.Command("kvshell", append([]string{"-d", filepath.Join(t.TempDir(), "store")}, tt.args...)...)
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(stdin, tt.say); err != nil {
				t.Fatal(err)
			}
			// By then the program listens to signals.
			if _, err := bufio.NewReader(stderr).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(tt.await))
			if _, err := io.ReadFull(stdout, got); err != nil || string(got) != tt.await {
				t.Fatalf("printed %q, %v; want %q", got, err, tt.await)
			}
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			checkInterrupted(t, cmd.Wait())
			if err := stdin.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
				t.Fatal(err)
			}
		})
	}
}

func checkInterrupted(t *testing.T, err error) {
	t.Helper()
	var failed *exec.ExitError
	if !errors.As(err, &failed) || failed.ExitCode() != exit.Interrupted {
		t.Fatalf("ended with %v, want exit code %d", err, exit.Interrupted)
	}
}

// Ctrl-C ends bench, and nothing that it has made stays.
func TestBench_interrupted(t *testing.T) {
	for _, made := range []string{"", "adds"} { // what is there when the signal comes
		dir := t.TempDir()
		cmd := exec.Command("kvshell", "-d", dir, "bench", "--duration", "1000h")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for {
			if found, _ := filepath.Glob(filepath.Join(dir, "kvshell-bench-*", made)); len(found) > 0 {
				break
			}
			select {
			case err := <-ended:
				t.Fatalf("ended before it was interrupted: %v: %s", err, out.Bytes())
			case <-time.After(time.Millisecond):
			}
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		checkInterrupted(t, <-ended)
		if got, want := out.String(), "kvshell: interrupted\n"; got != want {
			t.Errorf("printed %q, want %q", got, want)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left %v, %v", left, err)
		}
	}
}
