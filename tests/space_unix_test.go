//go:build unix

package tests_test

import (
	"flag"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/scalableext"
)

var spaceItems = flag.Uint64("space", 3_000_000, "how many items TestSpace adds to a filter and deletes with it")

// The space of a filter that was deleted is back after a compaction, and what stats and a compaction tell is what du
// tells.
func TestSpace(t *testing.T) {
	const ahead = 4 << 20 // bytes that an open store may have more on the disk than it tells: its log has them ahead
	dir := filepath.Join(t.TempDir(), "store")
	options := func() *kv.Options {
		return &kv.Options{FS: vfs.Default, BallastSize: 1 << 20, MinFreeSpace: -1, MemTableSize: 1 << 20, Durability: kv.NoSync,
			Modules: coreext.With(bloomext.Module())}
	}
	db := open(t, dir, options())
	f := bloomext.New(db, "f")
	must(t, f.Reserve(bloomext.Config{Capacity: *spaceItems, ErrorRate: 0.01, NonScaling: true}))
	items := make([]uint64, 1<<16)
	for first := uint64(0); first < *spaceItems; first += uint64(len(items)) {
		items = items[:min(uint64(len(items)), *spaceItems-first)]
		for i := range items {
			items[i] = first + uint64(i)
		}
		_, err := f.AddMany(scalableext.Uint64s(items...), nil)
		must(t, err)
	}
	// told opens the store again: Pebble removes the tables that a compaction replaced in the background, and has when it is
	// closed.
	told := func() int64 {
		t.Helper()
		must(t, db.Close())
		db = open(t, dir, options())
		m, err := db.Metrics()
		must(t, err)
		use, want := kvtest.DiskUse(t, dir), int64(m.DiskBytes+m.ReserveBytes)
		if use < want*9/10 || use > want*11/10+ahead {
			t.Errorf("%d bytes are on the disk, and stats tell %d", use, want)
		}
		return use
	}
	compact := func() (before, now int64) {
		t.Helper()
		d := &dumping{t: t, db: db, session: module.NewSession(db)}
		r := d.mustDo("SIEVE.COMPACT").Elems()
		return r[1].Int(), r[3].Int()
	}
	compact()
	full := told()
	size := int64(*spaceItems) * 9 / 8 // bytes: 9 bits an item at least
	if full < size {
		t.Fatalf("%d bytes are on the disk, want %d and more", full, size)
	}
	_, err := db.Delete(kv.Always, []byte("f"))
	must(t, err)
	before, now := compact()
	empty := told()
	t.Logf("%d bytes on the disk with %d items, %d without", full, *spaceItems, empty)
	if most := int64(ahead + 2<<20); empty > most {
		t.Errorf("%d bytes are on the disk after the filter is gone, want at most %d", empty, most)
	}
	if before < size || before > full+ahead || now > empty {
		t.Errorf("compact tells %d bytes before and %d now; on the disk were %d, and are %d", before, now, full, empty)
	}
}
