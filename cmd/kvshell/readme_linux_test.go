package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
)

// What docs/SHELL.md shows of the prompt is what a newcomer sees who types it.
func TestReadme_prompt(t *testing.T) {
	_, session, found := strings.Cut(readDoc(t, "docs/SHELL.md"), "```\n$ kvshell\n")
	session, _, ended := strings.Cut("$ kvshell\n"+session, "```\n")
	if !found || !ended {
		t.Fatal("docs/SHELL.md has no session at the prompt")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Abs(filepath.Join("..", "..", "examples"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(examples, filepath.Join(dir, "examples")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	var p *typist
	for line := range strings.Lines(session) {
		line = strings.TrimSuffix(line, "\n")
		prompt, command, typed := strings.Cut(line, "> ")
		switch {
		case strings.HasPrefix(line, "$ "):
			if p != nil {
				p.ends(exit.OK)
			}
			p = at(t, nil, strings.Fields(line)[2:]...)
		case typed && (prompt == "(scratch)" || prompt == "demo"):
			p.sees(prompt + "> ")
			p.types(command + enter)
		case line != "..." && strings.TrimSpace(line) != "...":
			p.sees(line)
		}
	}
	p.ends(exit.OK)
}
