//go:build unix

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
)

// An interrupt is heard by the words that open a file while a pipe is silent, or has nobody at its other end.
func TestInterrupted_pipes(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo.x")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	store := []string{"-d", filepath.Join(dir, "store")}
	if code := runInterrupted(t, t.Context(), append(store, "SET", "k", "v")...); code != exit.OK {
		t.Fatalf("exit code %d", code)
	}
	for _, file := range []string{fifo, "-"} {
		for _, words := range [][]string{
			{"import", "new", file}, {"import", "new", file, "--from", "guava"}, {"info", file}, {"restore", file, filepath.Join(dir, "new")},
			{"import-rdb", file}, {"-f", file}, {"load", "new", file}, {"dedup", "new", file}, {"dedup", "new", file, "-o", filepath.Join(dir, "new")}, {"-x", "SET", "k"},
		} {
			checkInterruptible(t, append(store, words...))
		}
	}
	cert := filepath.Join(dir, "cert")
	if err := os.WriteFile(cert, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{
		{"export", "k", fifo}, {"export", "k", fifo, "--replace"},
		{"serve", "--config", fifo}, {"serve", "--requirepass-file", fifo}, {"serve", "--acl-file", fifo},
		{"serve", "--tls-cert", fifo, "--tls-key", fifo}, {"serve", "--tls-cert", cert, "--tls-key", fifo},
		{"serve", "--metrics-addr", "127.0.0.1:0", "--metrics-password-file", fifo},
	} {
		checkInterruptible(t, append(store, words...))
	}
	for _, words := range [][]string{{"--pass-file", fifo}, {"--tls", "--cacert", fifo}, {"--tls", "--cert", cert, "--key", fifo}} {
		checkInterruptible(t, append(words, "-h", "127.0.0.1", "PING"))
	}
	left, err := filepath.Glob(filepath.Join(dir, "new*"))
	if len(left) > 0 || err != nil {
		t.Errorf("left: %q, %v", left, err)
	}
}

// checkInterruptible runs words, which wait, and interrupts them.
func checkInterruptible(t *testing.T, words []string) {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() { ended <- runInterrupted(t, ctx, words...) }()
	interrupt()
	if code := <-ended; code != exit.Interrupted {
		t.Errorf("%q: exit code %d, want %d", words, code, exit.Interrupted)
	}
}

// runInterrupted runs words until they end, or ctx does. Standard input is silent.
func runInterrupted(t *testing.T, ctx context.Context, words ...string) int {
	r, w, err := os.Pipe()
	if err != nil {
		t.Error(err)
		return -1
	}
	sh := &shell{stdin: r, stdout: os.Stdout, stderr: tty.NewMessages(os.Stderr), name: programName}
	code := sh.run(ctx, words)
	if err := errors.Join(w.Close(), r.Close()); err != nil {
		t.Error(err)
	}
	return code
}

// A directory that is a pipe is refused. Opening it would wait for a writer.
func TestPipe_asDirectory(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{
		{"-d", fifo, "GET", "k"}, {"-d", fifo, "SET", "k", "v"}, {"-d", fifo, "--read-only", "GET", "k"}, {"-d", fifo, "check"},
		{"-d", fifo, "serve"}, {"salvage", fifo, fifo + "2"},
	} {
		if code := runInterrupted(t, t.Context(), words...); code != exit.Open {
			t.Errorf("%q: exit code %d, want %d", words, code, exit.Open)
		}
	}
}

// An interrupt is heard while nobody reads a pipe that is full.
func TestWriting_fullPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	err = writing(ctx, w, func(to io.Writer) error {
		go interrupt()
		for {
			if _, err := to.Write(make([]byte, 1<<20)); err != nil {
				return err
			}
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	if err := errors.Join(r.Close(), w.Close()); err != nil {
		t.Error(err)
	}
}

// What is written to a pipe has arrived when writing returns, and an error of the pipe is told.
func TestWriting_pipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	write := func(to io.Writer) error {
		_, err := to.Write([]byte("all of it"))
		return err
	}
	if err := errors.Join(writing(t.Context(), w, write), w.Close()); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); string(got) != "all of it" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if err := writing(t.Context(), w, write); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the error of a closed pipe is %v", err)
	}
}

// A pipe that never ends, and has no file of the kind that is asked for, is read as far as tells that, and not copied.
func TestPipe_endless(t *testing.T) {
	const most = 64 << 20 // so that this ends if all is read
	var other bytes.Buffer
	tape := tar.NewWriter(&other)
	if err := errors.Join(tape.WriteHeader(&tar.Header{Name: "notes", Size: 1 << 40}), tape.Flush()); err == nil {
		t.Fatal("the entry of a tar archive has no bytes, and it is whole")
	}
	for name, tt := range map[string]struct {
		begin []byte
		words []string // the file is put in the place of FILE
		code  int
	}{
		"no RDB file":               {nil, []string{"import-rdb", "FILE"}, exit.Corrupt},
		"half an RDB file":          {[]byte("REDIS0011\x00\xc7"), []string{"import-rdb", "FILE"}, exit.Corrupt},
		"no RDB file, compressed":   {[]byte("\x1f\x8b\x08"), []string{"import-rdb", "FILE"}, exit.Corrupt},
		"no export":                 {nil, []string{"import", "k", "FILE"}, exit.Corrupt},
		"no file of Guava":          {nil, []string{"import", "k", "FILE", "--from", "guava"}, exit.Corrupt},
		"more than a file of Guava": {[]byte("\x01\x03\x00\x00\x00\x01"), []string{"import", "k", "FILE", "--from", "guava"}, exit.Corrupt},
		"no bits-and-blooms":        {nil, []string{"import", "k", "FILE", "--from", "bits-and-blooms"}, exit.Corrupt},
		"more than one of Redisson": {nil, []string{"import", "k", "FILE", "--from", "redisson", "--bits", "640", "--hashes", "3"}, exit.Corrupt},
		"another archive":           {other.Bytes(), []string{"restore", "FILE", "NEW"}, exit.Corrupt},
		"no archive":                {[]byte("x"), []string{"restore", "FILE", "NEW"}, exit.Corrupt},
	} {
		dir := t.TempDir()
		t.Setenv("TMPDIR", t.TempDir())
		fifo := filepath.Join(dir, "fifo")
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		written := make(chan int64)
		go func() { written <- writeEndlessly(t, fifo, tt.begin, most) }()
		words := []string{"-d", filepath.Join(dir, "store")}
		for _, w := range tt.words {
			words = append(words, strings.NewReplacer("FILE", fifo, "NEW", filepath.Join(dir, "new")).Replace(w))
		}
		if code := runInterrupted(t, t.Context(), words...); code != tt.code {
			t.Errorf("%s: exit code %d, want %d", name, code, tt.code)
		}
		if n := <-written; n > 2<<20 {
			t.Errorf("%s: %d bytes were read", name, n)
		}
		if left, err := filepath.Glob(filepath.Join(os.TempDir(), "*")); len(left) > 0 || err != nil {
			t.Errorf("%s: left behind: %q, %v", name, left, err)
		}
	}
}

// writeEndlessly writes zeros to a pipe until nobody reads them, or until they are most bytes, and returns how many they were.
func writeEndlessly(t *testing.T, name string, begin []byte, most int64) (n int64) {
	to, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer to.Close()
	var w io.Writer = to
	if bytes.HasPrefix(begin, []byte("\x1f\x8b")) {
		z, _ := gzip.NewWriterLevel(to, gzip.NoCompression)
		w, begin = z, nil
	}
	if _, err := w.Write(begin); err != nil {
		t.Error(err)
	}
	for zeros := make([]byte, 64<<10); err == nil && n < most; n += int64(len(zeros)) {
		_, err = w.Write(zeros)
	}
	return n
}

// A word from standard input, and a line of a script, are not read for ever.
func TestPipe_endlessWord(t *testing.T) {
	defer func(before int) { longestWord = before }(longestWord)
	longestWord = 1 << 20
	store := filepath.Join(t.TempDir(), "store")
	for _, tt := range []struct {
		words []string
		code  int
	}{
		{[]string{"-x", "SET", "k"}, exit.Usage}, {nil, exit.Local}, {[]string{"-f", "/dev/zero"}, exit.Local},
	} {
		zero, err := os.Open("/dev/zero")
		if err != nil {
			t.Fatal(err)
		}
		sh := &shell{stdin: zero, stdout: os.Stdout, stderr: tty.NewMessages(os.Stderr), name: programName}
		if code := sh.run(t.Context(), append([]string{"-d", store}, tt.words...)); code != tt.code {
			t.Errorf("%q: exit code %d, want %d", tt.words, code, tt.code)
		}
		if err := zero.Close(); err != nil {
			t.Error(err)
		}
	}
}
