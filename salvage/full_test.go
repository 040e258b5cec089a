package salvage_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/salvage"
	"github.com/sievekv/sievekv/tests/faultfs"
)

// onDisk returns a disk in memory with a store of some strings in the directory old.
func onDisk(t *testing.T, keys int) *kvtest.Disk {
	t.Helper()
	disk := kvtest.NewDisk()
	o := options()
	o.FS = disk
	db, err := kv.Open("old", &o)
	check(t, err)
	for i := range keys {
		_, err := db.Set(kv.NoSync, fmt.Append(nil, "key ", i), make([]byte, 1000), kv.SetOptions{})
		check(t, err)
	}
	check(t, db.Close())
	return disk
}

// wantNone checks that there is nothing of a new store on a disk.
func wantNone(t *testing.T, disk vfs.FS) {
	t.Helper()
	names, err := disk.List("new")
	if err == nil {
		t.Errorf("left behind: %q", names)
	}
	names, err = disk.List("")
	check(t, err)
	for _, name := range names {
		if name != "old" {
			t.Errorf("left behind: %s", name)
		}
	}
}

// A disk with too little room ends a salvage. No key is named as lost for it, and nothing is left behind.
func TestRecover_noSpace(t *testing.T) {
	disk := onDisk(t, 10)
	o := options()
	o.FS, o.MinFreeSpace = roomless{disk}, 1<<20
	report, err := salvage.Recover(t.Context(), "old", "new", o, salvage.Options{})
	if !errors.Is(err, kv.ErrNoSpace) || report == nil || len(report.Left) > 0 || report.Recovered > 0 {
		t.Errorf("%+v, %v", report, err)
	}
	wantNone(t, disk)
}

// roomless has no room left.
type roomless struct{ vfs.FS }

func (roomless) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: 1000, TotalBytes: 1 << 40}, nil
}

// failures is a handler of a logger that calls told when a store says that it has failed.
type failures struct {
	slog.Handler
	told func()
}

func (failures) Enabled(context.Context, slog.Level) bool { return true }

func (f failures) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "the store has failed") {
		f.told()
	}
	return nil
}

// A disk that is full, or that fails, at any call ends a salvage in the same way.
func TestRecover_failingDisk(t *testing.T) {
	disk := onDisk(t, 500)
	for _, tt := range []struct {
		op, part string // of the name
		keys     bool   // after the first key, not before
	}{
		{"write", ".log", true}, {"write", ".log", false}, {"write", "DURABLE", false}, {"create", "UNFINISHED", false}, {"mkdir", "new.partial-", false},
		{"rename", "new", false},
	} {
		var full atomic.Bool
		full.Store(!tt.keys)
		failed := make(chan struct{})
		o := options()
		o.Logger = slog.New(failures{slog.DiscardHandler, sync.OnceFunc(func() { close(failed) })})
		o.FS = &faultfs.FS{FS: disk, Before: func(s faultfs.Site, name string) error {
			in := tt.op == "rename" && name == tt.part || tt.op != "rename" && strings.HasPrefix(name, "new.partial-") && strings.Contains(name, tt.part)
			if full.Load() && s.Op == tt.op && in {
				return syscall.ENOSPC
			}
			return nil
		}}
		report, err := salvage.Recover(t.Context(), "old", "new", o, salvage.Options{Progress: func(done, _ uint64) {
			if full.Store(true); tt.keys && done == 100 { // the log has some blocks by now, which are written while others are made
				<-failed // so the next key is refused
			}
		}})
		if !errors.Is(err, syscall.ENOSPC) || report != nil && len(report.Left) > 0 {
			t.Errorf("%s %s: %+v, %v", tt.op, tt.part, report, err)
		}
		wantNone(t, disk)
	}
}

// The new store has its name on stable storage when Recover returns, or Recover says that it may not.
func TestRecover_unsyncedName(t *testing.T) {
	disk := onDisk(t, 1)
	broken := errors.New("broken")
	renamed := false
	o := options()
	o.FS = &faultfs.FS{FS: disk, Before: func(s faultfs.Site, name string) error {
		if s.Op == "rename" && name == "parent/new" {
			renamed = true
		}
		if renamed && s.Op == "sync" && path.Clean(name) == "parent" {
			return broken
		}
		return nil
	}}
	if _, err := salvage.Recover(t.Context(), "old", "parent/new/", o, salvage.Options{}); !renamed || !errors.Is(err, broken) {
		t.Errorf("renamed: %t, %v", renamed, err)
	}
	o.FS = disk
	if _, err := salvage.Recover(t.Context(), "old", "parent/other", o, salvage.Options{}); err != nil {
		t.Error(err)
	}
	db, err := sievekv.Open("parent/other", &sievekv.Options{FS: disk.CrashClone(vfs.CrashCloneCfg{})})
	check(t, err)
	if value, err := db.Get("key 0"); len(value) != 1000 || err != nil {
		t.Errorf("%d bytes, %v", len(value), err)
	}
	check(t, db.Close())
}

// A filter that the options of the new store refuse is left out, with the reason.
func TestRecover_tooLarge(t *testing.T) {
	dir := expiring(t)
	db := open(t, dir)
	check(t, db.Bloom("bloom").Reserve(sievekv.Capacity(100_000, 0.01), nil), db.Close())
	o := options()
	o.MaxFilterBytes = 1000
	report, err := salvage.Recover(t.Context(), dir, dir+".new", o, salvage.Options{})
	check(t, err)
	if len(report.Left) != 1 || report.Left[0].Key != "bloom" || !strings.Contains(fmt.Sprint(report.Left[0].Lost), kv.ErrTooLarge.Error()) || report.Whole() {
		t.Errorf("%+v", report)
	}
}
