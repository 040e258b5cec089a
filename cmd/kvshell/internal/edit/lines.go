package edit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// terminalLine is how many bytes of a line terminals keep, with its end, while they edit it themselves (N_TTY_BUF_SIZE of
// Linux). They drop the rest.
const terminalLine = 4096

// ErrLong is the error of a line whose end the terminal may have dropped.
var ErrLong = errors.New("the line is too long for this terminal, which keeps 4095 bytes: run it from a file by -f")

// readPlain reads a line from a terminal that edits lines itself.
func (e *Editor) readPlain(ctx context.Context, prompt string, interrupts <-chan os.Signal) (string, error) {
	if _, err := io.WriteString(e.out, prompt); err != nil {
		return "", err
	}
	k := e.keyboard
	for {
		if i := bytes.IndexByte(k.in, '\n'); i >= 0 {
			line := valid(bytes.TrimSuffix(k.in[:i], []byte("\r")))
			k.in = slices.Clone(k.in[i+1:])
			if i >= terminalLine-1 {
				return "", ErrLong
			}
			return line, nil
		}
		select {
		case c := <-k.read():
			if err := k.took(c); err != nil {
				return "", err
			}
		case <-interrupts: // the terminal has dropped the line
			if _, err := fmt.Fprintf(e.out, "\n%s", prompt); err != nil {
				return "", err
			}
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}
