package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/kv"
)

func TestOpenError(t *testing.T) {
	for opening, want := range map[error]int{
		fs.ErrPermission: exit.Open, kv.ErrFailed: exit.Local, kv.ErrCorrupt: exit.Corrupt, kv.ErrUnsupportedVersion: exit.Open,
	} {
		err := openError("dir", opening)
		if got := exit.Code(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
		wrapped := errors.Join(fmt.Errorf("while it ran: %w", err), fs.ErrClosed)
		if got := exit.Code(wrapped); got != want {
			t.Errorf("wrapped %v: %d, want %d", err, got, want)
		}
	}
}

// The log of a server has times and logins, unless flags say otherwise. That of another word is read at once, and has
// only warnings and errors.
func TestShell_logger(t *testing.T) {
	long := errors.New("first line\nstack trace")
	const stamp = `[-0-9]{10}T[:0-9]{8}\.[0-9]{3,9}(Z|[-+][:0-9]{5})`
	for _, tt := range []struct {
		format, level string // "" for another word than serve
		want          string
	}{
		{"", "", `^level=WARN msg=trouble error="first line"\n$`},
		{"text", "info", `^time=` + stamp + ` level=INFO msg=login\ntime=` + stamp + ` level=WARN msg=trouble error="first line"\n$`},
		{"text", "debug", `level=DEBUG msg=detail\n.*\n.* level=WARN msg=trouble error="first line"\n$`},
		{"text", "warn", `^time=` + stamp + ` level=WARN msg=trouble error="first line"\n$`},
		{"json", "error", `^$`},
		{"json", "info", `^{"time":"` + stamp + `","level":"INFO","msg":"login"}\n{.*"level":"WARN","msg":"trouble","error":"first line"}\n$`},
	} {
		file, err := os.Create(filepath.Join(t.TempDir(), "log"))
		if err != nil {
			t.Fatal(err)
		}
		sh := &shell{stderr: file}
		if tt.format != "" {
			if sh.serveLog, err = (&logFlags{tt.format, tt.level}).handler(file); err != nil {
				t.Fatal(err)
			}
		}
		logger := sh.logger()
		logger.Debug("detail")
		logger.Info("login")
		logger.Warn("trouble", slog.Any("error", long))
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(file.Name())
		if err != nil || !regexp.MustCompile(tt.want).Match(got) {
			t.Errorf("%s %s: the log is %s, %v, want %s", tt.format, tt.level, got, err, tt.want)
		}
	}
	for _, f := range []logFlags{{"xml", "info"}, {"text", "loud"}, {"", "info"}, {"text", ""}} {
		if _, err := f.handler(os.Stderr); exit.Code(err) != exit.Usage {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

func openScratchFor(t *testing.T) *kv.DB {
	t.Helper()
	db, err := (&shell{stderr: os.Stderr}).open("", false)
	return closedAtEnd(t, db, err)
}

// closedAtEnd returns a store just opened, which is closed when the test ends.
func closedAtEnd(t *testing.T, db *kv.DB, err error) *kv.DB {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}
