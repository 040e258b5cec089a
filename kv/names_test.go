package kv_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/tests/faultfs"
)

// namedOnce reports an error that does not begin with the name of this package, or has a package's name again behind it.
func namedOnce(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil || text.Plain(err.Error()) != strings.TrimPrefix(err.Error(), "kv: ") || !strings.HasPrefix(err.Error(), "kv: ") {
		t.Errorf("%s: %v", what, err)
	}
}

// The text of an error names the package once, however many functions the error has passed.
func TestErrors_nameOnce(t *testing.T) {
	options := func(fs vfs.FS) *kv.Options {
		return &kv.Options{FS: fs, BallastSize: -1, Logger: slog.New(slog.DiscardHandler)}
	}
	made := func(t *testing.T) (dir string) {
		dir = filepath.Join(t.TempDir(), "store")
		for range 2 { // so that there is a log with a past
			db, err := kv.Open(dir, options(nil))
			if err != nil {
				t.Fatal(err)
			}
			for i := range 100 {
				if _, err := db.Set(kv.NoSync, fmt.Append(nil, i), []byte(strings.Repeat("v", 1000)), kv.SetOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	one := func(t *testing.T, pattern string) string {
		t.Helper()
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		return names[len(names)-1]
	}
	flip := func(t *testing.T, pattern string) {
		t.Helper()
		flipBit(t, one(t, pattern))
	}
	tried, opened := 0, 0 // damage of the options, and of some of a log, does no harm
	for what, damage := range map[string]func(t *testing.T, dir string){
		"a damaged MANIFEST": func(t *testing.T, dir string) { flip(t, filepath.Join(dir, "MANIFEST-*")) },
		"a damaged log":      func(t *testing.T, dir string) { flip(t, filepath.Join(dir, "*.log")) },
		"a damaged seal":     func(t *testing.T, dir string) { flip(t, filepath.Join(dir, "SEAL")) },
		"a damaged sidecar":  func(t *testing.T, dir string) { flip(t, filepath.Join(dir, "DURABLE")) },
		"damaged options":    func(t *testing.T, dir string) { flip(t, filepath.Join(dir, "OPTIONS-*")) },
		"a seal to come":     func(t *testing.T, dir string) { _ = kvtest.MakeNewer(dir) },
		"no MANIFEST":        func(t *testing.T, dir string) { _ = os.Remove(one(t, filepath.Join(dir, "MANIFEST-*"))) },
		"no log":             func(t *testing.T, dir string) { _ = os.Remove(one(t, filepath.Join(dir, "*.log"))) },
		"half a marker": func(t *testing.T, dir string) {
			_ = os.WriteFile(filepath.Join(dir, "marker.manifest.999999.MANIFEST-999999"), nil, 0o600)
		},
	} {
		for _, readOnly := range []bool{false, true} {
			tried++
			dir := made(t)
			damage(t, dir)
			o := options(nil)
			o.ReadOnly = readOnly
			db, err := kv.Open(dir, o)
			if err != nil {
				namedOnce(t, fmt.Sprintf("%s, read-only %v", what, readOnly), err)
				continue
			}
			opened++
			if err := db.Close(); err != nil {
				namedOnce(t, what, err)
			}
		}
	}

	if opened > tried/2 {
		t.Errorf("%d damaged stores of %d open", opened, tried)
	}

	// A store whose disk fails.
	broken := false
	fs := &faultfs.FS{FS: vfs.NewMem(), Before: func(s faultfs.Site, _ string) error {
		if broken && (s.Op == "sync" || s.Op == "write") {
			return syscall.EIO
		}
		return nil
	}}
	db, err := kv.Open("var/store", options(fs))
	if err != nil {
		t.Fatal(err)
	}
	broken = true
	for range 2 {
		_, err = db.Set(kv.Always, []byte("k"), []byte("v"), kv.SetOptions{})
		if !errors.Is(err, kv.ErrFailed) {
			t.Fatal(err)
		}
		namedOnce(t, "a failed write", err)
	}
	namedOnce(t, "a failed store", db.Sync())
	namedOnce(t, "the close of a failed store", db.Close())
}
