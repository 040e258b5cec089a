package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/module"
)

func readReadme(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(b), "\r\n", "\n")
}

// The README's table names the commands of the command table, by group.
func TestReadme_commands(t *testing.T) {
	db, err := openForExample()
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string][]string)
	for _, c := range module.Of(db).Commands() {
		names[c.Group] = append(names[c.Group], "`"+c.Name+"`")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	for _, group := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(&table, "| %s | %s |\n", group, strings.Join(names[group], " "))
	}
	if !strings.Contains(readReadme(t), "| group | commands |\n|---|---|\n"+table.String()+"\n") {
		t.Errorf("README.md does not have this table of commands:\n%s", table.String())
	}
}

// What dedup prints is what the README shows, but for what differs from run to run.
func TestReadme_dedup(t *testing.T) {
	varies := regexp.MustCompile(`(?m)^(rate|on disk) +\d+ `)
	readme := varies.ReplaceAllString(readReadme(t), "$1 ")
	dir := t.TempDir()
	for range 2 {
		cmd := exec.Command("kvshell", "-d", filepath.Join(dir, "demo"), "dedup", "seen", "-o", filepath.Join(dir, "new-urls.txt"), urlList)
		output, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if shown := varies.ReplaceAllString(string(output), "$1 "); !strings.Contains(readme, shown+"```\n") {
			t.Errorf("README.md does not show\n%s", output)
		}
	}
}

// The README's tables of sizes are what is printed.
func TestReadme_sizes(t *testing.T) {
	output, err := exec.Command("kvshell", "plan", "--table").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(readReadme(t), "```\n"+string(output)+"```\n") {
		t.Errorf("README.md does not show\n%s", output)
	}
}

// The README's session with kvshell gives these replies.
func TestReadme_session(t *testing.T) {
	_, session, found := strings.Cut(readReadme(t), "```\n$ ")
	session, _, ended := strings.Cut("\n$ "+session, "```\n")
	if !found || !ended {
		t.Fatal("README.md has no session")
	}
	dir := t.TempDir()
	for _, part := range strings.Split(session, "\n$ ")[1:] {
		line, replies, _ := strings.Cut(part+"\n", "\n")
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir = dir
		output, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if got, want := strings.TrimSpace(string(output)), strings.TrimSpace(replies); got != want {
			t.Errorf("%s\n%s\nwant\n%s", line, got, want)
		}
	}
}

// The README's program does what is said below it.
func TestReadme_program(t *testing.T) {
	_, rest, found := strings.Cut(readReadme(t), "```go\n")
	program, rest, ended := strings.Cut(rest, "```\n\nprints\n\n```\n")
	want, _, shown := strings.Cut(rest, "```\n")
	if !found || !ended || !shown {
		t.Fatal("README.md has no program with its output")
	}
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte(program), 0o666); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.Command("go", "build", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	cmd := exec.Command(binary)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	got, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	if string(got) != want {
		t.Errorf("prints\n%s\nwant\n%s", got, want)
	}
}
