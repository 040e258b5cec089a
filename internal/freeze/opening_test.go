package freeze_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/freeze"
)

// TestFS_opening has a call for a table fail before, during and after the opening of a store, and when it is opened
// again.
func TestFS_opening(t *testing.T) {
	for _, op := range []string{"create", "write", "sync", "close"} {
		for step, freezes := range []bool{true, true, false, true} {
			f := &fault{}
			frozen := freeze.New(&faultFS{FS: newDir(), dir: dir, fault: f}, dir, nil)
			for i := range step {
				if i == 1 {
					finishOpen(t, frozen)
				} else {
					check(t, frozen.MkdirAll(dir, 0o755))
					writeFile(frozen, "db/000001.dbtmp", "")
					check(t, frozen.Rename("db/000001.dbtmp", "db/000002.log"))
				}
			}
			f.arm(site{op, "sst"})
			if err := writeTable(frozen); !errors.Is(err, syscall.EIO) {
				t.Errorf("%s returned %v", op, err)
			}
			if (frozen.Failed() != nil) != freezes {
				t.Errorf("%s, step %d: Failed returned %v", op, step, frozen.Failed())
			}
		}
	}
}

// TestFS_opening_full opens a store on a full disk. Its log does not fit into the memtable, so Open writes it to a
// table. Pebble alone would not return.
func TestFS_opening_full(t *testing.T) {
	r := newRun()
	large := smallOptions(r.disk, &listener{})
	large.MemTableSize = 1 << 20
	db, err := pebble.Open(dir, large)
	check(t, err)
	for range 100 {
		check(t, r.write(db))
	}
	check(t, db.Close())

	f := &fault{site: site{"create", "sst"}, nth: 1, after: true, err: syscall.ENOSPC}
	openErr, broken := r.session(&faultFS{FS: r.disk, dir: dir, fault: f}, &f.opened, 1)
	if openErr != nil || broken != nil || !f.atStart || !vfs.IsNoSpaceError(r.failed) {
		t.Fatalf("Open returned %v, Failed %v; broken: %v; too late: %t", openErr, r.failed, broken, !f.atStart)
	}
	check(t, r.verify(r.disk))
}

// TestFS_tables_failing has the calls for tables fail 60 times in a row, twice.
func TestFS_tables_failing(t *testing.T) {
	for _, c := range []struct {
		name     string
		err      error
		recovers bool // a table can be written in between
		frozen   bool
	}{
		{"a disk that takes nothing", syscall.EROFS, false, true},
		{"a disk that takes some", syscall.EIO, true, false},
		{"a full disk", syscall.ENOSPC, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fault{err: c.err, site: site{"create", "sst"}, nth: 1, after: true, heal: 59}
			frozen := freeze.New(&faultFS{FS: newDir(), dir: dir, fault: f}, dir, nil)
			finishOpen(t, frozen)
			for range 60 {
				if err := writeTable(frozen); !errors.Is(err, c.err) {
					t.Fatalf("a call that fails returned %v", err)
				}
			}
			check(t, frozen.Failed())
			if c.recovers {
				check(t, writeTable(frozen))
			}
			f.failed = 0
			for i := 0; i < 59 && frozen.Failed() == nil; i++ {
				if err := writeTable(frozen); !errors.Is(err, c.err) {
					t.Fatalf("a call that fails returned %v", err)
				}
			}
			if (frozen.Failed() != nil) != c.frozen {
				t.Errorf("Failed returned %v", frozen.Failed())
			}
		})
	}
}
