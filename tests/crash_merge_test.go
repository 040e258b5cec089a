package tests_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
	"github.com/sievekv/sievekv/tests/crash"
	"github.com/sievekv/sievekv/tests/faultfs"
)

// ownItems returns items that belong to a key alone.
func ownItems(key string, n int) [][]byte {
	list := make([][]byte, n)
	for i := range list {
		list[i] = fmt.Appendf(nil, "%s %d", key, i)
	}
	return list
}

// fillFor makes a filter of many blocks with the items of its key.
func fillFor(t *testing.T, db *kv.DB, key string, n int) {
	t.Helper()
	f := bloomext.New(db, key).With(kv.NoSync)
	must(t, f.Reserve(bloomext.Config{Group: "g", Capacity: 100_000, ErrorRate: rate}))
	added := make([]bool, n)
	_, err := f.AddMany(ownItems(key, n), added)
	must(t, err)
}

// holds returns how many of the items a filter has.
func holds(db *kv.DB, key string, items [][]byte) (int, error) {
	present := make([]bool, len(items))
	err := bloomext.New(db, key).MayContainMany(items, present)
	n := 0
	for _, p := range present {
		if p {
			n++
		}
	}
	return n, err
}

// reclaimAll reclaims until nothing is left to do.
func reclaimAll(db *kv.DB) error {
	for {
		if found, err := db.Reclaim(context.Background()); !found || err != nil {
			return err
		}
	}
}

// A merge writes blocks ahead of its commit, more than a commit takes. A crash at any of the calls that do so leaves the
// filter as it was or the whole union, a store that checks, and nothing of a merge that was not committed once dropped
// objects have been reclaimed.
func TestCrash_merge(t *testing.T) {
	t.Parallel()
	const n = 4000
	disk := kvtest.NewDisk()
	must(t, faultfs.MakeDir(disk))
	var mu sync.Mutex
	var shots []*kvtest.Disk // guarded by mu
	taking := false          // guarded by mu
	rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
	take := func() bool {
		mu.Lock()
		defer mu.Unlock()
		if taking {
			shots = append(shots, disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng}))
		}
		return taking
	}
	fs := &faultfs.FS{FS: disk, Before: func(faultfs.Site, string) error {
		take()
		return nil
	}}
	opts := tinyOptions(fs)
	opts.MemTableSize = 512 << 10
	db := open(t, storeDir, opts)
	for _, key := range []string{"dest", "src1", "src2"} {
		fillFor(t, db, key, n)
	}
	must(t, db.Sync())
	mu.Lock()
	taking = true
	mu.Unlock()
	var besides sync.WaitGroup
	besides.Go(func() {
		for take() {
			time.Sleep(200 * time.Microsecond)
		}
	})
	must(t, bloomext.New(db, "dest").Merge(t.Context(), bloomext.New(db, "src1"), bloomext.New(db, "src2")))
	mu.Lock()
	taking = false
	shots = append(shots, disk.CrashClone(vfs.CrashCloneCfg{})) // acknowledged: must be whole
	mu.Unlock()
	besides.Wait()
	must(t, errors.Join(reclaimAll(db), checkStore(db)))
	size := mustDisk(t, db)

	before, after := 0, 0
	for i, shot := range shots {
		if i%4 > 0 && i < len(shots)-1 {
			continue // to save time
		}
		o := tinyOptions(shot)
		db := open(t, storeDir, o)
		must(t, checkStore(db))
		own, err := holds(db, "dest", ownItems("dest", n))
		must(t, err)
		first, err := holds(db, "dest", ownItems("src1", n))
		must(t, err)
		second, err := holds(db, "dest", ownItems("src2", n))
		must(t, err)
		switch {
		case own == n && first == n && second == n:
			after++
		case own == n && first == 0 && second == 0 && i < len(shots)-1:
			before++
		default:
			t.Errorf("shot %d of %d: dest has %d of its own items, %d and %d of the others, of %d", i, len(shots), own, first, second, n)
		}
		must(t, errors.Join(reclaimAll(db), checkStore(db), crash.WriteAndForget(db)))
		if after := mustDisk(t, db); after > size+size/4 {
			t.Errorf("shot %d: %d bytes on disk, %d where nothing happened", i, after, size)
		}
		must(t, db.Close())
	}
	t.Logf("%d crashes: %d before the merge, %d after", len(shots), before, after)
	if before == 0 || after == 0 {
		t.Error("no crash before, or none after, the commit")
	}
}

func mustDisk(t *testing.T, db *kv.DB) uint64 {
	t.Helper()
	must(t, db.CompactTables(t.Context()))
	size, err := db.DiskBytes()
	must(t, err)
	return size
}

// A merge that is refused or given up changes nothing and leaves nothing behind, and lookups go on during one.
func TestMerge_refused(t *testing.T) {
	t.Parallel()
	opts := tinyOptions(vfs.NewMem())
	opts.MemTableSize = 512 << 10
	db := open(t, storeDir, opts)
	const n = 500
	fillFor(t, db, "dest", n)
	fillFor(t, db, "src", n)
	before := mustDisk(t, db)

	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	err := bloomext.New(db, "dest").Merge(canceled, bloomext.New(db, "src"))
	wantError(t, err, context.Canceled)

	must(t, bloomext.New(db, "full").Reserve(bloomext.Config{Group: "g", Capacity: 1000, ErrorRate: 0.01, GrowthLog: -1}))
	must(t, bloomext.New(db, "other").Reserve(bloomext.Config{Group: "g", Capacity: 1000, ErrorRate: 0.01, GrowthLog: -1}))
	for _, key := range []string{"full", "other"} {
		_, err := bloomext.New(db, key).AddMany(ownItems(key, 1000), make([]bool, 1000))
		must(t, err)
	}
	err = bloomext.New(db, "full").Merge(t.Context(), bloomext.New(db, "other"))
	wantError(t, err, scalableext.ErrRate, "0.007")

	own, err := holds(db, "dest", ownItems("dest", n))
	must(t, err)
	others, err := holds(db, "dest", ownItems("src", n))
	must(t, err)
	if own != n || others != 0 {
		t.Errorf("after refused merges dest has %d of its %d items and %d of another's", own, n, others)
	}
	must(t, errors.Join(checkStore(db), reclaimAll(db), checkStore(db)))
	if after := mustDisk(t, db); after > before+64<<10 {
		t.Errorf("%d bytes on disk after refused merges, %d before", after, before)
	}

	done := make(chan struct{})
	lost := make(chan error, 1)
	go func() {
		defer close(lost)
		f := bloomext.New(db, "dest")
		for {
			for _, item := range ownItems("dest", n) {
				if present, err := f.MayContain(item); !present || err != nil {
					lost <- fmt.Errorf("%s during a merge: %v, %w", item, present, err)
					return
				}
			}
			select {
			case <-done:
				return
			default:
			}
		}
	}()
	for range 5 {
		must(t, bloomext.New(db, "dest").Merge(t.Context(), bloomext.New(db, "src")))
	}
	close(done)
	must(t, <-lost)
}
