package rounds

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/tests/faultfs"
)

// A power failure takes what was not synced of the log, or of the store, and nothing else.
func TestDisk_cutPower(t *testing.T) {
	for _, c := range []struct {
		name       string
		log, store int
		want       map[string]string
	}{
		{"both", 0, 0, map[string]string{"old": "old", "t": "synced", "raft/l": "synced"}},
		{"log", 0, everything, map[string]string{"old": "old", "t": "synced and more", "new": "", "raft/l": "synced"}},
		{"store", everything, 0, map[string]string{"old": "old", "t": "synced", "raft/l": "synced and more", "raft/new": ""}},
		{"none", everything, everything, map[string]string{"old": "old", "t": "synced and more", "new": "", "raft/l": "synced and more", "raft/new": ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, "old"), []byte("old"), 0o600))
			must(t, os.Mkdir(filepath.Join(dir, logDir), 0o700))
			d, err := newDisk(dir)
			must(t, err)
			for _, below := range []string{"t", "raft/l"} {
				write(t, d, below)
			}
			for _, below := range []string{"new", "raft/new"} {
				_, err := d.Create(d.PathJoin(faultfs.StoreDir, below), vfs.WriteCategoryUnspecified)
				must(t, err)
			}
			must(t, d.cutPower(c.log, c.store, 1))
			for _, name := range []string{"old", "t", "new", "raft/l", "raft/new"} {
				got, err := os.ReadFile(filepath.Join(dir, name))
				if want, is := c.want[name]; is != (err == nil) || string(got) != want {
					t.Errorf("%s: %q, %v, want %q, which is there %t", name, got, err, want, is)
				}
			}
		})
	}
}

// write makes a file whose first bytes are synced.
func write(t *testing.T, d *disk, below string) {
	t.Helper()
	name := d.PathJoin(faultfs.StoreDir, below)
	f, err := d.Create(name, vfs.WriteCategoryUnspecified)
	must(t, err)
	_, err = f.Write([]byte("synced"))
	must(t, err)
	must(t, f.Sync())
	dir, err := d.OpenDir(d.PathDir(name))
	must(t, err)
	must(t, dir.Sync())
	_, err = f.Write([]byte(" and more"))
	must(t, err)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
