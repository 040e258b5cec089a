//go:build unix

package salvage_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/salvage"
)

// A link to a store is as good as its name.
func TestRecover_link(t *testing.T) {
	dir := expiring(t)
	markers, err := filepath.Glob(filepath.Join(dir, "marker.manifest.*"))
	check(t, err)
	for _, name := range markers { // without which it does not open
		check(t, os.Remove(name))
	}
	link := filepath.Join(t.TempDir(), "link")
	check(t, os.Symlink(dir, link))
	o := options()
	o.FS = vfs.Default
	report, err := salvage.Recover(t.Context(), link, dir+".new", o, salvage.Options{})
	check(t, err)
	if report.Recovered != 2 || len(report.Damage) != 1 {
		t.Errorf("%+v", report)
	}
}

// A directory that is a pipe is refused: opening it would wait for a writer.
func TestOpen_pipe(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	check(t, syscall.Mkfifo(fifo, 0o600))
	o := options()
	o.FS = vfs.Default
	if _, err := salvage.Recover(t.Context(), fifo, fifo+".new", o, salvage.Options{}); err == nil {
		t.Error("Recover took it")
	}
	if _, err := salvage.Check(t.Context(), fifo, o, kv.CheckOptions{}); err == nil {
		t.Error("Check took it")
	}
	if _, err := kv.Open(fifo, &o); err == nil {
		t.Error("kv.Open took it")
	}
}

// So is a store in which a file is a pipe, whichever it is. Check names it, and salvage takes what is whole.
func TestOpen_pipeInStore(t *testing.T) {
	store := expiring(t)
	names, err := os.ReadDir(store)
	check(t, err)
	for _, entry := range names {
		name := entry.Name()
		dir := filepath.Join(t.TempDir(), "store")
		check(t, os.CopyFS(dir, os.DirFS(store)))
		check(t, os.Remove(filepath.Join(dir, name)))
		check(t, syscall.Mkfifo(filepath.Join(dir, name), 0o600))
		o := options()
		o.FS = vfs.Default
		if _, err := kv.Open(dir, &o); err == nil {
			t.Errorf("%s is a pipe, and kv.Open took the store", name)
		}
		report, err := salvage.Check(t.Context(), dir, o, kv.CheckOptions{Deep: true})
		if err == nil && !strings.Contains(errors.Join(report.Problems...).Error(), name) {
			t.Errorf("%s is a pipe, and Check found %v", name, report.Problems)
		}
		if strings.HasPrefix(name, "OPTIONS") || strings.HasPrefix(name, "BALLAST") {
			continue // as if they were missing
		}
		if _, err := salvage.Recover(t.Context(), dir, dir+".new", o, salvage.Options{Lossy: true}); err != nil {
			t.Errorf("%s is a pipe, and Recover returns %v", name, err)
		}
	}
}
