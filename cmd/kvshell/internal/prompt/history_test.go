package prompt

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestIsKept(t *testing.T) {
	kept := []string{
		"BF.ADD seen x", "GET user:auth", "BF.ADD seen AUTH", "SET -a-key x", "HELLO 3", "CONFIG SET cache 5",
		"CONFIG GET dir", `ECHO "unclosed`, "# a comment", "BF.ADD seen http://example.org/", "DEL k", "ECHO a@b",
	}
	for _, line := range kept {
		if !isKept(line) {
			t.Errorf("%s is not kept", line)
		}
	}
	left := []string{
		"", "   ", " BF.ADD seen x", "\tGET k",
		"AUTH secret", "auth user secret", `AUTH "unclosed`, `"AUTH" secret`, "AUHT secret", "AUT secret",
		"HELLO 3 AUTH user secret", "hello 3 auth user secret", "MIGRATE h 1 k 0 9 AUTH2 u secret",
		"CONFIG SET requirepass secret", "config set masterauth secret", "CONFIG SET dir x requirepass secret",
		"ACL SETUSER me >secret", "-- AUTH secret", "-- CONFIG SET requirepass secret", "HELO 3 AUTH default secret",
		"CONFG SET requirepass secret", "push redis://:s#cret@host", "push redis://:s%cret@host:1/0",
		"pull -a secret", "pull --pass secret", "pull --password=secret", "BF.ADD k PASSWORD secret",
		"pull redis://:secret@host/", `pull 'redis://user:secret@host/' "`,
	}
	for _, line := range left {
		if isKept(line) {
			t.Errorf("%q is kept", line)
		}
	}
}

func TestHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "history")
	t.Setenv(HistoryVariable, path)
	open := func() (*history, []string) {
		t.Helper()
		h, lines, err := openHistory()
		if err != nil {
			t.Fatal(err)
		}
		return h, lines
	}
	add := func(h *history, line string) {
		t.Helper()
		if err := h.add(line); err != nil {
			t.Fatal(err)
		}
	}

	h, lines := open()
	if len(lines) > 0 {
		t.Errorf("a new history has %q", lines)
	}
	other, _ := open() // another process
	add(h, "one")
	add(h, "one")
	add(other, "two")
	add(h, "three")
	add(h, strings.Repeat("x", maxHistoryLine+1))
	if _, lines = open(); !slices.Equal(lines, []string{"one", "two", "three"}) {
		t.Errorf("lines are %q", lines)
	}
	checkMode(t, path)

	for i := range 3*historyLimit + 5 {
		add(h, fmt.Sprint("line ", i))
		if n := countLines(t, path); n > 2*historyLimit {
			t.Fatalf("the file has %d lines", n)
		}
	}
	_, lines = open()
	if n := len(lines); n != historyLimit || lines[n-1] != fmt.Sprint("line ", 3*historyLimit+4) {
		t.Errorf("%d lines, the last is %q", n, lines[n-1])
	}
	checkMode(t, path)
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("beside the file there are %v, %v", entries, err)
	}
}

func countLines(t *testing.T, path string) int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(b), "\n")
}

func checkMode(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v", info.Mode())
	}
}

// A file that others may read is made private, and lines that cannot be recalled are passed over.
func TestHistory_foreignFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	t.Setenv(HistoryVariable, path)
	text := "one\r\n\xff\n\n" + strings.Repeat("x", maxHistoryLine+1) + "\ntwo"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	h, lines, err := openHistory()
	if err != nil || !slices.Equal(lines, []string{"one", "two"}) {
		t.Fatalf("lines are %q, %v", lines, err)
	}
	if err := h.add("three"); err != nil {
		t.Fatal(err)
	}
	checkMode(t, path)
}

func TestHistory_none(t *testing.T) {
	t.Setenv(HistoryVariable, "")
	h, lines, err := openHistory()
	if h != nil || lines != nil || err != nil {
		t.Errorf("%v, %q, %v", h, lines, err)
	}
	if err := h.add("line"); err != nil {
		t.Error(err)
	}
}

func TestHistoryPath(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(HistoryVariable, "") // so that it is restored
	if err := os.Unsetenv(HistoryVariable); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", dir)
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	if got, err := historyPath(); err != nil || got != filepath.Join(dir, "state", "sievekv", "history") {
		t.Errorf("%s, %v", got, err)
	}
	t.Setenv("XDG_STATE_HOME", "relative")
	if got, err := historyPath(); err != nil || strings.Contains(got, "relative") || !filepath.IsAbs(got) {
		t.Errorf("%s, %v", got, err)
	}
}
