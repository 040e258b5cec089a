package bloomext_test

import (
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// filledUp returns a filter to which max-filter-bytes leaves no room to grow, and how many items it has. Its rate is so low that the log has
// more room than the filter.
func filledUp(t *testing.T, db *kv.DB, key string) (f *bloomext.Filter, n int) {
	t.Helper()
	f = bloomext.New(db, key).With(kv.NoSync)
	if err := f.Reserve(bloomext.Config{Capacity: 100, ErrorRate: 1e-14}); err != nil {
		t.Fatal(err)
	}
	for ; ; n++ {
		if _, err := f.Add(scalableext.Uint64(uint64(n))); errors.Is(err, scalableext.ErrCannotGrow) {
			return f, n
		} else if err != nil {
			t.Fatal(err)
		}
		compacts(t, db, 1)
	}
}

// The log of a filter that cannot be made anew within max-filter-bytes, which is less than it was, ends. The filter keeps its items.
func TestTooLarge_anew(t *testing.T) {
	fsys := vfs.NewMem()
	db := open(t, "store", &kv.Options{FS: fsys, MaxFilterBytes: 4 << 10, Seed: 3})
	f, n := bloomext.New(db, "f").With(kv.NoSync), 100
	if err := f.Reserve(bloomext.Config{Capacity: 100, ErrorRate: 1e-14}); err != nil {
		t.Fatal(err)
	}
	addRange(t, f, 0, n, 1e-14)
	closeDB(t, db)
	db = open(t, "store", &kv.Options{FS: fsys, MaxFilterBytes: 512, Seed: 3})
	defer closeDB(t, db)
	f = bloomext.New(db, "f").With(kv.NoSync)
	all := make([]uint64, n)
	for i := range all {
		all[i] = uint64(i)
	}
	for range 4 { // each time the log gets the hashes of all once more
		if _, err := f.AddMany(scalableext.Uint64s(all...), nil); err != nil {
			t.Fatal(err)
		}
		if err := db.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := f.Info(); err != nil || info.LogBytes != 0 {
		t.Errorf("%+v, %v", info, err)
	}
	finds(t, f, uint64(n))
	checkWhole(t, db)
}

// The union of filters whose logs together are too many for max-filter-bytes is made layer by layer, or refused for its rate.
func TestTooLarge_merged(t *testing.T) {
	db := open(t, "", &kv.Options{InMemory: true, MaxFilterBytes: 4 << 10, Seed: 3})
	defer closeDB(t, db)
	a, n := filledUp(t, db, "a")
	b, _ := filledUp(t, db, "b")
	for i := range 1000 {
		if _, err := b.Add(scalableext.Uint64(uint64(i + 1<<20))); err != nil && !errors.Is(err, scalableext.ErrCannotGrow) {
			t.Fatal(err)
		}
	}
	if err := a.Merge(t.Context(), b); err != nil && !errors.Is(err, scalableext.ErrRate) && !errors.Is(err, scalableext.ErrUnequal) {
		t.Errorf("Merge = %v", err)
	}
	finds(t, a, uint64(n))
	checkWhole(t, db)
}

// A window whose next slice, or layer, would be above max-filter-bytes refuses items with ErrCannotGrow, until slices end.
func TestTooLarge_window(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	o := &kv.Options{FS: vfs.NewMem(), MaxFilterBytes: 8 << 10, Seed: 3, Clock: func() time.Time { return now }}
	db := open(t, "store", o)
	f := bloomext.New(db, "f").With(kv.NoSync)
	if err := f.Reserve(bloomext.Config{Capacity: 400, ErrorRate: 0.01, Window: time.Minute, Slices: 2}); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for turn := range 8 {
		before := refused
		for i := range 3000 {
			item := uint64(turn*3000 + i)
			_, err := f.Add(scalableext.Uint64(item))
			switch {
			case errors.Is(err, scalableext.ErrCannotGrow):
				refused++
			case err != nil:
				t.Fatal(err)
			default:
				findsItem(t, f, item)
			}
		}
		if refused-before == 3000 {
			t.Errorf("turn %d takes no item", turn)
		}
		now = now.Add(31 * time.Second)
		compacts(t, db, 10)
	}
	info, err := f.Info()
	if err != nil || refused == 0 || info.Bytes > 8<<10 {
		t.Errorf("%d items were refused: %+v, %v", refused, info, err)
	}
	closeDB(t, db)
	o.MaxFilterBytes = 512 // less than a slice that it has
	db = open(t, "store", o)
	defer closeDB(t, db)
	f = bloomext.New(db, "f").With(kv.NoSync)
	if _, err := f.Add(scalableext.Uint64(1 << 41)); !errors.Is(err, scalableext.ErrCannotGrow) {
		t.Errorf("with less room: %v", err)
	}
	now = now.Add(5 * time.Minute)
	if added, err := f.Add(scalableext.Uint64(1 << 40)); !added || err != nil {
		t.Errorf("after all slices: %t, %v", added, err)
	}
	checkWhole(t, db)
}
