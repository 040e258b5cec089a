package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/scratch"
	"github.com/sievekv/sievekv/kv"
)

// A command opens the store once, and at most twice if it makes the store. Help, and what no store would run, need none
// in memory either; the filter that load and dedup make is planned in one.
func TestOpens(t *testing.T) {
	opened := 0
	adjust = func(o *kv.Options) {
		opened++
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
	for name, text := range map[string]string{lines: "a\nb\n", script: "NOSUCH\nGET\nBF.ADD k x\nBF.ADD k y\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		store    string
		args     []string
		opens    int
		inMemory int64
		code     int
	}{
		{"none", []string{"GET", "k"}, 1, 0, exit.Open},
		{"none", []string{"NOSUCH", "k"}, 1, 0, exit.Refused},
		{"none", []string{"GET"}, 1, 0, exit.Refused},
		{"none", []string{"help"}, 0, 0, exit.OK},
		{"none", []string{"help", "BF.ADD"}, 0, 0, exit.OK},
		{"none", []string{"help", "@bf"}, 0, 0, exit.Usage},
		{"a", []string{"BF.ADD", "k", "x"}, 2, 0, exit.OK},
		{"a", []string{"BF.ADD", "k", "x"}, 1, 0, exit.OK},
		{"a", []string{"NOSUCH", "k"}, 1, 0, exit.Refused},
		{"a", []string{"stats"}, 1, 0, exit.OK},
		{"a", []string{"stats", "k"}, 1, 0, exit.OK},
		{"a", []string{"check"}, 1, 0, exit.OK},
		{"a", []string{"compact"}, 1, 0, exit.OK},
		{"a", []string{"load", "l", lines}, 1, 1, exit.OK},
		{"a", []string{"dedup", "d", lines}, 1, 1, exit.OK},
		{"b", []string{"load", "l", lines}, 2, 1, exit.OK},
		{"c", []string{"dedup", "d", lines, "-o", filepath.Join(dir, "out")}, 2, 1, exit.OK},
		{"d", []string{"-f", script}, 2 + 2, 0, exit.Refused}, // the first two lines look whether there is a store
		{"d", []string{"-f", script}, 1, 0, exit.Refused},
	} {
		opened = 0
		before := scratch.Opened.Load()
		sh := &shell{stdin: null, stdout: null, stderr: null, name: programName}
		code := sh.run(t.Context(), append([]string{"-d", filepath.Join(dir, tt.store)}, tt.args...))
		if inMemory := scratch.Opened.Load() - before; opened != tt.opens || inMemory != tt.inMemory || code != tt.code {
			t.Errorf("%s %q: %d opens and %d in memory, exit code %d; want %d, %d, %d",
				tt.store, tt.args, opened, inMemory, code, tt.opens, tt.inMemory, tt.code)
		}
	}
}
