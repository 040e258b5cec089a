package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/module"
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

// Every command has an example of its own, and none is answered with an error, alone or within an array.
func TestRunExamples(t *testing.T) {
	runs, err := runExamples(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var ran []string
	for _, run := range runs {
		name, _, _ := strings.Cut(run.lines[len(run.lines)-1], " ")
		if name != run.command.Name {
			t.Errorf("%s: the example is of %q", run.command.Name, name)
		}
		for i, r := range run.replies {
			if exit.ReplyCode(r) != exit.OK {
				t.Errorf("%s: the reply is %s", run.lines[i], r)
			}
		}
		ran = append(ran, run.command.Name)
	}
	for _, c := range module.Of(openScratchFor(t)).Commands() {
		if !slices.Contains(ran, c.Name) {
			t.Errorf("the example of %s was not run", c.Name)
		}
	}
	for _, name := range examplesVary {
		if !slices.Contains(ran, name) {
			t.Errorf("examplesVary has %s, which is no command", name)
		}
	}
}
