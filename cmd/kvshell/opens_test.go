package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/tests/faultfs"
)

// A command opens the store once, and at most twice if it makes the store. A write is tried in a store in memory before
// it makes one. Nothing else needs that: help, plans, checks of flags and answers to commands that no store would run
// are made from the table of modules alone.
func TestOpens(t *testing.T) {
	opened, tries := 0, 0
	adjust = func(o *kv.Options) {
		if o.InMemory {
			tries++
		} else {
			opened++
		}
		o.BallastSize = -1
	}
	defer func() { adjust = nil }()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	dir := t.TempDir()
	lines, script := filepath.Join(dir, "lines"), filepath.Join(dir, "script")
	for name, text := range map[string]string{lines: "a\nb\n", script: "NOSUCH\nGET\nBF.RESERVE k 2 10\nBF.ADD k x\nBF.ADD k y\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		store string
		args  []string
		opens int
		tries int // stores in memory
		code  int
	}{
		{"none", []string{"GET", "k"}, 1, 0, exit.Open},
		{"none", []string{"NOSUCH", "k"}, 1, 0, exit.Refused},
		{"none", []string{"GET"}, 1, 0, exit.Refused},
		{"none", []string{"EXEC", "k"}, 1, 0, exit.Refused}, // with a reply of its own
		{"none", []string{"help"}, 0, 0, exit.OK},
		{"none", []string{"help", "BF.ADD"}, 0, 0, exit.OK},
		{"none", []string{"help", "@bf"}, 0, 0, exit.Usage},
		{"none", []string{"plan", "--capacity", "1M", "--error", "0.01"}, 0, 0, exit.OK},
		{"none", []string{"plan", "--capacity", "1M", "--error", "0.01", "--type", "cuckoo"}, 0, 0, exit.OK},
		{"none", []string{"plan", "--capacity", "1M", "--error", "0.01", "--type", "counting"}, 0, 0, exit.OK},
		{"none", []string{"plan", "--capacity", "1M", "--error", "2"}, 0, 0, exit.Usage},
		{"none", []string{"plan", "--table"}, 0, 0, exit.OK},
		{"none", []string{"load", "l", lines, "--error", "2"}, 0, 0, exit.Usage},
		{"none", []string{"dedup", "d", lines, "--capacity", "0"}, 0, 0, exit.Usage},
		{"none", []string{"serve", "--set", "nosuch=1"}, 0, 0, exit.Usage},
		{"none", []string{"serve", "--acl-file", lines}, 0, 0, exit.Local},
		{"none", []string{"serve", "--set", "timeout=5", "--addr", "nowhere"}, 0, 0, exit.Usage},
		{"none", []string{"serve", "--set", "timeout=5", "--addr", "192.0.2.1:6380"}, 1, 0, exit.Open}, // no machine's
		{"none", []string{"BF.RESERVE", "k", "2", "10"}, 1, 1, exit.Refused},
		{"none", []string{"CONFIG", "NOSUCH"}, 1, 0, exit.Refused},
		{"a", []string{"BF.ADD", "k", "x"}, 2, 1, exit.OK},
		{"a", []string{"BF.ADD", "k", "x"}, 1, 0, exit.OK},
		{"a", []string{"NOSUCH", "k"}, 1, 0, exit.Refused},
		{"a", []string{"stats"}, 1, 0, exit.OK},
		{"a", []string{"stats", "k"}, 1, 0, exit.OK},
		{"a", []string{"check"}, 1, 0, exit.OK},
		{"a", []string{"compact"}, 1, 0, exit.OK},
		{"a", []string{"load", "l", lines}, 1, 0, exit.OK},
		{"a", []string{"dedup", "d", lines}, 1, 0, exit.OK},
		{"b", []string{"load", "l", lines}, 2, 0, exit.OK},
		{"c", []string{"dedup", "d", lines, "-o", filepath.Join(dir, "out")}, 2, 0, exit.OK},
		{"d", []string{"-f", script}, 3 + 2, 2, exit.Refused}, // the first three lines look whether there is a store
		{"d", []string{"-f", script}, 1, 0, exit.Refused},
	} {
		opened, tries = 0, 0
		sh := &shell{stdin: null, stdout: null, stderr: tty.NewMessages(null), name: programName}
		code := sh.run(t.Context(), append([]string{"-d", filepath.Join(dir, tt.store)}, tt.args...))
		if opened != tt.opens || tries != tt.tries || code != tt.code {
			t.Errorf("%s %q: %d opens, %d tries, exit code %d; want %d, %d, %d",
				tt.store, tt.args, opened, tries, code, tt.opens, tt.tries, tt.code)
		}
	}
}

// The error of opening a store that cannot be written names the flag with which it can be read.
func TestOpens_unwritable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	run := func(args ...string) (output string, code int) {
		return outputOf(t, append([]string{"-d", dir}, args...)...)
	}
	if text, code := run("SET", "k", "v"); code != exit.OK {
		t.Fatal(text)
	}
	defer func() { adjust = nil }()
	for _, locks := range []bool{false, true} {
		adjust = func(o *kv.Options) {
			o.FS, o.BallastSize = faultfs.Unwritable(vfs.Default, syscall.EROFS, locks || o.ReadOnly), -1
		}
		text, code := run("GET", "k")
		if code != exit.Open || !strings.HasSuffix(text, "; a store that cannot be written can be read with --read-only\n") {
			t.Errorf("with a lock: %v, exit code %d: %s", locks, code, text)
		}
	}
	if text, code := run("--read-only", "GET", "k"); code != exit.OK || text != "v\n" {
		t.Errorf("read-only: exit code %d, %s", code, text)
	}
}

// outputOf runs kvshell, and returns all that it prints.
func outputOf(t *testing.T, args ...string) (output string, code int) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	sh := &shell{stdin: out, stdout: out, stderr: tty.NewMessages(out), name: programName}
	code = sh.run(t.Context(), args)
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text), code
}

// smallFS is an empty file system of 100 MiB.
type smallFS struct{ vfs.FS }

func (smallFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: 100 << 20, TotalBytes: 100 << 20}, nil
}

// On a file system that is too small for the free space that the store keeps, kvshell names the flags that help, and they
// help.
func TestOpens_smallDisk(t *testing.T) {
	adjust = func(o *kv.Options) {
		if !o.InMemory {
			o.FS = smallFS{vfs.Default}
		}
	}
	defer func() { adjust = nil }()
	dir := filepath.Join(t.TempDir(), "store")
	const help = "--memtable 256KiB --ballast 16KiB"
	if text, code := outputOf(t, "-d", dir, "SET", "k", "v"); code != exit.Local || !strings.Contains(text, "\nnote: "+dir+": the whole file system") || !strings.Contains(text, help) {
		t.Errorf("exit code %d: %s", code, text)
	}
	if text, code := outputOf(t, append(strings.Fields(help), "-d", dir, "SET", "k", "v")...); code != exit.OK || text != "OK\n" {
		t.Errorf("with %s, exit code %d: %s", help, code, text)
	}
}

// TestOpens counts the stores that open opens. No other code opens one, except the code that runs the examples of the
// commands.
func TestOpens_elsewhere(t *testing.T) {
	var openers []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		code, err := os.ReadFile(path)
		if strings.Contains(string(code), "kv.Open(") {
			openers = append(openers, filepath.ToSlash(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"internal/reference/reference.go", "internal/servertest/servertest.go", "store.go"}; !slices.Equal(openers, want) {
		t.Errorf("stores are opened in %q, want %q", openers, want)
	}
}
