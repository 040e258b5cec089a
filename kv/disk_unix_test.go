//go:build unix

package kv_test

import (
	"testing"

	"github.com/sievekv/sievekv/internal/kvtest"
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
	const most = 2 << 20
	if n := kvtest.DiskUse(t, dir); n > most {
		t.Errorf("an open store of three keys takes %d bytes on disk, want %d at most", n, most)
	}
	m, err := db.Metrics()
	if err != nil || m.ReserveBytes != 1<<20 {
		t.Errorf("the reserve has %d bytes, %v, want 1 MiB", m.ReserveBytes, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if n := kvtest.DiskUse(t, dir); n > most {
		t.Errorf("a closed store of three keys takes %d bytes on disk, want %d at most", n, most)
	}
}
