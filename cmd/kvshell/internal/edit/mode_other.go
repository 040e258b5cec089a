//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package edit

import (
	"os"

	"golang.org/x/term"
)

// termMode changes the mode of a terminal.
type termMode struct {
	fd    int
	first *term.State
}

func newMode(in *os.File) (mode, error) {
	first, err := term.GetState(int(in.Fd()))
	return &termMode{int(in.Fd()), first}, err
}

// edit has keys be read one by one. An error is no news: reading the terminal has the same.
func (m *termMode) edit() { _, _ = term.MakeRaw(m.fd) }

func (m *termMode) run() { m.restore() }

func (m *termMode) restore() { _ = term.Restore(m.fd, m.first) }

func hasInput(*os.File) func() bool { return nil }

func resizes() (signals <-chan os.Signal, stop func()) { return nil, func() {} }

func (e *Editor) stops() (stop func()) { return func() {} }

var suspend func()
