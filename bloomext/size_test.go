package bloomext_test

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/scalableext"
)

func mustLogBytes(tb testing.TB, db *kv.DB) uint64 {
	tb.Helper()
	if err := db.Sync(); err != nil {
		tb.Fatal(err)
	}
	n, err := db.LogBytesWritten()
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// logged returns how many bytes f writes to the log.
func logged(tb testing.TB, db *kv.DB, f func() error) uint64 {
	tb.Helper()
	before := mustLogBytes(tb, db)
	if err := f(); err != nil {
		tb.Fatal(err)
	}
	return mustLogBytes(tb, db) - before
}

// What reserving, renaming and dropping write does not depend on the size.
func TestFilter_costIndependentOfSize(t *testing.T) {
	db := open(t, "", nil)
	defer closeDB(t, db)
	small, large := bloomext.New(db, "small"), bloomext.New(db, "large")
	const few = 600 // bytes: a header, a lease of ids, and the log's framing
	for _, c := range []struct {
		f        *bloomext.Filter
		capacity uint64
	}{{small, 100}, {large, 1e9}} {
		n := logged(t, db, func() error {
			return c.f.Reserve(bloomext.Config{Capacity: c.capacity, ErrorRate: 0.01, NonScaling: true})
		})
		t.Logf("reserve of %d items: %d bytes of log", c.capacity, n)
		if n > few {
			t.Errorf("reserve of %d items wrote %d bytes of log, want at most %d", c.capacity, n, few)
		}
	}
	filled := fill(t, db, "filled", sizeTestItems, 0.01)
	if ok, err := filled.MayContain(key16(make([]byte, 16), 1)); !ok || err != nil {
		t.Fatalf("MayContain = %v, %v, want true", ok, err)
	}
	n := logged(t, db, func() error { return db.Rename(kv.Always, []byte("filled"), []byte("renamed")) })
	t.Logf("rename of a filter of %d items: %d bytes of log", sizeTestItems, n)
	if n > few {
		t.Errorf("rename wrote %d bytes of log, want at most %d", n, few)
	}
	if ok, err := bloomext.New(db, "renamed").MayContain(key16(make([]byte, 16), 1)); !ok || err != nil {
		t.Fatalf("MayContain after rename = %v, %v, want true", ok, err)
	}
	n = logged(t, db, func() error { _, err := db.Delete(kv.Always, []byte("renamed")); return err })
	t.Logf("delete of a filter of %d items: %d bytes of log", sizeTestItems, n)
	if n > few {
		t.Errorf("delete wrote %d bytes of log, want at most %d", n, few)
	}
}

func closeDB(tb testing.TB, db *kv.DB) {
	tb.Helper()
	if err := db.Close(); err != nil {
		tb.Error(err)
	}
}

// Many small filters stay within the cache's budget, and none loses an item.
func TestFilter_manySmall(t *testing.T) {
	const filters, items, budget = 20_000, 10, 1 << 20
	db := open(t, "", &kv.Options{InMemory: true, CacheSize: budget, Durability: kv.NoSync})
	defer closeDB(t, db)
	makeSmall(t, db, filters, items)
	if used := infoNumber(t, db, "cache_used_bytes"); used > budget+budget/8 {
		t.Errorf("cache uses %d bytes, its budget is %d", used, budget)
	}
	if n := infoNumber(t, db, "open_objects"); n >= filters/2 {
		t.Errorf("%d of %d objects are open with a budget for about %d", n, filters, budget/1000)
	}
	for i := range filters {
		f := bloomext.New(db, fmt.Sprintf("user:%d", i))
		for j := range items {
			if ok, err := f.MayContain(scalableext.Uint64(uint64(i*items + j))); !ok || err != nil {
				t.Fatalf("filter %d item %d: MayContain = %v, %v, want true", i, j, ok, err)
			}
		}
	}
}

func makeSmall(tb testing.TB, db *kv.DB, filters, items int) {
	tb.Helper()
	list, added := make([]uint64, items), make([]bool, items)
	for i := range filters {
		f := bloomext.New(db, fmt.Sprintf("user:%d", i))
		if err := f.Reserve(bloomext.Config{Capacity: 100, ErrorRate: 0.01, NonScaling: true}); err != nil {
			tb.Fatal(err)
		}
		for j := range list {
			list[j] = uint64(i*items + j)
		}
		if _, err := f.AddMany(scalableext.Uint64s(list...), added); err != nil {
			tb.Fatal(err)
		}
	}
}

// infoNumber reads a number from INFO.
func infoNumber(tb testing.TB, db *kv.DB, name string) int {
	tb.Helper()
	text := string(module.NewSession(db).Do(tb.Context(), [][]byte{[]byte("INFO")}).Bytes())
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			var n int
			if _, err := fmt.Sscan(value, &n); err != nil {
				tb.Fatal(err)
			}
			return n
		}
	}
	tb.Fatalf("INFO has no %s", name)
	return 0
}

// residentMemory returns the process's resident set in bytes, 0 if the system does not report it.
func residentMemory() uint64 {
	runtime.GC()
	debug.FreeOSMemory()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			var kib uint64
			if _, err := fmt.Sscan(value, &kib); err == nil {
				return kib << 10
			}
		}
	}
	return 0
}

// BenchmarkManySmall makes a million filters of ten items on disk, and prints the space of each and the memory of the
// process.
func BenchmarkManySmall(b *testing.B) {
	const filters, items, budget = 1_000_000, 10, 64 << 20
	for b.Loop() {
		before := residentMemory()
		db := open(b, b.TempDir(), &kv.Options{CacheSize: budget, Durability: kv.NoSync})
		makeSmall(b, db, filters, items)
		disk, err := db.DiskBytes()
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(disk)/filters, "disk-B/filter")
		b.ReportMetric(float64(infoNumber(b, db, "cache_used_bytes"))/float64(infoNumber(b, db, "open_objects")), "cache-B/open-filter")
		b.ReportMetric(float64(residentMemory()-before)/(1<<20), "resident-MiB")
		b.ReportMetric(float64(infoNumber(b, db, "cache_used_bytes"))/(1<<20), "cache-MiB")
		closeDB(b, db)
	}
}

// BenchmarkHugeBehindSmallCache fills a filter of 1e8 items and opens it again behind a cache of 16 MiB, an eighth of
// its size. It prints the time and the log bytes of an add in batches of 4096, the time of cold lookups and adds, and
// by how much the memory of the process grew: that must stay below the cache, four memtables of 32 MiB, and 32 MiB.
func BenchmarkHugeBehindSmallCache(b *testing.B) {
	const n, lookups, adds = 100_000_000, 200_000, 20_000
	for b.Loop() {
		dir := b.TempDir()
		db := open(b, dir, &kv.Options{Durability: kv.NoSync})
		start := b.Elapsed()
		if err := bloomext.New(db, "f").Reserve(bloomext.Config{Capacity: n + adds, ErrorRate: 0.01, NonScaling: true}); err != nil {
			b.Fatal(err)
		}
		add(b, bloomext.New(db, "f").With(kv.NoSync), n)
		b.ReportMetric(float64((b.Elapsed()-start).Nanoseconds())/n, "ns/add")
		b.ReportMetric(float64(mustLogBytes(b, db))/n, "logB/add")
		closeDB(b, db)

		debug.FreeOSMemory() // what filling left behind
		before := residentMemory()
		db = open(b, dir, &kv.Options{CacheSize: 16 << 20, Durability: kv.NoSync})
		f := bloomext.New(db, "f")
		x := uint64(1)
		var buf [16]byte
		start = b.Elapsed()
		for range lookups {
			if ok, err := f.MayContain(key16(buf[:], next(&x, n))); !ok || err != nil {
				b.Fatalf("MayContain = %v, %v, want true", ok, err)
			}
		}
		b.ReportMetric(float64((b.Elapsed()-start).Nanoseconds())/lookups, "ns/cold-lookup")
		start = b.Elapsed()
		for i := range uint64(adds) {
			if _, err := f.Add(key16(buf[:], n+i)); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64((b.Elapsed()-start).Nanoseconds())/adds, "ns/cold-add")
		b.ReportMetric(float64(int64(residentMemory())-int64(before))/(1<<20), "resident-MiB")
		closeDB(b, db)
	}
}

// A store on the operating system's file system and one in memory give the same answers, the former also after it was
// opened again.
func TestFilter_reopen(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir, &kv.Options{FS: vfs.Default, BallastSize: -1})
	f := fill(t, db, "f", 10_000, 0.001)
	before, err := f.Info()
	if err != nil {
		t.Fatal(err)
	}
	closeDB(t, db)
	db = open(t, dir, &kv.Options{BallastSize: -1, MustExist: true})
	defer closeDB(t, db)
	f = bloomext.New(db, "f")
	after, err := f.Info()
	after.DiskBytes, after.ResidentBytes = before.DiskBytes, before.ResidentBytes // where its bytes are, not what
	if err != nil || !reflect.DeepEqual(after, before) {
		t.Errorf("Info after reopen = %+v, %v, want %+v", after, err, before)
	}
	var buf [16]byte
	for i := range uint64(10_000) {
		if ok, err := f.MayContain(key16(buf[:], i)); !ok || err != nil {
			t.Fatalf("item %d after reopen: MayContain = %v, %v, want true", i, ok, err)
		}
	}
	report, err := db.Check(t.Context())
	if err != nil || len(report.Problems) > 0 || len(report.Notes) > 0 {
		t.Errorf("Check = %+v, %v", report, err)
	}
}

// AddMany keeps to the size of a commit, however small the memtables.
func TestFilter_AddMany_smallMemtable(t *testing.T) {
	db := open(t, "", &kv.Options{InMemory: true, MemTableSize: 256 << 10})
	defer closeDB(t, db)
	f := bloomext.New(db, "f")
	if err := f.Reserve(bloomext.Config{Capacity: 1e8, ErrorRate: 1e-6, NonScaling: true}); err != nil {
		t.Fatal(err)
	}
	items, added := make([]uint64, 5000), make([]bool, 5000)
	for i := range items {
		items[i] = uint64(i)
	}
	if n, err := f.AddMany(scalableext.Uint64s(items...), added); n != len(items) || err != nil {
		t.Fatalf("AddMany = %d, %v, want %d", n, err, len(items))
	}
	if info, err := f.Info(); err != nil || info.Items != uint64(len(items)) {
		t.Errorf("Info = %+v, %v, want %d items", info, err, len(items))
	}
}
