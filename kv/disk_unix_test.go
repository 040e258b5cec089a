//go:build unix

package kv_test

import (
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sievekv/sievekv/kv"
)

// A store of a few keys takes little on a real disk, its reserve and its log's blocks included.
func TestDisk_smallStore(t *testing.T) {
	dir := t.TempDir()
	db, err := kv.Open(dir, eitherWay(&kv.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b", "c"} {
		if _, err := db.Set(kv.Always, []byte(key), []byte("v"), kv.SetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	blocks := func() (bytes int64) {
		err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err == nil {
				bytes += info.Sys().(*syscall.Stat_t).Blocks * 512
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return bytes
	}
	syscall.Sync() // file systems that allocate late show no blocks before
	const most = 2 << 20
	if n := blocks(); n > most {
		t.Errorf("an open store of three keys takes %d bytes on disk, want %d at most", n, most)
	}
	m, err := db.Metrics()
	if err != nil || m.ReserveBytes != 1<<20 {
		t.Errorf("the reserve has %d bytes, %v, want 1 MiB", m.ReserveBytes, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if n := blocks(); n > most {
		t.Errorf("a closed store of three keys takes %d bytes on disk, want %d at most", n, most)
	}
}
