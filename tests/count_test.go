package tests

import (
	"errors"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/tests/faultfs"
)

// With an error Count is 0, also if a layer that was read before the error has the item.
func TestCount_readError(t *testing.T) {
	errRead := errors.New("the disk does not read")
	disk := vfs.NewMem()
	// The disk reads so many times from tables, and then fails until left is set again. So background work of Pebble,
	// which may read at any time, takes no failure away from Count.
	const many = 1 << 40
	var left atomic.Int64
	fs := &faultfs.FS{FS: disk, Before: func(s faultfs.Site, _ string) error {
		if s.Op == "read" && s.Class == "sst" && left.Add(-1) < 0 {
			return errRead
		}
		return nil
	}}
	open := func(fs vfs.FS) *sievekv.DB {
		t.Helper()
		// With this seed the item's blocks of two layers are not neighbours on the disk, which one call reads.
		db, err := sievekv.Open(faultfs.StoreDir, &sievekv.Options{FS: fs, BallastSize: -1, MinFreeSpace: -1, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	closeDB := func(db *sievekv.DB) {
		t.Helper()
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	const capacity, item = 20000, "in the newest layer"
	db := open(disk)
	counting, cuckoo := db.Counting("n"), db.Cuckoo("c")
	if err := errors.Join(
		counting.Reserve(sievekv.CountingConfig{Capacity: capacity, ErrorRate: 0.001}),
		cuckoo.Reserve(sievekv.CuckooConfig{Capacity: capacity}),
	); err != nil {
		t.Fatal(err)
	}
	var items [][]byte
	for i := range 3 * capacity {
		items = append(items, strconv.AppendInt(nil, int64(i), 10))
	}
	items = append(items, []byte(item))
	_, countingErr := counting.AddMany(items, nil)
	_, cuckooErr := cuckoo.AddMany(items, nil)
	if err := errors.Join(countingErr, cuckooErr, db.Store().CompactTables(t.Context())); err != nil {
		t.Fatal(err)
	}
	closeDB(db)
	for name, count := range map[string]func(db *sievekv.DB) (int, error){
		"counting": func(db *sievekv.DB) (int, error) { return db.Counting("n").CountString(item) },
		"cuckoo":   func(db *sievekv.DB) (int, error) { return db.Cuckoo("c").CountString(item) },
	} {
		failed, done := 0, false
		for n := int64(0); !done; n++ {
			left.Store(many)
			db := open(fs)
			left.Store(n)
			got, err := count(db)
			done = left.Swap(many) >= 0
			switch {
			case done && (got != 1 || err != nil):
				t.Errorf("%s: %d, %v without an error of the disk", name, got, err)
			case !done && err == nil: // Pebble has read for itself
			case !done && (got != 0 || !errors.Is(err, errRead)):
				t.Errorf("%s: %d, %v, want 0, %v", name, got, err, errRead)
			case !done:
				failed++
			}
			_ = db.Close() // its error may be that of the disk
		}
		if failed < 2 {
			t.Errorf("%s: %d reads failed, want one for each layer", name, failed)
		}
	}
}
