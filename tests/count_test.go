package tests

import (
	"errors"
	"strconv"
	"strings"
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
	// The disk reads this number of times from tables, and then fails until left is set again. So background work of
	// Pebble, which may read at any time, takes no failure away from Count.
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
	const capacity = 20000
	db := open(disk)
	counting, cuckoo := db.Counting("n"), db.Cuckoo("c")
	if err := errors.Join(
		counting.Reserve(sievekv.Capacity(capacity, 0.001), nil),
		cuckoo.Reserve(sievekv.Capacity(capacity, 0), nil),
	); err != nil {
		t.Fatal(err)
	}
	var items [][]byte
	for i := range 3 * capacity {
		items = append(items, strconv.AppendInt(nil, int64(i), 10))
	}
	newest := items[len(items)-10:] // they are in the newest layer alone
	_, countingErr := counting.AddMany(items, nil)
	_, cuckooErr := cuckoo.AddMany(items, nil)
	if err := errors.Join(countingErr, cuckooErr, db.Store().CompactTables(t.Context())); err != nil {
		t.Fatal(err)
	}
	closeDB(db)
	for name, count := range map[string]func(db *sievekv.DB, item []byte) (int, error){
		"counting": func(db *sievekv.DB, item []byte) (int, error) { return db.Counting("n").Count(item) },
		"cuckoo":   func(db *sievekv.DB, item []byte) (int, error) { return db.Cuckoo("c").Count(item) },
	} {
		// One call may read an item's blocks of both layers, and what is before them on the disk: not of all items.
		older := false // the block of the older layer could not be read, when the newest layer's was
		for _, item := range newest {
			for n, done := int64(0), false; !done; n++ {
				left.Store(many)
				db := open(fs)
				left.Store(n)
				got, err := count(db, item)
				done = left.Swap(many) >= 0
				switch {
				case done && (got != 1 || err != nil):
					t.Errorf("%s: %d, %v without an error of the disk", name, got, err)
				case !done && err == nil: // Pebble has read for itself
				case !done && (got != 0 || !errors.Is(err, errRead)):
					t.Errorf("%s: %d, %v, want 0, %v", name, got, err, errRead)
				case !done:
					older = older || strings.Contains(err.Error(), " of layer 0: ")
				}
				_ = db.Close() // its error may be the disk's
			}
		}
		if !older {
			t.Errorf("%s: the older layer's block was always read with the newest's", name)
		}
	}
}
