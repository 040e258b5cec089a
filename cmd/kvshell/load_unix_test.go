//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Ctrl-C ends a run, also while standard input is silent, and names the --skip that goes on.
func TestLoad_interrupted(t *testing.T) {
	// More than the pipe and the buffers behind it hold: when it is written, lines were committed.
	const lines, said = 110_000, 100_000
	store := filepath.Join(t.TempDir(), "store")
	load := exec.Command("kvshell", "-d", store, "load", "seen", "-", "--batch=10")
	stdin, err := load.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := load.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := load.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(stdin, numbers(1, said)+"half a li"); err != nil {
		t.Fatal(err)
	}
	notes := bufio.NewReader(stderr)
	if created, err := notes.ReadString('\n'); err != nil {
		t.Fatal(created, err)
	}
	if err := load.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	told, err := io.ReadAll(notes)
	if err != nil {
		t.Fatal(err)
	}
	checkInterrupted(t, load.Wait())
	m := regexp.MustCompile(`^kvshell: interrupted; "seen" has the lines up to line (\d+), (\d+) of them new; to go on, add (--skip \d+) to the same command\n$`).FindSubmatch(told)
	if m == nil || string(m[1]) != string(m[2]) || string(m[3]) != "--skip "+string(m[1]) {
		t.Fatalf("standard error says\n%s", told)
	}

	words := strings.Fields(string(m[3]))
	rest := exec.Command("kvshell", append([]string{"-d", store, "load", "seen", "-"}, words...)...)
	rest.Stdin = strings.NewReader(numbers(1, lines))
	if output, err := rest.CombinedOutput(); err != nil || !strings.Contains(string(output), fmt.Sprintf(" (after %s skipped)\n", m[1])) {
		t.Fatalf("%v\n%s", err, output)
	}
	card, err := exec.Command("kvshell", "-d", store, "BF.CARD", "seen").Output()
	if err != nil || string(bytes.TrimSpace(card)) != fmt.Sprint(lines) {
		t.Errorf("%s lines in the end, %v; want %d", card, err, lines)
	}
}
