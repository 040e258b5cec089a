//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/internal/migrate/rdb/rdbtest"
)

// TestImportRDB_pipe imports from a pipe that has a name, which takes a copy of the file, and leaves no copy.
func TestImportRDB_pipe(t *testing.T) {
	dir, temporary := t.TempDir(), t.TempDir()
	pipe, store := filepath.Join(dir, "pipe"), filepath.Join(dir, "store")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	written := make(chan error)
	go func() { written <- os.WriteFile(pipe, rdbtest.New(11).Set("k", "v").Bytes(), 0) }()
	out, code := runs(t, []string{"TMPDIR=" + temporary}, "-d", store, "import-rdb", pipe)
	if code != exit.OK || !strings.Contains(out, "strings copied       1\n") {
		t.Errorf("code %d, %s", code, out)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if out, code := runs(t, nil, "-d", store, "import-rdb", dir); code != exit.Local || !strings.HasSuffix(out, dir+": is a directory\n") {
		t.Errorf("a directory: code %d, %s", code, out)
	}
}
