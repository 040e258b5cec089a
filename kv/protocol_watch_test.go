package kv_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/kv"
)

// Who begins to watch a key while a commit to it has not reached memory, and sees what
// was there before, is told of the commit.
func TestWatch_duringCommit(t *testing.T) {
	var during func()
	o := kv.WithPause(&kv.Options{
		FS: vfs.NewMem(), BallastSize: -1, Durability: kv.NoSync, Modules: []kv.Module{bloomext.Module()},
	}, func(point string) {
		if f := during; f != nil && point == "commit: applied" {
			during = nil
			f()
		}
	})
	db, err := kv.Open("store", eitherWay(o))
	if err != nil {
		t.Fatal(err)
	}
	f := newFilter(t, db, "f")
	if _, err := f.AddString("before"); err != nil { // the block is in memory
		t.Fatal(err)
	}
	watch := db.NewWatch()
	defer watch.Stop()
	during = func() {
		if err := watch.Add([]byte("f")); err != nil {
			t.Error(err)
		}
		if there, err := f.MayContainString("meanwhile"); there || err != nil {
			t.Errorf("the item is in memory already: %v, %v", there, err)
		}
	}
	if _, err := f.AddString("meanwhile"); err != nil {
		t.Fatal(err)
	}
	err = db.Read(func(r kv.Reader) error {
		changed, err := watch.Changed(r)
		if !changed {
			t.Error("the watch was not told")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
