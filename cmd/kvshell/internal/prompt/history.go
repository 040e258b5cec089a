package prompt

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/suggest"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/system"
	"github.com/sievekv/sievekv/internal/resp"
)

const (
	// HistoryVariable names the file of the history; "" keeps none.
	HistoryVariable = "SIEVEKV_HISTFILE"

	// maxHistoryLine is the most bytes of a line that is kept. Longer lines are data, and nobody recalls them.
	maxHistoryLine = 4096

	// historyLimit is how many lines a prompt recalls.
	historyLimit = 1000
)

// history is the file that keeps the lines typed at prompts, the oldest first. A line is appended when it was typed,
// so that it is there however the process ends. Several processes may append at the same time. When the file has
// twice the lines that a prompt recalls, the older half is removed. A nil history keeps nothing.
type history struct {
	path  string
	lines int    // in the file, as far as this process knows
	last  string // line
}

// openHistory returns the history that the environment names, and its lines. The history is nil if the user wants none.
func openHistory() (*history, []string, error) {
	path, err := historyPath()
	if err != nil || path == "" {
		return nil, nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, nil, err
	}
	h := &history{path: system.RealPath(path)}
	lines, err := h.read()
	if err != nil {
		return nil, nil, err
	}
	if len(lines) > historyLimit {
		lines, err = h.trim(lines)
	}
	h.lines = len(lines)
	return h, lines, err
}

// historyPath returns the file of the history: the one that $SIEVEKV_HISTFILE names, or one in the directory where the
// user's programs keep their state.
func historyPath() (string, error) {
	if path, ok := os.LookupEnv(HistoryVariable); ok {
		return path, nil
	}
	dir := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) { // the XDG Base Directory Specification says to ignore it
		var err error
		if dir, err = stateDir(); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "sievekv", "history"), nil
}

func stateDir() (string, error) {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		return os.UserConfigDir()
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "state"), err
}

// read returns the lines of the file; none if there is no file. A named pipe is an error: nobody need have its other end.
func (h *history) read() ([]string, error) {
	if info, err := os.Stat(h.path); err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		return nil, fmt.Errorf("%s is a named pipe", h.path)
	}
	b, err := os.ReadFile(h.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var lines []string
	for line := range bytes.Lines(b) {
		line = bytes.TrimRight(line, "\r\n")
		if len(line) > 0 && len(line) <= maxHistoryLine && utf8.Valid(line) {
			lines = append(lines, string(line))
		}
	}
	return lines, err
}

// trim replaces the file by one with the last historyLimit of some lines, and returns these.
func (h *history) trim(lines []string) (kept []string, err error) {
	kept = lines[len(lines)-historyLimit:]
	info, err := os.Stat(h.path)
	if err != nil || !info.Mode().IsRegular() {
		return kept, err
	}
	return kept, system.WriteWhole(h.path, func(f *os.File) error {
		w := bufio.NewWriter(f)
		for _, line := range kept {
			fmt.Fprintln(w, line) // Flush returns its error
		}
		return w.Flush()
	})
}

// add appends a line. The file is opened each time: another process may have replaced it.
func (h *history) add(line string) (err error) {
	if h == nil || line == h.last || len(line) > maxHistoryLine {
		return nil
	}
	f, err := os.OpenFile(h.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err = makePrivate(f); err == nil { // otherwise others could read the line
		err = writeLine(f, line)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	h.last = line
	if h.lines++; h.lines < 2*historyLimit {
		return nil
	}
	lines, err := h.read()
	if err == nil && len(lines) > historyLimit {
		lines, err = h.trim(lines)
	}
	h.lines = len(lines)
	return err
}

// writeLine writes a line in one call, so that lines of several processes do not mix.
func writeLine(f *os.File, line string) error {
	_, err := f.WriteString(line + "\n")
	return err
}

// makePrivate makes a regular file that existed before readable for its owner alone. It does not change a device.
func makePrivate(f *os.File) error {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 == 0 || runtime.GOOS == "windows" {
		return err
	}
	return f.Chmod(0o600)
}

// isKept reports whether a line goes into the history. A line does not if it begins with a blank, by which the user
// says so, or may hold a secret. In doubt it does not: it can be typed again.
func isKept(line string) bool {
	if line == "" || unicode.IsSpace(rune(line[0])) {
		return false
	}
	split, err := resp.Split([]byte(line))
	words := make([]string, len(split))
	for i, word := range split {
		words[i] = string(word)
	}
	if err != nil { // the line was not run, but may hold a secret all the same
		words = strings.Fields(strings.NewReplacer(`"`, " ", `'`, " ").Replace(line))
	}
	return len(words) > 0 && !holdsSecret(words)
}

// holdsSecret reports whether a command line may have a password in it.
func holdsSecret(words []string) bool {
	if words[0] == "--" { // the command follows
		words = words[1:]
	}
	if len(words) == 0 {
		return false
	}
	name, args := strings.ToUpper(words[0]), words[1:]
	// A mistyped AUTH is an error, but has a password all the same.
	if name == "ACL" || suggest.Distance(name, "AUTH") <= 1 {
		return true
	}
	for i, arg := range args {
		if option := strings.ToUpper(arg); isSecretOption(option) || i+1 < len(args) && slices.Contains(secretWords, option) {
			return true
		}
		// A URL with a user may have a password. It is not parsed, as that could fail.
		if _, rest, found := strings.Cut(arg, "://"); found && strings.Contains(rest, "@") {
			return true
		}
	}
	return false
}

// secretWords are arguments of any command, in upper case, after which a password follows.
var secretWords = []string{"AUTH", "AUTH2", "PASS", "PASSWORD", "REQUIREPASS", "MASTERAUTH", "-A"}

// isSecretOption reports whether an argument, in upper case, may have a password in it.
func isSecretOption(arg string) bool {
	return strings.HasPrefix(arg, "--PASS") || strings.HasPrefix(arg, "--AUTH")
}
