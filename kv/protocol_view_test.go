package kv_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/kv"
)

// A view does not show an item that is added while it copies the item's block, be it under
// the filter's key or under one that it is renamed to.
func TestView_committedMeanwhile(t *testing.T) {
	for _, key := range []string{"f", "g"} {
		t.Run(key, func(t *testing.T) { testViewCommittedMeanwhile(t, key) })
	}
}

func testViewCommittedMeanwhile(t *testing.T, key string) {
	var during func()
	o := kv.WithPause(&kv.Options{
		FS: vfs.NewMem(), BallastSize: -1, Durability: kv.NoSync, Modules: []kv.Module{bloomext.Module()},
	}, func(point string) {
		if f := during; f != nil && point == "view: found" {
			during = nil
			f()
		}
	})
	db, err := kv.Open("store", eitherWay(o))
	if err != nil {
		t.Fatal(err)
	}
	f := newFilter(t, db, "f")
	if _, err := f.AddString("before"); err != nil {
		t.Fatal(err)
	}
	view, err := db.NewView(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	added := false
	during = func() {
		added = true
		if err := db.Rename(kv.NoSync, []byte("f"), []byte(key)); err != nil {
			t.Error(err)
		}
		if _, err := bloomext.New(db, key).AddString("meanwhile"); err != nil {
			t.Error(err)
		}
	}
	if ok, err := f.In(view).MayContainString("meanwhile"); ok || err != nil {
		t.Errorf("the view has an item that was added after it: %v, %v", ok, err)
	}
	if ok, err := f.In(view).MayContainString("before"); !ok || err != nil {
		t.Errorf("the view has the item that was there: %v, %v", ok, err)
	}
	if !added {
		t.Error("the view did not look at the block in memory")
	}
	view.Rollback()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
