package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/cliflags"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
)

// The budgets leave a quarter of Go's limit to garbage, and that limit leaves room for the program.
func TestSharesOf(t *testing.T) {
	for memory := int64(minMemory); memory <= maxMemory; memory = memory*5/4 + 1 {
		s := sharesOf(memory)
		o := (&shell{stderr: tty.NewMessages(os.Stderr), memory: cliflags.Bytes(memory)}).options("dir", false)
		live := o.Budget() + s.clients
		if live > s.goLimit*3/4 || s.goLimit+ownMemory > memory || live < memory/4 || s.clients < 1<<20 {
			t.Errorf("%d: %d live, %+v", memory, live, s)
		}
	}
}

// runIn runs a command line in a container with the given limit in bytes, and returns its standard error.
func runIn(t *testing.T, limit int64, stdin string, args ...string) (says string, code int) {
	t.Helper()
	before := systemMemory
	systemMemory = func() int64 { return limit }
	defer func() { systemMemory = before }()
	in := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(in, []byte(stdin), 0o600); err != nil {
		t.Fatal(err)
	}
	var files [3]*os.File
	for i := range files {
		f, err := os.OpenFile(in+strings.Repeat("-", i), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	sh := &shell{stdin: files[0], stdout: files[1], stderr: tty.NewMessages(files[2]), name: programName}
	code = sh.run(context.Background(), args)
	text, err := os.ReadFile(files[2].Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text), code
}

func TestMemory_container(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		limit int64
		word  string
		flags []string
		warns string
	}{
		"no limit":                {0, "load", nil, ""},
		"enough":                  {512 * mib, "load", nil, ""},
		"too little":              {300 * mib, "load", nil, "--memory 300MiB sets all from one number"},
		"too little for dedup":    {300 * mib, "dedup", nil, `limit="300 MiB" budgets="472 MiB"`},
		"with --memory":           {300 * mib, "load", []string{"--memory", "300MiB"}, ""},
		"with the least":          {64 * mib, "load", []string{"--memory", "64MiB"}, ""},
		"with more":               {128 * mib, "load", []string{"--memory", "300MiB"}, "--memory 128MiB"},
		"with --memory, --cache":  {300 * mib, "load", []string{"--memory", "300MiB", "--cache", "256MiB"}, "--memory 300MiB"},
		"less than can be helped": {20 * mib, "load", nil, "the least that --memory can make of it is 64MiB"},
	} {
		args := append([]string{"-d", filepath.Join(t.TempDir(), "d"), "--ballast", "16KiB"}, c.flags...)
		says, code := runIn(t, c.limit, "a\nb\n", append(args, c.word, "seen", "-")...)
		if code != exit.OK || strings.Contains(says, "WARN") != (c.warns != "") || !strings.Contains(says, c.warns) {
			t.Errorf("%s: exit code %d, says %q, want %q", name, code, says, c.warns)
		}
	}
	for _, memory := range []string{"63MiB", "2TiB"} {
		if says, code := runIn(t, 0, "", "-d", "none", "--memory", memory, "PING"); code != exit.Usage || !strings.Contains(says, "must be 64MiB to 1TiB") {
			t.Errorf("--memory %s: exit code %d, says %q", memory, code, says)
		}
	}
}
