//go:build unix

package prompt

import (
	"path/filepath"
	"syscall"
	"testing"
)

// A prompt does not wait for a pipe that has nobody at its other end.
func TestHistory_pipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(HistoryVariable, path)
	if h, lines, err := openHistory(); h != nil || lines != nil || err == nil {
		t.Errorf("history %v, %q, %v, want an error", h, lines, err)
	}
}
