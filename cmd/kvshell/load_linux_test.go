package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// There is a bar, with a rate and the time that is left, where standard error is a terminal, and only there.
func TestLoad_bar(t *testing.T) {
	dir := t.TempDir()
	for _, onTerminal := range []bool{true, false} {
		term := openTerminal(t)
		cmd := exec.Command("kvshell", "-d", filepath.Join(dir, "store"), "load", "seen", urlList, "--batch=512")
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if onTerminal {
			cmd.Stderr = term.slave
		}
		err := cmd.Run()
		shown := term.close(t)
		if err != nil {
			t.Fatalf("%v\n%s%s", err, shown, stderr.Bytes())
		}
		if bar := regexp.MustCompile(`\d+ lines, \d+/s +\d+% \|[^\r]*\[\d+s:\d+s\]`); bar.MatchString(shown) != onTerminal {
			t.Errorf("on a terminal: %t; it shows\n%.1000q", onTerminal, shown)
		}
		if strings.Contains(stderr.String(), "%") {
			t.Errorf("in a pipe there is\n%s", stderr.Bytes())
		}
		if !strings.HasPrefix(stdout.String(), "lines read           59206\n") {
			t.Errorf("printed\n%s", stdout.Bytes())
		}
	}
}
