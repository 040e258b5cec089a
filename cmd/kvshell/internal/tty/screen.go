package tty

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/module/reply"
)

// Screen is a terminal that shows something that changes.
type Screen struct {
	Stdin, Stdout *os.File
	Keys          io.Reader // what is typed
}

// lookAtSize is how often the size of the terminal is looked at.
const lookAtSize = 200 * time.Millisecond

// These have the terminal show a screen of its own, without a cursor and with long lines cut, and what it showed before.
const (
	otherScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	firstScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// CanShow reports whether a screen can be shown: both files are a terminal that can move its cursor.
func (s *Screen) CanShow() bool { return IsTerminal(s.Stdin) && IsTerminal(s.Stdout) && HasCursor() }

// Show shows what draw returns for a size, until q, Escape or Ctrl-C is typed or ctx ends. It has refresh look at what is shown now, which
// returns when to do that again; the space bar does it at once. The lines have no line breaks.
func (s *Screen) Show(ctx context.Context, refresh func() time.Duration, draw func(width, height int) []string) (err error) {
	mode, err := term.MakeRaw(int(s.Stdin.Fd()))
	if err != nil {
		return exit.WithCode(exit.Local, err)
	}
	defer func() {
		err = errors.Join(err, s.write(firstScreen), exit.WithCode(exit.Local, term.Restore(int(s.Stdin.Fd()), mode)))
	}()
	if err := s.write(otherScreen); err != nil {
		return err
	}
	keys := s.readKeys()
	for {
		again := time.NewTimer(refresh())
		if err := s.until(ctx, again.C, keys, draw); err != nil {
			again.Stop()
			if errors.Is(err, errQuit) {
				return nil
			}
			return err
		}
		again.Stop()
	}
}

// errQuit is returned when a key ends the screen.
var errQuit = errors.New("quit")

// until draws, again when the size of the terminal has changed, until it is time to refresh.
func (s *Screen) until(ctx context.Context, refresh <-chan time.Time, keys <-chan string, draw func(width, height int) []string) error {
	look := time.NewTicker(lookAtSize)
	defer look.Stop()
	shownWidth, shownHeight := 0, 0
	for {
		width, height, err := term.GetSize(int(s.Stdout.Fd()))
		if err != nil || width <= 0 || height <= 0 {
			width, height = 80, 24
		}
		if width != shownWidth || height != shownHeight {
			if err := s.write(screenful(draw(width, height))); err != nil {
				return err
			}
			shownWidth, shownHeight = width, height
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-refresh:
			return nil
		case <-look.C:
		case key := <-keys:
			if quits(key) {
				return errQuit
			}
			if key == " " {
				return nil
			}
		}
	}
}

// screenful returns what shows lines on the whole screen. It does not clear it before, which would flicker.
func screenful(lines []string) string {
	for i, line := range lines {
		lines[i] = reply.Printable(line) + "\x1b[K"
	}
	return "\x1b[H" + strings.Join(lines, "\r\n") + "\x1b[J"
}

// readKeys reads keys until one ends the screen, so that the next reader gets all that is typed after it.
func (s *Screen) readKeys() <-chan string {
	keys := make(chan string, 1)
	go func() {
		b := make([]byte, 16) // a key may be several bytes
		for {
			n, err := s.Keys.Read(b)
			if err != nil {
				n = 0
			}
			key := string(b[:n])
			keys <- key
			if quits(key) {
				return
			}
		}
	}()
	return keys
}

// quits reports whether what was typed ends the screen.
func quits(typed string) bool {
	return typed == "" || typed == "\x1b" || strings.ContainsAny(typed, "qQ\x03\x04")
}

func (s *Screen) write(text string) error {
	_, err := s.Stdout.WriteString(text)
	return exit.WithCode(exit.Local, err)
}
