package tty

import (
	"io"
	"os"
	"regexp"
	"strings"
	"sync"

	"github.com/sievekv/sievekv/module/reply"
)

// Messages writes what people are told, mostly on standard error. What comes from a server, a file or a list may be in it:
// all that a terminal would take for a command is escaped, here and not where messages are made.
type Messages struct{ file *os.File }

// NewMessages returns messages to a file.
func NewMessages(file *os.File) *Messages { return &Messages{file} }

// Write writes a message, or some, as a whole.
func (m *Messages) Write(text []byte) (int, error) {
	return written(len(text), m.file, reply.Printable(string(text)))
}

// Error writes a message about an error, in red if the terminal has colours.
func (m *Messages) Error(text string) {
	_, _ = m.file.WriteString(Paint(m.file, reply.Printable(text)) + "\n") // nobody else can be told
}

// JSON returns a writer of messages in JSON, which stay valid.
func (m *Messages) JSON() io.Writer { return jsonMessages{m.file} }

type jsonMessages struct{ file *os.File }

func (m jsonMessages) Write(text []byte) (int, error) {
	return written(len(text), m.file, string(reply.PrintableJSON(text)))
}

func written(n int, file *os.File, text string) (int, error) {
	if _, err := file.WriteString(text); err != nil {
		return 0, err
	}
	return n, nil
}

// IsTerminal reports whether the messages go to a terminal.
func (m *Messages) IsTerminal() bool { return IsTerminal(m.file) }

// File returns the file, for a progress bar, which has to move the cursor, and to tell it from others.
func (m *Messages) File() *os.File { return m.file }

// HasColors reports whether out is a terminal with colours, and $NO_COLOR is not set (https://no-color.org).
func HasColors(out *os.File) bool {
	return IsTerminal(out) && HasCursor() && os.Getenv("NO_COLOR") == ""
}

const red, grey, plain = "\x1b[31m", "\x1b[90m", "\x1b[0m"

// Paint returns the text of an error as it is shown on out: in red if that has colours.
func Paint(out *os.File, text string) string {
	if !HasColors(out) {
		return text
	}
	return red + text + plain
}

// labels matches what a line of a reply has before its value.
var labels = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^( *(?:\d+\) +)*)(\((?:nil|integer|double|empty array|error)\))?`)
})

// PaintLabels returns a line of a reply as it is shown at a prompt with colours: its numbers and types in grey, an error in red.
func PaintLabels(line string) string {
	at := labels().FindStringSubmatchIndex(line)
	numbers, label, rest := line[:at[3]], line[at[3]:at[1]], line[at[1]:]
	if numbers != "" {
		numbers = grey + numbers + plain
	}
	switch end := strings.TrimRight(rest, "\n"); label {
	case "":
		return numbers + rest
	case "(error)":
		return numbers + red + label + end + plain + rest[len(end):]
	}
	return numbers + grey + label + plain + rest
}
