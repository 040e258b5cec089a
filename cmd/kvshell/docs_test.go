package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// docs/COMMANDS.md is what the program prints, which runs the examples for it.
func TestCommandDocs_current(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "COMMANDS.md"))
	if err != nil {
		t.Fatal(err)
	}
	output, err := exec.Command("kvshell", "help", "--markdown").Output()
	if err != nil {
		t.Fatal(err)
	}
	const differs = "docs/COMMANDS.md is not what kvshell help --markdown prints (go generate ./cmd/kvshell makes it): "
	got := strings.Split(strings.ReplaceAll(string(b), "\r\n", "\n"), "\n")
	want := strings.Split(string(output), "\n")
	for i, line := range want {
		if i >= len(got) || got[i] != line {
			t.Fatalf(differs+"line %d should be\n%s", i+1, line)
		}
	}
	if len(got) > len(want) {
		t.Errorf(differs+"it has %d lines, want %d", len(got), len(want))
	}
}
