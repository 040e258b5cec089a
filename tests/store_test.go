package tests_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/tests/faultfs"
)

// Every store a test opens it closes: no goroutine may be left.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// storeDir is where stores on file systems in memory live.
const storeDir = faultfs.StoreDir

// rate is so low that no item is ever found that was not added.
const rate = 1e-9

func expect(ok bool, otherwise string) error {
	if ok {
		return nil
	}
	return errors.New(otherwise)
}

// tinyOptions make a few commits reach everything a store does: memtables and cache are the smallest there are.
func tinyOptions(fs vfs.FS) *kv.Options {
	return &kv.Options{
		FS: fs, CacheSize: 64 << 10, MemTableSize: 256 << 10, BallastSize: -1, MinFreeSpace: -1,
		Logger: slog.New(slog.DiscardHandler), Modules: coreext.With(bloomext.Module()),
	}
}

// open opens a store and closes it at the end of the test, if the test has not.
func open(t *testing.T, dir string, opts *kv.Options) *kv.DB {
	t.Helper()
	db, err := kv.Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil && !errors.Is(err, kv.ErrClosed) {
			t.Error(err)
		}
	})
	return db
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantError fails the test unless err is the error wanted and says what is wrong in the words given.
func wantError(t *testing.T, err, want error, words ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error is %v, want %v", err, want)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

// checkStore returns what a check of the whole store has found.
func checkStore(db *kv.DB) error {
	report, err := db.Check(context.Background())
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	return errors.Join(report.Problems...)
}

// files returns the names in a directory with what they hold, the lock file excepted.
func files(t *testing.T, fs vfs.FS, dir string) map[string]string {
	t.Helper()
	names, err := fs.List(dir)
	must(t, err)
	m := make(map[string]string)
	for _, name := range names {
		if name != "LOCK" {
			m[name] = string(readFile(t, fs, fs.PathJoin(dir, name)))
		}
	}
	return m
}

func readFile(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	must(t, err)
	defer f.Close()
	b, err := io.ReadAll(f)
	must(t, err)
	return b
}

// writeFile replaces a file, also for the eyes of a crash.
func writeFile(t *testing.T, fs vfs.FS, name string, data []byte) {
	t.Helper()
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	must(t, err)
	_, err = f.Write(slices.Clone(data)) // a MemFS may scramble what it is given
	must(t, errors.Join(err, f.Sync(), f.Close()))
	d, err := fs.OpenDir(fs.PathDir(name))
	must(t, err)
	must(t, errors.Join(d.Sync(), d.Close()))
}

// newest returns the path of the last file, in the order of names, that begins and ends so.
func newest(t *testing.T, fs vfs.FS, dir, prefix, suffix string) string {
	t.Helper()
	names, err := fs.List(dir)
	must(t, err)
	names = slices.DeleteFunc(names, func(n string) bool {
		return !strings.HasPrefix(n, prefix) || !strings.HasSuffix(n, suffix)
	})
	if len(names) == 0 {
		t.Fatalf("no file %s*%s in %s", prefix, suffix, dir)
	}
	return fs.PathJoin(dir, slices.Max(names))
}

// logLines collects the lines of a log.
type logLines struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(p))
	return len(p), nil
}

func (l *logLines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logLines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// itemsOf returns n items that no other name has.
func itemsOf(name string, n int) [][]byte {
	items := make([][]byte, n)
	for i := range items {
		items[i] = fmt.Appendf(nil, "%s/%d", name, i)
	}
	return items
}
