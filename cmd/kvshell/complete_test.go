package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/prompt"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
	"github.com/sievekv/sievekv/module"
)

// testCompleter is a completer as the prompt has it, over a store in memory with these keys.
func testCompleter(t *testing.T, keys ...string) *prompt.Completer {
	t.Helper()
	db := openScratchFor(t)
	session := module.NewSession(db)
	for _, key := range keys {
		if r := session.Do(context.Background(), [][]byte{[]byte("BF.ADD"), []byte(key), []byte("x")}); r.IsError() {
			t.Fatalf("%q: %s", key, r)
		}
	}
	sh := &shell{stdout: os.Stdout, stderr: tty.NewMessages(os.Stderr)}
	p := &interactive{shell: sh, exec: sh.storeExecutor(db)}
	return p.complete()
}

// completions returns the lines that Tab at the end of a line, or where it has a caret, may make of it.
func completions(c *prompt.Completer, line string) []string {
	left, tail, _ := strings.Cut(line, "^")
	head, words := c.Complete(left, tail)
	var lines []string
	for _, word := range words {
		lines = append(lines, head+word+tail)
	}
	return lines
}

func TestCompleter(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"urls.txt", "urls.gz", ".hidden", "with blank"} {
		if err := os.WriteFile(name, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"sub", "a directory"} {
		if err := os.Mkdir(name, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join("a directory", "file"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	sub := "sub" + string(filepath.Separator)
	c := testCompleter(t, "urls", "users", "a b", "été", "\xff\x00", "*x", "[x", "pages")
	tests := []struct {
		line string
		want []string
	}{
		// Names, in the case they are begun in.
		{"BF.MA", []string{"BF.MADD "}},
		{"bf.ma", []string{"bf.madd "}},
		{"Bf.ma", []string{"Bf.madd "}},
		{"BF.me", []string{"BF.merge", "BF.mexists"}},
		{"ded", []string{"dedup "}},
		{"DED", nil},
		{"ech", []string{"echo "}},
		{"ıNFO", nil}, // upper case is INFO, but of other length
		{"-- bf.ma", []string{"-- bf.madd "}},
		{"-- ded", nil},

		// Keys, where there are some.
		{"BF.CARD us", []string{"BF.CARD users "}},
		{"BF.CARD u", []string{"BF.CARD urls", "BF.CARD users"}},
		{"bf.card p^ x", []string{"bf.card pages x"}},
		{"BF.CARD é", []string{"BF.CARD été "}},
		{"BF.CARD a", []string{`BF.CARD "a b" `}},
		{`BF.CARD "a `, []string{`BF.CARD "a b" `}},
		{`BF.CARD 'a `, []string{`BF.CARD "a b" `}},
		{`BF.CARD "\xff`, []string{`BF.CARD "\xff\x00" `}},
		{`BF.CARD "us`, []string{`BF.CARD "users" `}},
		{"BF.CARD *", []string{"BF.CARD *x "}},
		{"BF.CARD [", []string{"BF.CARD [x "}},
		{"DEL users us", []string{"DEL users users "}},
		{"-- DEL us", []string{"-- DEL users "}},

		// Options.
		{"bf.reserve k 0.01 9 nons", []string{"bf.reserve k 0.01 9 nonscaling "}},
		{"BF.INSERT k IT", []string{"BF.INSERT k ITEMS "}},
		{"CF.RESERVE k 9 MAX", []string{"CF.RESERVE k 9 MAXITERATIONS "}},
		{"cf.info k e", []string{"cf.info k error "}},
		{"cbf.m", []string{"cbf.madd", "cbf.mdel", "cbf.merge", "cbf.mexists"}},
		{"CBF.RESERVE k 0.01 9 NONS", []string{"CBF.RESERVE k 0.01 9 NONSCALING "}},
		{"cbf.info k st", []string{"cbf.info k stuck "}},

		// Own words, with keys, files, flags and names.
		{"dedup us", []string{"dedup users "}},
		{"dedup users url", []string{"dedup users urls.gz", "dedup users urls.txt"}},
		{"dedup users su", []string{"dedup users " + sub}},
		{"dedup users a", []string{`dedup users "a directory` + string(filepath.Separator)}},
		{`dedup users "a directory/`, []string{`dedup users "a directory/file" `}},
		{"dedup users .", []string{"dedup users .hidden "}},
		{"dedup users w", []string{`dedup users "with blank" `}},
		{"dedup -o urls.t", []string{"dedup -o urls.txt "}},
		{"dedup -o urls.txt us", []string{"dedup -o urls.txt users "}},
		{"dedup --output=x us", []string{"dedup --output=x users "}},
		{"dedup --restart us", []string{"dedup --restart users "}},
		{"dedup --res", []string{"dedup --restart "}},
		{"dedup --batch 1", nil},
		{"dedup k f u", nil},
		{"load --type ", []string{"load --type bloom", "load --type cuckoo", "load --type counting"}},
		{"plan --type cu", []string{"plan --type cuckoo "}},
		{"help @bl", []string{"help @bloom "}},
		{"help @cu", []string{"help @cuckoo "}},
		{"help @cou", []string{"help @counting "}},
		{"help bf.ma", []string{"help bf.madd "}},
		{"help ded", []string{"help dedup "}},
		{"HELP ded", []string{"HELP dedup "}},
		{"output j", []string{"output json "}},

		// Nothing.
		{"nosuch x", nil},
		{`ECHO "a"b c`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			if got := completions(c, tt.line); !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// At the beginning of a word everything is offered. If one key needs quotes, all keys get quotes, so that the editor
// can insert what all of them begin with.
func TestCompleter_all(t *testing.T) {
	c := testCompleter(t, "a b", "ab")
	if got, want := completions(c, "BF.CARD "), []string{`BF.CARD "a b"`, `BF.CARD "ab"`}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	got := completions(c, "")
	for _, name := range []string{"dedup", "help", "exit", "BF.ADD", "PING"} {
		if !slices.Contains(got, name) {
			t.Errorf("%s is not among %q", name, got)
		}
	}
}

func TestCompleter_showsSyntax(t *testing.T) {
	c := testCompleter(t)
	for line, want := range map[string]string{
		"BF.ADD ":              "BF.ADD key item",
		"bf.add k ":            "BF.ADD key item",
		"dedup ":               "dedup KEY FILE|- ",
		"-- ping ":             "PING [message]",
		"nosuch ":              "",
		"-- check ":            "",
		"BF.RESERVE k 0.01 ":   "BF.RESERVE key ",
		"BF.INSERT k ITEMS x ": "BF.INSERT key ",
	} {
		if got := completions(c, line); len(got) > 0 {
			t.Errorf("%q becomes %q", line, got)
		}
		if got := c.Describe(line); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%q shows %q, want %q", line, got, want)
		}
	}
}

// In the descriptions that a shell shows, no name stands in backquotes, as it does where help is made of it.
func TestCompletion_plain(t *testing.T) {
	for _, word := range []string{"", "load", "serve", "dedup"} {
		args := []string{"__complete", word, "--"}
		if word == "" {
			args = args[:1:1]
			args = append(args, "--")
		}
		out, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		sh := &shell{stdin: os.Stdin, stdout: out, stderr: tty.NewMessages(os.Stderr)}
		code := sh.run(t.Context(), args)
		text, err := os.ReadFile(out.Name())
		if out.Close(); code != 0 || err != nil || !bytes.Contains(text, []byte("--")) || bytes.ContainsRune(text, '`') {
			t.Errorf("%q: exit code %d, %v: %s", args, code, err, text)
		}
	}
}
