package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
	"github.com/sievekv/sievekv/internal/kvtest"
)

// Lines that XXH64 does not tell apart, whatever its seed, are different lines to dedup.
func TestDedup_chosenLines(t *testing.T) {
	dir := t.TempDir()
	items, others := kvtest.CollidingPairs(1000)
	lines := append(bytes.Join(append(items, others...), []byte("\n")), '\n')
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	if err := os.WriteFile(in, lines, 0o600); err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	sh := &shell{stdin: null, stdout: null, stderr: tty.NewMessages(os.Stderr), name: programName}
	args := []string{"-d", filepath.Join(dir, "store"), "dedup", "--error", "1e-6", "seen", "-o", out, in}
	if code := sh.run(t.Context(), args); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	got, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, lines) {
		t.Errorf("of 2000 different lines %d are in OUT", bytes.Count(got, []byte("\n")))
	}
}
