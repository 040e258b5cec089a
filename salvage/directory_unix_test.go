//go:build unix

package salvage_test

import (
	"os"
	"path/filepath"
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

// A directory that is a pipe is refused: to open it would wait for somebody who writes to it.
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
