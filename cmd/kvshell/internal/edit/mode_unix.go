//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package edit

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// termMode changes the mode of a terminal. While commands run, the terminal passes on what is typed without waiting for the
// end of a line, and does not show it: a line that it edits itself has a bounded length, and the prompt shows it later. No
// change drops what was typed.
type termMode struct {
	fd    int
	first unix.Termios
}

// newMode returns the mode of a terminal.
func newMode(in *os.File) (mode, error) {
	t, err := unix.IoctlGetTermios(int(in.Fd()), ioctlGet)
	if err != nil {
		return nil, err
	}
	return &termMode{fd: int(in.Fd()), first: *t}, nil
}

func (m *termMode) edit() {
	t := m.read()
	t.Lflag &^= unix.ISIG
	t.Iflag &^= unix.IXON
	m.set(&t)
}

func (m *termMode) run() {
	t := m.read()
	m.set(&t)
}

// read returns the mode in which keys are read one by one.
func (m *termMode) read() unix.Termios {
	t := m.first
	t.Iflag &^= unix.ICRNL | unix.INLCR | unix.IGNCR | unix.ISTRIP
	t.Lflag &^= unix.ICANON | unix.ECHO | unix.IEXTEN
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	return t
}

func (m *termMode) restore() { m.set(&m.first) }

// set sets the mode. An error is no news: reading the terminal has the same.
func (m *termMode) set(t *unix.Termios) { _ = unix.IoctlSetTermios(m.fd, ioctlSet, t) }

// hasInput returns a function that reports whether a terminal has bytes to read.
func hasInput(in *os.File) func() bool {
	return func() bool {
		fds := []unix.PollFd{{Fd: int32(in.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return n > 0 && err == nil
	}
}

// resizes returns a channel that gets a signal when the terminal has another size.
func resizes() (signals <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGWINCH)
	return c, func() { signal.Stop(c) }
}

// suspend stops the processes that the terminal belongs to, as Ctrl-Z does elsewhere, if there is a shell that can have them go on.
// It sends SIGSTOP: a Go program that has handled SIGTSTP once ignores it from then on.
func suspend() {
	leader, err := unix.Getsid(0)
	if err != nil || leader == unix.Getpgrp() {
		return
	}
	goesOn := make(chan os.Signal, 1)
	signal.Notify(goesOn, unix.SIGCONT)
	defer signal.Stop(goesOn)
	if unix.Kill(0, unix.SIGSTOP) == nil {
		<-goesOn // this thread may run for a moment before the process stops
	}
}

// stops has Ctrl-Z, while a command runs, stop the process in the terminal's first mode.
func (e *Editor) stops() (stop func()) {
	c, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(c, unix.SIGTSTP)
	go func() {
		for {
			select {
			case <-done:
				return
			case <-c:
				if e.lent.Load() {
					suspend()
					continue
				}
				_ = e.leave() // the next line has the same error
				suspend()
				e.mode.run()
				_ = e.open()
			}
		}
	}()
	return func() {
		signal.Stop(c)
		close(done)
	}
}
