package main

import (
	"encoding/xml"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/tests/session"
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

// The README's picture is of what kvshell prints.
func TestReadme_picture(t *testing.T) {
	const picture = "docs/session.svg"
	if !strings.Contains(readDoc(t, "README.md"), "]("+picture+")") {
		t.Errorf("README.md does not show %s", picture)
	}
	lines, err := session.Record("kvshell")
	if err != nil {
		t.Fatal(err)
	}
	drawn := string(session.Draw(lines))
	if err := xml.Unmarshal([]byte(drawn), new(struct{})); err != nil {
		t.Errorf("it is not XML: %v", err)
	}
	if len(drawn) > 60_000 {
		t.Errorf("it has %d bytes, want at most 60000", len(drawn))
	}
	begins := regexp.MustCompile(`animation-delay:([0-9]+)ms`).FindAllStringSubmatchIndex(drawn, -1)
	if !strings.Contains(drawn[:begins[0][0]], ">"+lines[0].Typed+"<") {
		t.Errorf("%q is not there from the start", lines[0].Typed)
	}
	last := begins[len(begins)-1]
	if at, err := strconv.Atoi(drawn[last[2]:last[3]]); err != nil || at > 12_000 {
		t.Errorf("the last line is shown after %d ms, want at most 12000 (%v)", at, err)
	}
	shown := strings.Split(readDoc(t, picture), "\n")
	for i, line := range strings.Split(drawn, "\n") {
		if i >= len(shown) || shown[i] != line {
			t.Fatalf("%s is out of date (go generate ./tests/session draws it): line %d should be\n%s", picture, i+1, line)
		}
	}
	if n := strings.Count(drawn, "\n") + 1; len(shown) != n {
		t.Errorf("%s has %d lines, want %d", picture, len(shown), n)
	}
}

// What the documents show of kvshell with -p 6380, the port of kvshell serve, is what a server answers.
func TestDocs_server(t *testing.T) {
	const port = "6380"
	block := regexp.MustCompile("(?m)^```\\n(?s:(.*?))^```\\n|((?:^    .*\\n)+)")
	for file, want := range map[string]int{"docs/SHELL.md": 3, "docs/SERVER.md": 2} {
		s := serveStore(t, filepath.Join(t.TempDir(), "store"), 1, "--addr", "127.0.0.1:0")
		_, free, err := net.SplitHostPort(s.addrs[0])
		if err != nil {
			t.Fatal(err)
		}
		ran := 0
		for _, found := range block.FindAllStringSubmatch(readDoc(t, file), -1) {
			session := found[1] + strings.TrimPrefix(strings.ReplaceAll("\n"+found[2], "\n    ", "\n"), "\n")
			if strings.Contains(session, "-p "+port) {
				ran += replayClient(t, strings.ReplaceAll(session, port, free))
			}
		}
		if ran < want {
			t.Errorf("%s: %d commands were run, want at least %d", file, ran, want)
		}
		s.stop(t, syscall.SIGTERM)
	}
}

// replayClient runs the commands of a session behind "$ ", and types those behind another prompt. It returns how many
// of the first kind there were.
func replayClient(t *testing.T, session string) (ran int) {
	t.Helper()
	typed := regexp.MustCompile(`(?m)^[0-9.]+:[0-9]+(?:\(TX\))?> (.*)$`)
	for _, part := range strings.Split("\n"+session, "\n$ ")[1:] {
		ran++
		command, want, _ := strings.Cut(part, "\n")
		var got string
		if lines := typed.FindAllStringSubmatch(want, -1); len(lines) > 0 {
			// On a terminal without a cursor the lines are as they were typed.
			p := at(t, []string{"TERM=dumb"}, strings.Fields(command)[1:]...)
			for _, line := range lines {
				got += p.sees("> ") + "> "
				p.types(line[1] + "\n")
			}
			got += p.ends(exit.OK)
		} else {
			output, err := exec.Command("sh", "-c", command).CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v", command, err)
			}
			got = string(output)
		}
		if got = strings.TrimSpace(got); got != strings.TrimSpace(want) {
			t.Errorf("%s\n%s\nwant\n%s", command, got, want)
		}
	}
	return ran
}
