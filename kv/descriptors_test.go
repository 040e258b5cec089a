package kv

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestDescriptors(t *testing.T) {
	for _, tt := range []struct{ limit, tables, reserve int }{
		{0, 990, 16}, {1 << 20, 990, 16}, {20_000, 990, 16}, {1024, 128, 16}, {128, 16, 16}, {64, 8, 8}, {10, 4, 4},
	} {
		if d := shareOf(tt.limit); d.tables != tt.tables || d.reserve != tt.reserve {
			t.Errorf("a limit of %d: %d tables, %d in reserve, want %d and %d", tt.limit, d.tables, d.reserve, tt.tables, tt.reserve)
		}
	}
	for _, o := range []Options{{InMemory: true}, {FS: vfs.NewMem(), BallastSize: -1, MinFreeSpace: -1}} {
		db, err := Open("store", &o)
		if err != nil {
			t.Fatal(err)
		}
		_, need := db.Descriptors()
		if want := fixedDescriptors + db.descriptors.tables + db.descriptors.reserve; !o.InMemory && need != want || o.InMemory && need != 0 {
			t.Errorf("a store, in memory: %t, needs %d descriptors", o.InMemory, need)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}
