package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/tests/faultfs"
)

// Clients make backups in the directory that the operator chose, and nowhere else.
func TestBackup(t *testing.T) {
	w := serve(t, nil)
	top := t.TempDir()
	t.Chdir(top) // what a mistake would make stays in there
	dir := filepath.Join(top, "backups")
	c := w.client()
	c.answers(`
		SET row value => +OK
		SIEVE.BACKUP monday => -ERR this server makes no backups: start it with --set backup-dir=DIR
		CONFIG SET backup-dir /tmp => -ERR CONFIG SET failed (possibly related to argument 'backup-dir') - argument can only be set when the server is started, with --set
		CONFIG SET backup-dir monday => -ERR CONFIG SET failed ... argument must be an absolute path, or empty
		CONFIG SET maxclients 100 => +OK
		CONFIG GET backup-dir => ["backup-dir" ""]`)
	w.set("backup-dir", dir)
	c.answers(`
		SIEVE.BACKUP monday CHECK copy => +OK
		SIEVE.BACKUP tuesday => +OK
		SIEVE.BACKUP monday => -...is a directory already: want a name that nothing has
		SIEVE.BACKUP wednesday FAST => -ERR option 'FAST' of SIEVE.BACKUP, want COPY or CHECK
		SIEVE.BACKUP ../out => -ERR directory is "../out", want a name of 1 to 128 bytes ...
		SIEVE.BACKUP a/b => -ERR directory is "a/b", ...
		SIEVE.BACKUP a\b => -ERR directory is "a\\b", ...
		SIEVE.BACKUP c:x => -ERR directory is "c:x", ...
		SIEVE.BACKUP . => -ERR directory is ".", ...
		SIEVE.BACKUP .hidden => -ERR directory is ".hidden", ...
		CONFIG SET backup-dir / => -ERR CONFIG SET failed ... argument can only be set when the server is started, with --set`)
	// Names that would be read otherwise where they are listed.
	for _, name := range []string{"a\nb", "\r", "a\x1b[2J", "a\x00b", "\x7f", "a\u0085b", "a\u202eb", "a\u2028b", "a\xffb", "\ufeffa"} {
		if got, err := c.Do("SIEVE.BACKUP", name); err != nil || !like(got, "-ERR directory is ..., want a name of 1 to 128 bytes ...") || strings.Contains(got, name) {
			t.Errorf("SIEVE.BACKUP %q = %q, %v", name, got, err)
		}
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 2 {
		t.Errorf("%v is there (%v), want monday and tuesday", names, err)
	}
	copied, err := sievekv.Open(filepath.Join(dir, "monday"), &sievekv.Options{MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	if value, err := copied.Get("row"); string(value) != "value" {
		t.Errorf("row = %q, %v", value, err)
	}
}

// A client is told that the disk has no room for a backup. Nothing is left under its name, and the server goes on.
func TestBackup_fullDisk(t *testing.T) {
	var full atomic.Bool
	mem := vfs.NewMem()
	disk := &faultfs.FS{FS: mem, Before: func(s faultfs.Site, name string) error {
		if full.Load() && s.Op == "write" && strings.Contains(name, "monday") {
			return syscall.ENOSPC
		}
		return nil
	}}
	w := serveStore(t, kv.Options{FS: disk, BallastSize: -1}, nil)
	w.set("backup-dir", "/backups")
	c := w.client()
	full.Store(true)
	c.answers(`
		SET row value => +OK
		SIEVE.BACKUP monday COPY => -...no space left on device...
		GET row => "value"
		SET row later => +OK`)
	if names, err := mem.List("/backups"); err != nil || len(names) > 0 {
		t.Errorf("%q is left, %v", names, err)
	}
	full.Store(false)
	c.answers(`
		SIEVE.BACKUP monday COPY CHECK => +OK
		GET row => "later"`)
	if names, err := mem.List("/backups"); err != nil || len(names) != 1 || names[0] != "monday" {
		t.Errorf("%q is there, %v", names, err)
	}
}
