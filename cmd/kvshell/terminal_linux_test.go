package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal: what is written to the slave is shown, and read from the master.
type terminal struct {
	master, slave *os.File
	shown         chan []byte
}

func openTerminal(t *testing.T) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{master, slave, make(chan []byte, 1)}
	go func() {
		// Ends with EIO when nobody has the slave open any more.
		shown, _ := io.ReadAll(master)
		term.shown <- shown
	}()
	return term
}

// close returns what was shown, with plain line breaks.
func (term *terminal) close(t *testing.T) string {
	t.Helper()
	if err := term.slave.Close(); err != nil {
		t.Fatal(err)
	}
	shown := <-term.shown
	if err := term.master.Close(); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(shown), "\r\n", "\n")
}

func TestTerminal(t *testing.T) {
	const bar = "% |" // only a bar has that
	dir := t.TempDir()
	tests := []struct {
		name                  string
		stdin, stdout, stderr bool // is a terminal
		args                  []string
		code                  int
		shown                 string // on the terminal; among other things, if dots are at both ends
		piped                 string // the rest, the same way
	}{
		{name: "types", stdin: true, stdout: true, args: []string{"BF.RESERVE", "seen", "0.01", "9", "NONSCALING"}, shown: "OK\n", piped: "..."},
		{name: "types on a terminal", stdout: true, args: []string{"BF.MADD", "seen", "a"}, shown: "1) (integer) 1\n"},
		{name: "bare in a pipe", stdin: true, stderr: true, args: []string{"BF.MADD", "seen", "b"}, piped: "1\n"},
		{name: "raw on a terminal", stdout: true, args: []string{"--raw", "BF.MADD", "seen", "c"}, shown: "1\n"},
		{name: "bar", stderr: true, args: []string{"dedup", "urls", "-o", filepath.Join(dir, "out"), urlList},
			shown: "..." + bar + "...", piped: "...new                  30072\n..."},
		{name: "bar, lines in a pipe", stderr: true, args: []string{"dedup", "urls2", urlList}, shown: "..." + bar + "...", piped: "...http..."},
		{name: "bar of a backup that copies", stderr: true, args: []string{"backup", filepath.Join(dir, "copy"), "--copy"},
			shown: "..." + bar + "...", piped: "backup in ..."},
		{name: "no bar among lines", stdout: true, stderr: true, args: []string{"dedup", "urls3", filepath.Join(dir, "out")}, shown: "..."},
		{name: "no bar in a pipe", stdout: true, args: []string{"dedup", "urls4", "-o", filepath.Join(dir, "out4"), urlList}, shown: "lines read           59206\n...", piped: ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			term := openTerminal(t)
			cmd := exec.Command("kvshell", append([]string{"-d", filepath.Join(dir, "store")}, tt.args...)...)
			var piped bytes.Buffer
			cmd.Stdout, cmd.Stderr = &piped, &piped
			if tt.stdin {
				cmd.Stdin = term.slave
			}
			if tt.stdout {
				cmd.Stdout = term.slave
			}
			if tt.stderr {
				cmd.Stderr = term.slave
			}
			err := cmd.Run()
			code := 0
			if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
				code = failed.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			shown := term.close(t)
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if !strings.Contains(tt.shown, bar) && strings.Contains(shown+piped.String(), bar) {
				t.Errorf("there is a bar")
			}
			if !like(shown, tt.shown) {
				t.Errorf("the terminal shows\n%.2000s\nwant %s", shown, tt.shown)
			}
			if !like(piped.String(), tt.piped) {
				t.Errorf("the pipe has\n%.2000s\nwant %s", piped.String(), tt.piped)
			}
		})
	}
}

// like reports whether a text is as wanted; dots at an end of what is wanted stand for anything.
func like(text, want string) bool {
	middle, prefix := strings.CutPrefix(want, "...")
	middle, suffix := strings.CutSuffix(middle, "...")
	switch {
	case prefix && suffix:
		return strings.Contains(text, middle)
	case prefix:
		return strings.HasSuffix(text, middle)
	case suffix:
		return strings.HasPrefix(text, middle)
	}
	return text == middle
}
