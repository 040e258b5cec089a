package main

import (
	"bytes"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// readDoc returns a document, by its path in the repository.
func readDoc(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(b), "\r\n", "\n")
}

// What dedup prints is what the README shows, except for figures that differ from run to run. The second time it finds
// nothing new.
func TestReadme_dedup(t *testing.T) {
	varies := regexp.MustCompile(`(?m)^(rate|on disk) +\d+ `)
	readme := varies.ReplaceAllString(readDoc(t, "README.md"), "$1 ")
	dir := t.TempDir()
	for run := range 2 {
		cmd := exec.Command("kvshell", "-d", filepath.Join(dir, "demo"), "dedup", "seen", "-o", filepath.Join(dir, "new-urls.txt"), urlList)
		output, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		shown := varies.ReplaceAllString(string(output), "$1 ")
		if run == 0 && !strings.Contains(readme, shown+"```\n") {
			t.Errorf("README.md does not show\n%s", output)
		}
		if run == 1 && !strings.Contains(shown, "\nnew                  0\n") {
			t.Errorf("the second time it prints\n%s", output)
		}
	}
}

// The tables of docs/SIZES.md are what is printed.
func TestReadme_sizes(t *testing.T) {
	output, err := exec.Command("kvshell", "plan", "--table").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(readDoc(t, "docs/SIZES.md"), "```\n"+string(output)+"```\n") {
		t.Errorf("docs/SIZES.md does not show\n%s", output)
	}
}

// The sessions with kvshell in the documents give these replies. The sessions of a document have one directory.
func TestReadme_session(t *testing.T) {
	for file, want := range map[string]int{"README.md": 1, "docs/BITMAPS.md": 2, "docs/PORTABLE.md": 3, "docs/OPERATING.md": 2} {
		sessions := regexp.MustCompile("(?s)```(\n\\$ .*?)```\n").FindAllStringSubmatch(readDoc(t, file), -1)
		if len(sessions) != want {
			t.Errorf("%s has %d sessions, want %d", file, len(sessions), want)
		}
		dir := t.TempDir()
		for _, session := range sessions {
			testSession(t, dir, session[1])
		}
	}
}

// testSession runs the lines of a session that begin with a dollar sign in a directory.
func testSession(t *testing.T, dir, session string) {
	t.Helper()
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

// The README is short: what is longer has a document of its own.
func TestReadme_length(t *testing.T) {
	if n := strings.Count(readDoc(t, "README.md"), "\n"); n > 250 {
		t.Errorf("README.md has %d lines, want at most 250", n)
	}
}

// What one document says of another is a link that leads there.
func TestDocs_links(t *testing.T) {
	root := filepath.Join("..", "..")
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`)
	seen := 0
	for _, file := range append(files, more...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range link.FindAllSubmatch(text, -1) {
			to := string(found[1])
			if strings.Contains(to, "://") {
				continue
			}
			seen++
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), filepath.FromSlash(to))); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", filepath.Base(file), to)
			}
		}
	}
	if seen < 20 {
		t.Errorf("%d links were found, want more", seen)
	}
}

// The programs in the documents print what is said below them.
func TestReadme_program(t *testing.T) {
	for file, most := range map[string]int{"README.md": 35, "docs/GUARD.md": 25} {
		programs := strings.Split(readDoc(t, file), "```go\npackage main\n")[1:]
		if len(programs) != 1 {
			t.Errorf("%s has %d programs, want 1", file, len(programs))
		}
		for _, program := range programs {
			testProgram(t, program)
			source, _, _ := strings.Cut(program, "```")
			if lines := 1 + len(regexp.MustCompile(`(?m)^.*\S.*$`).FindAllString(source, -1)); lines > most {
				t.Errorf("the program in %s has %d lines that are not empty, want at most %d", file, lines, most)
			}
		}
	}
}

// testProgram runs a program, and compares what it prints with what follows it.
func testProgram(t *testing.T, text string) {
	t.Helper()
	program, rest, ended := strings.Cut(text, "```\n\nprints\n\n```\n")
	want, _, shown := strings.Cut(rest, "```\n")
	if !ended || !shown {
		t.Fatal("a program is without its output")
	}
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte("package main\n"+program), 0o666); err != nil {
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

// What the documents show of Go, whole programs apart, is part of an example that runs.
func TestDocs_snippets(t *testing.T) {
	examples := exampleBodies(t)
	fence := regexp.MustCompile("(?s)```go\n(.*?)```\n")
	for file, want := range map[string]int{"docs/GO.md": 3, "docs/GUARD.md": 5, "docs/SERVER.md": 1, "docs/BITMAPS.md": 1} {
		snippets := fence.FindAllStringSubmatch(readDoc(t, file), -1)
		if len(snippets) < want {
			t.Errorf("%s has %d snippets, want at least %d", file, len(snippets), want)
		}
		for _, found := range snippets {
			// The example listens on another port.
			snippet := strings.ReplaceAll(found[1], `"127.0.0.1:6380"`, "addr")
			if strings.HasPrefix(snippet, "package main\n") {
				continue // TestReadme_program runs it
			}
			if !slices.ContainsFunc(examples, func(body string) bool { return strings.Contains(body, withoutIndent(snippet)) }) {
				t.Errorf("%s: no example has\n%s", file, snippet)
			}
		}
	}
}

// exampleBodies returns the examples of the repository that have an output, without indentation.
func exampleBodies(t *testing.T) (bodies []string) {
	t.Helper()
	var files []string
	for _, pattern := range []string{"*_test.go", filepath.Join("*", "example*_test.go")} {
		found, err := filepath.Glob(filepath.Join("..", "..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, example := range doc.Examples(parsed) {
			if example.Output != "" {
				from, to := set.Position(example.Code.Pos()).Offset, set.Position(example.Code.End()).Offset
				bodies = append(bodies, withoutIndent(string(text[from:to])))
			}
		}
	}
	return bodies
}

// withoutIndent returns a text whose lines begin behind their indentation, with a line break before the first and
// after the last.
func withoutIndent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("\n" + strings.TrimSpace(line))
	}
	return b.String() + "\n"
}
