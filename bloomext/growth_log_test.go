package bloomext_test

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/txn"
)

// No hash is remembered that was not added, also not the one that stands for none.
func TestRemembered(t *testing.T) {
	for added, others := range map[uint64][]uint64{7: {0, 8, 7 + 1<<32, math.MaxUint64}, 0: {7}} {
		for _, h := range others {
			if bloomext.Remembered(added, h) {
				t.Errorf("%d was added, and %d is remembered", added, h)
			}
		}
	}
}

// A union has no more bits than its items set, in each of its blocks, also while one of the filters is being filled.
func TestMerge_logsOfBlocks(t *testing.T) {
	db := open(t, "", nil)
	defer closeDB(t, db)
	logBytes(t, db, 1<<20)
	var parts []*bloomext.Filter
	for n := range 2 {
		f := bloomext.New(db, fmt.Sprint("part ", n)).With(kv.NoSync)
		if err := f.Reserve(bloomext.Config{Group: "g", Capacity: 100, ErrorRate: 0.05}); err != nil {
			t.Fatal(err)
		}
		for from := n * 30_000; ; from += 500 {
			if info, err := f.Info(); err != nil {
				t.Fatal(err)
			} else if from >= n*30_000+20_000 && info.Filling != 0 {
				break
			}
			addRange(t, f, from, from+500, 0.05)
		}
		parts = append(parts, f)
	}
	if err := parts[0].Merge(t.Context(), parts[1]); err != nil {
		t.Fatal(err)
	}
	finds(t, parts[0], 20_000)
	info, err := parts[0].Info()
	if err != nil || len(info.Layers) != 1 || info.Filling != 0 || info.Bytes < 3*8<<10 {
		t.Errorf("%+v, %v", info, err)
	}
	if got := measuredRate(t, parts[0], 20_000); got > 0.055 {
		t.Errorf("measured rate %v", got)
	}
	checkWhole(t, db)
}

// A log that begins in a store that takes smaller filters than the one in which its filter was made is no longer than these.
func TestGrowth_smallerStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db := open(t, dir, &kv.Options{BallastSize: -1})
	const capacity, most = 5000, 128 << 10
	reserveLogged(t, db, 64<<20, capacity, 0.01)
	closeDB(t, db)
	db = open(t, dir, &kv.Options{BallastSize: -1, MaxFilterBytes: most})
	defer closeDB(t, db)
	f := bloomext.New(db, "f").With(kv.NoSync)
	addRange(t, f, 0, 2*capacity, 0.01)
	if info, err := f.Info(); err != nil || info.LogBytes == 0 || info.GrowthLog != most {
		t.Errorf("%+v, %v", info, err)
	}
	finds(t, f, 2*capacity)
}

// What a pipeline adds to a filter is not remembered for the one that had the key before and was renamed.
func TestGrowth_renamed(t *testing.T) {
	db := open(t, "", nil)
	defer closeDB(t, db)
	f, item := growing(t, db)
	before := bloomext.Logging(f)
	if err := db.Rename(kv.NoSync, []byte("f"), []byte("g")); err != nil {
		t.Fatal(err)
	}
	f, _ = growing(t, db)
	g := bloomext.New(db, "g").With(kv.NoSync)
	var seeming []uint64
	for ; len(seeming) < 30; item++ {
		item = seems(t, g, item)
		bloomext.Remember(f, before, item)
		if _, err := g.AddUint64(item); err != nil {
			t.Fatal(err)
		}
		seeming = append(seeming, item)
	}
	growsAndFinds(t, db, g, seeming)
}

// What transactions add makes a filter grow as other adds do, if no service helps: the growth goes on after each commit.
func TestGrowth_transactions(t *testing.T) {
	db := open(t, "", nil)
	defer closeDB(t, db)
	const items = 20_000
	for _, size := range []int{10, 1000} {
		f := reserveLogged(t, db, 64<<20, 100, 0.01)
		for n := 0; n < items; n += size {
			if err := txn.Update(t.Context(), db, kv.NoSync, func(tx *txn.Tx) error {
				batch := make([]uint64, size)
				for i := range batch {
					batch[i] = uint64(n + i)
				}
				_, err := f.In(tx).AddManyUint64(batch, nil)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		if info, err := f.Info(); err != nil || len(info.Layers) > 2 || info.Bytes*8 > 14*items {
			t.Errorf("%d items in each: %d layers, %d bytes, %v", size, len(info.Layers), info.Bytes, err)
		}
		if _, err := f.Drop(); err != nil {
			t.Fatal(err)
		}
	}
}

// A key that holds another type, or a filter without a log, has no log in which something could be remembered.
func TestLogging_none(t *testing.T) {
	db := open(t, "", nil)
	defer closeDB(t, db)
	isNone := func() {
		t.Helper()
		objectOf(t, db)
		if got := fmt.Sprint(bloomext.Logging(bloomext.New(db, "f"))); got != "<nil>" {
			t.Errorf("it has the log of %s", got)
		}
	}
	f := bloomext.New(db, "f")
	if err := f.Reserve(bloomext.Config{Capacity: 100, ErrorRate: 0.01, NonScaling: true}); err != nil {
		t.Fatal(err)
	}
	isNone()
	if _, err := db.Set(kv.NoSync, []byte("f"), []byte("x"), kv.SetOptions{}); err != nil {
		t.Fatal(err)
	}
	isNone()
}
