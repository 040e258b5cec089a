// Package session records what kvshell shows on a terminal, and draws it: the picture of the README.
package session

//go:generate go run ./draw -o ../../docs/session.svg

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/creack/pty"
)

// Line is a line on the terminal: a prompt with what is typed behind it, or what a program prints.
type Line struct {
	Prompt, Typed string
	Printed       string // behind the prompt, if there is one
	Note          string // what the reader is told beside it
}

// Commands are what is typed to each of two processes. The first is killed after its commands.
var Commands = [2][]string{
	{
		"BF.RESERVE seen 0.001 1000000",
		"BF.ADD seen https://example.org/",
		"BF.ADD seen https://example.org/",
		"CF.ADD revoked token-17",
		"CF.DEL revoked token-17",
		"MULTI",
		"BF.ADD seen order:17",
		`SET order:17 "two apples"`,
		"EXEC",
	},
	{
		"BF.EXISTS seen order:17",
		"GET order:17",
		"CF.EXISTS revoked token-17",
		"BF.INFO seen ITEMS",
	},
}

// Record runs kvshell, which is at a path or on the PATH, on a terminal of its own, types the commands, and returns
// what is on the terminal then.
func Record(kvshell string) (lines []Line, err error) {
	dir, err := os.MkdirTemp("", "session")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for _, commands := range Commands {
		if n := len(lines); n > 0 {
			lines[n-1].Printed, lines[n-1].Note = "Killed", "kill -9, from another terminal"
		}
		lines = append(lines, Line{Prompt: "$ ", Typed: "kvshell -d demo"})
		cmd := exec.Command(kvshell, "-d", "demo")
		cmd.Dir = dir
		// On a terminal without a cursor the lines are as they were typed, without what an editor sends.
		cmd.Env = append(os.Environ(), "TERM=dumb", "SIEVEKV_HISTFILE=")
		shown, err := record(cmd, commands)
		if err != nil {
			return nil, err
		}
		lines = append(lines, shown...)
	}
	return lines, nil
}

// record starts kvshell, types the commands, and kills it.
func record(cmd *exec.Cmd, commands []string) (lines []Line, err error) {
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: columns})
	if err != nil {
		return nil, err
	}
	killed := false
	kill := func() error {
		killed = true
		if err := cmd.Process.Kill(); err != nil {
			return err
		}
		return expectKilled(cmd.Wait())
	}
	defer func() {
		if !killed {
			err = errors.Join(err, kill())
		}
		err = errors.Join(err, tty.Close())
	}()
	for _, command := range append(slices.Clone(commands), "") {
		shown, prompt, err := untilPrompt(tty)
		if err != nil {
			return nil, fmt.Errorf("before %q: %w", command, err)
		}
		if n := len(lines); n > 0 {
			// The terminal shows what is typed.
			var echoed bool
			if shown, echoed = strings.CutPrefix(shown, lines[n-1].Typed+"\n"); !echoed {
				return nil, fmt.Errorf("after %q the terminal shows %q", lines[n-1].Typed, shown)
			}
		}
		for line := range strings.Lines(shown) {
			lines = append(lines, Line{Printed: strings.TrimSuffix(line, "\n")})
		}
		lines = append(lines, Line{Prompt: prompt, Typed: command})
		if command == "" {
			break
		}
		if _, err := io.WriteString(tty, command+"\n"); err != nil {
			return nil, err
		}
	}
	return lines, kill()
}

func expectKilled(err error) error {
	var exited *exec.ExitError
	if errors.As(err, &exited) {
		if status, ok := exited.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return nil
		}
	}
	return fmt.Errorf("kvshell was killed, and its end is %v", err)
}

var promptAtEnd = regexp.MustCompile(`(^|\n)(demo(?:\(TX\))?> )$`)

// untilPrompt reads what the terminal shows up to the next prompt, with plain line breaks.
func untilPrompt(tty io.Reader) (shown, prompt string, err error) {
	b := make([]byte, 4096)
	for {
		n, err := tty.Read(b)
		shown += strings.ReplaceAll(string(b[:n]), "\r", "")
		if at := promptAtEnd.FindStringSubmatchIndex(shown); at != nil {
			return shown[:at[4]], shown[at[4]:], nil
		}
		if err != nil {
			return "", "", fmt.Errorf("%w after %q", err, shown)
		}
	}
}
