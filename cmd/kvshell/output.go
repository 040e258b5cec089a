package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/edit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
)

// into runs a function whose standard output a program reads, which has the terminal meanwhile. A program that does not read all
// is no error.
func (p *interactive) into(program string, run func() error) (err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return exit.WithCode(exit.Local, err)
	}
	takeBack, err := p.editor.Lend()
	if err != nil {
		return errors.Join(err, r.Close(), w.Close())
	}
	cmd := shellCommand(program)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r, p.shell.stdout, p.shell.stderr.File()
	cmd.Env = append(os.Environ(), "LESS="+cmp.Or(os.Getenv("LESS"), "FRX"))
	err = errors.Join(cmd.Start(), r.Close())
	if err == nil {
		terminal := p.shell.stdout
		p.shell.stdout = w
		err = run()
		p.shell.stdout = terminal
		if errors.Is(err, syscall.EPIPE) {
			err = nil
		}
		err = errors.Join(err, w.Close(), failure(program, cmd.Wait()))
	} else {
		err = errors.Join(err, w.Close())
	}
	return errors.Join(err, takeBack())
}

// shellCommand returns what runs a program with its arguments as a user writes them.
func shellCommand(program string) *exec.Cmd {
	if runtime.GOOS == "windows" {
		return exec.Command("cmd", "/C", program)
	}
	return exec.Command("sh", "-c", program)
}

// failure returns the error of a program, with its name.
func failure(program string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("| %s: %w", strings.TrimSpace(program), err)
}

// pagerVariable names the program that shows long replies; if it is set and empty, none does.
const pagerVariable = "PAGER"

// showLong shows a reply, with its types in colours or without. One that is longer than the screen is shown a page at a time, unless
// more was typed or pasted that waits.
func (p *interactive) showLong(text []byte, colors bool) error {
	sh := p.shell
	pager, given := os.LookupEnv(pagerVariable)
	t := &tty.Pager{Stdin: sh.stdin, Stdout: sh.stdout, Keys: sh.keyboard()}
	width, height, err := term.GetSize(int(sh.stdout.Fd()))
	if err != nil || width < 2 || height < 3 || !t.CanWait() {
		return sh.put(text)
	}
	rows := edit.Rows(string(text), width)
	isLong := len(rows) >= height && !p.editor.Waits()
	if isLong && given && pager != "" {
		return p.into(pager, func() error { return sh.put(text) })
	}
	for i, row := range rows {
		if colors && (i == 0 || strings.HasSuffix(rows[i-1], "\n")) {
			rows[i] = tty.PaintLabels(row)
		}
	}
	if isLong && !given {
		return t.Rows(sh.interrupted, rows, height)
	}
	return sh.put([]byte(strings.Join(rows, "")))
}

func (p *interactive) timerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "timer on|off", Aliases: []string{".timer"}, Short: "Says whether to tell how long each command takes", Args: exactArgs(1),
		RunE: func(_ *cobra.Command, args []string) (err error) {
			on, err := isOn("timer", args[0])
			if err == nil {
				p.timer = on
			}
			return err
		},
	}
}

// took tells how long the last command took.
func (p *interactive) took() {
	if p.timer {
		fmt.Fprintf(p.shell.stderr, "(%.3f ms)\n", float64(p.shell.lasted.Microseconds())/1000)
	}
}
