package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/salvage"
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
		sh := &shell{stderr: tty.NewMessages(file)}
		if tt.format != "" {
			if sh.serveLog, err = (&logFlags{tt.format, tt.level}).handler(tty.NewMessages(file)); err != nil {
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
		if _, err := f.handler(tty.NewMessages(os.Stderr)); exit.Code(err) != exit.Usage {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

func openScratchFor(t *testing.T) *kv.DB {
	t.Helper()
	db, err := (&shell{stderr: tty.NewMessages(os.Stderr)}).open("", false)
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

// Whatever is asked of a store of a newer version, it is refused by name, and stays as it is.
func TestNewerStore(t *testing.T) {
	t.Chdir(t.TempDir())
	for i := range 20 {
		if output, err := exec.Command("kvshell", "-d", "demo", "BF.ADD", "seen", strconv.Itoa(i)).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
	}
	if err := kvtest.MakeNewer("demo"); err != nil {
		t.Fatal(err)
	}
	state := func() map[string]string {
		entries, err := os.ReadDir("demo")
		if err != nil {
			t.Fatal(err)
		}
		files := make(map[string]string)
		for _, e := range entries {
			b, err := os.ReadFile(filepath.Join("demo", e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			files[e.Name()] = string(b)
		}
		return files
	}
	list := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(list, []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := state()
	for _, args := range []string{
		"-d demo PING", "-d demo BF.ADD seen x", "-d demo BF.EXISTS seen 1", "-d demo --read-only BF.EXISTS seen 1", "-d demo check",
		"-d demo check --deep --json", "-d demo check --repair", "-d demo compact", "-d demo stats", "-d demo backup copy",
		"-d demo backup -", "-d demo export seen seen.svkf", "-d demo dedup seen " + list, "-d demo serve --log-level error --addr 127.0.0.1:0",
		"-d demo --read-only serve --log-level error --addr 127.0.0.1:0", "salvage demo new", "salvage demo new --lossy",
	} {
		cmd := exec.Command("kvshell", strings.Fields(args)...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		stdout, err := cmd.Output()
		failed := (*exec.ExitError)(nil)
		if !errors.As(err, &failed) || failed.ExitCode() != exit.Open {
			t.Errorf("%s: %v, want exit code %d", args, err, exit.Open)
		}
		if got := stderr.String(); len(stdout) > 0 || strings.Count(got, "\n") != 1 || !strings.Contains(got, "demo") ||
			!strings.HasSuffix(got, " unsupported format version: written by a newer program: SEAL has format 255, this program knows 1\n") {
			t.Errorf("%s: %q, and on standard error %q", args, stdout, got)
		}
	}
	if after := state(); !maps.Equal(before, after) {
		t.Errorf("the store was changed: there was %q, and is %q", slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
	}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("there is %v, want the store alone", entries)
	}
}

// salvage names filters that are half-loaded, and says why they are left out.
func TestSalvageText_loading(t *testing.T) {
	got := recoveredText(&salvage.Report{Recovered: 2, Loading: []salvage.Key{{Key: "half", Type: "MBbloom--"}}})
	want := "left out: \"half\" (MBbloom--): LOADCHUNK has not brought all of its bytes yet; load it anew\nkeys recovered: 2, left out: 1\n"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
