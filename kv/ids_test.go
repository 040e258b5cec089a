package kv

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/kvtest"
)

// No object gets the id of another, also of one that was made before the store was closed, or lost by a crash.
func TestObjectID_lease(t *testing.T) {
	disk := kvtest.NewDisk()
	last := uint64(0)
	for range 3 {
		db, err := Open("store", &Options{FS: disk, BallastSize: -1, MinFreeSpace: -1})
		if err != nil {
			t.Fatal(err)
		}
		for range 5000 { // more than are leased at once
			id, err := db.newObjectID()
			if err != nil {
				t.Fatal(err)
			}
			if id <= last {
				t.Fatalf("object %d is made after object %d", id, last)
			}
			last = id
		}
		if _, err := db.Set(Always, []byte("k"), []byte("v"), SetOptions{}); err != nil { // as what uses an id is
			t.Fatal(err)
		}
		crash := disk.CrashClone(vfs.CrashCloneCfg{})
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		disk = crash
	}
}
