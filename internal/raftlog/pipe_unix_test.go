//go:build unix

package raftlog_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sievekv/sievekv/internal/raftlog"
)

// A pipe, or a directory, in place of the file SYNCED is refused, and does not hang.
func TestOpen_notRegular(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		dir := t.TempDir()
		l, err := raftlog.Open(dir, raftlog.Options{})
		must(t, err)
		must(t, l.Close())
		path := filepath.Join(dir, "SYNCED")
		must(t, errors.Join(os.Remove(path), put(path)))
		if _, err := raftlog.Open(dir, raftlog.Options{}); !errors.Is(err, raftlog.ErrDamaged) || !strings.Contains(err.Error(), "SYNCED is not a regular file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
