package kv

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestDescriptors(t *testing.T) {
	for _, o := range []Options{{InMemory: true}, {FS: vfs.NewMem(), BallastSize: -1, MinFreeSpace: -1}} {
		db, err := Open("store", &o)
		if err != nil {
			t.Fatal(err)
		}
		limit, need := db.Descriptors()
		if low := 12 + 4 + 4; !o.InMemory && need < low || o.InMemory && need != 0 || limit != 0 && need > limit/2 {
			t.Errorf("a store, in memory: %t, needs %d descriptors of %d", o.InMemory, need, limit)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}
