package kv_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/kv"
)

// keepingFS removes no table until it is let.
type keepingFS struct {
	vfs.FS
	let chan struct{}
}

func (f *keepingFS) Remove(name string) error {
	if strings.HasSuffix(name, ".sst") {
		<-f.let
	}
	return f.FS.Remove(name)
}

// Tables that a compaction has replaced, and that are not removed yet, are not counted: a
// store does not double by being compacted.
func TestDisk_compacted(t *testing.T) {
	fs := &keepingFS{FS: vfs.NewMem(), let: make(chan struct{})}
	db, err := kv.Open("store", eitherWay(&kv.Options{
		FS: fs, Durability: kv.NoSync, BallastSize: -1, MinFreeSpace: -1, MemTableSize: 1 << 20,
	}))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if _, err := db.Set(kv.NoSync, fmt.Append(nil, i%100), make([]byte, 20_000), kv.SetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second has something to replace
		if _, err := db.Set(kv.NoSync, []byte("k"), []byte("v"), kv.SetOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := db.CompactTables(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	m, err := db.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	const live = 100 * 20_000
	if m.TableBytes < live || m.TableBytes > live*11/10 {
		t.Errorf("%d bytes in tables, want about %d", m.TableBytes, live)
	}
	if rest := m.DiskBytes - m.TableBytes - m.LogBytes; m.DiskBytes < m.TableBytes+m.LogBytes || rest > 100_000 {
		t.Errorf("%d bytes on disk, with %d in tables and %d of log", m.DiskBytes, m.TableBytes, m.LogBytes)
	}
	close(fs.let)
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
