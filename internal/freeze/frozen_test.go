package freeze_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/freeze"
)

// TestFS_frozen_Pebble goes on using Pebble for a while after the directory was frozen.
func TestFS_frozen_Pebble(t *testing.T) {
	r := newRun()
	l := &listener{}
	frozen := freeze.New(r.disk, dir, func(error) { r.told.Store(true) })
	frozen.KeepCompactions(func() bool { return true })
	db, err := pebble.Open(dir, smallOptions(frozen, l))
	check(t, err)
	for range 100 {
		check(t, r.write(db))
	}
	frozen.Freeze(errTest)
	before := contents(r.disk, dir)
	crash := r.disk.CrashClone(vfs.CrashCloneCfg{})

	for range 200 {
		check(t, r.write(db))
	}
	check(t, db.Flush())
	check(t, db.Compact(tctx, []byte("a"), []byte("c"), false))
	check(t, r.verifyWrites(db))
	for i := 100; i < 300; i++ { // Pebble itself sees what it wrote
		v, closer, err := db.Get(keysOf(i)[0])
		check(t, err)
		if string(v) != string(valueOf(i)) {
			t.Errorf("write %d has another value", i)
		}
		check(t, closer.Close())
	}
	if err := db.Checkpoint("backup", pebble.WithFlushedWAL()); err == nil {
		t.Errorf("a backup of tables that are not on the disk succeeded")
	}
	check(t, db.Close())
	check(t, l.err())

	unchanged(t, r.disk, before)
	after := r.disk.CrashClone(vfs.CrashCloneCfg{})
	unchanged(t, after, contents(crash, dir))
	for _, disk := range []vfs.FS{crash, r.disk} {
		check(t, r.verify(disk))
	}
}

// TestFS_callback holds up the callback. Until the callback has returned, no operation may pretend success: the store
// decides by what the callback did whether to acknowledge.
func TestFS_callback(t *testing.T) {
	called, release := make(chan struct{}), make(chan struct{})
	var released atomic.Bool
	frozen := freeze.New(newDir(), dir, func(error) {
		close(called)
		<-release
	})
	log := must(frozen.Create("db/000002.log", category))
	table := must(frozen.Create("db/000004.sst", category))
	var others sync.WaitGroup
	others.Go(func() { frozen.Freeze(errTest) })
	<-called
	if frozen.Failed() != errTest {
		t.Errorf("Failed returned %v", frozen.Failed())
	}
	for _, do := range []func() error{
		func() error { _, err := log.Write([]byte("x")); return err },
		func() error { return log.Sync() },
		func() error { return table.Sync() },
		func() error { _, err := frozen.Create("db/000003.log", category); return err },
		func() error { return frozen.Remove("db/000002.log") },
		func() error { frozen.Freeze(errors.New("too late")); return nil },
	} {
		others.Go(func() {
			if err := do(); err != nil || !released.Load() {
				t.Errorf("returned %v; the callback has returned: %t", err, released.Load())
			}
		})
	}
	for range 1000 {
		runtime.Gosched()
	}
	released.Store(true)
	close(release)
	others.Wait()
}

// TestFS_concurrent has many goroutines write to logs of their own, as the store does. A record counts as written if
// the directory is not frozen after its sync. One of the goroutines meets an error.
func TestFS_concurrent(t *testing.T) {
	disk := newDir()
	f := &fault{site: site{"sync", "log"}, nth: 500}
	var atFreeze map[string]string
	frozen := freeze.New(&faultFS{FS: disk, dir: dir, fault: f}, dir, func(error) { atFreeze = contents(disk, dir) })
	finishOpen(t, frozen)
	logs := make([]vfs.File, 8)
	for w := range logs {
		logs[w] = must(frozen.Create(fmt.Sprintf("db/%06d.log", w), category))
	}
	check(t, must(frozen.OpenDir(dir)).Sync())

	acked := make([]int, len(logs))
	var writers sync.WaitGroup
	for w, log := range logs {
		writers.Go(func() {
			for frozen.Failed() == nil {
				must(log.Write([]byte{byte(w)}))
				if err := log.SyncData(); err != nil {
					t.Error(err)
				}
				if frozen.Failed() == nil {
					acked[w]++
				}
				if err := writeTable(frozen); err != nil && !errors.Is(err, freeze.ErrFrozen) {
					t.Error(err)
				}
			}
			if err := log.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	unchanged(t, disk, atFreeze)
	crashed := contents(disk.CrashClone(vfs.CrashCloneCfg{}), dir)
	for w, n := range acked {
		name := fmt.Sprintf("%06d.log", w)
		if len(atFreeze[name]) < n || len(crashed[name]) < n {
			t.Errorf("%s has %d records, %d after a crash, of %d acknowledged",
				name, len(atFreeze[name]), len(crashed[name]), n)
		}
	}
}

// TestFS_frozen_compaction begins compactions in a frozen directory. They fail, so that memory holds only what was
// flushed. A compaction that a commit waits for succeeds.
func TestFS_frozen_compaction(t *testing.T) {
	for _, keep := range []bool{false, true} {
		r := newRun()
		frozen := freeze.New(r.disk, dir, nil)
		if keep {
			frozen.KeepCompactions(func() bool { return true })
		}
		opts := smallOptions(frozen, &listener{})
		opts.DisableAutomaticCompactions = true
		db := must(pebble.Open(dir, opts))
		for range 100 {
			check(t, r.write(db))
		}
		check(t, db.Flush())
		frozen.Freeze(errTest)
		if n := frozen.Kept(); n != 0 {
			t.Errorf("%d bytes in memory before anything was written", n)
		}
		check(t, r.write(db))
		check(t, db.Flush())
		flushed := frozen.Kept()
		if flushed < 800 || flushed > 10_000 {
			t.Errorf("%d bytes in memory after a flush of 800", flushed)
		}
		err := db.Compact(tctx, []byte("a"), []byte("c"), false)
		switch {
		case !keep && (!errors.Is(err, freeze.ErrFrozen) || frozen.Kept() != flushed):
			t.Errorf("Compact returned %v; %d bytes in memory, %d before", err, frozen.Kept(), flushed)
		case keep && (err != nil || frozen.Kept() < 80_000):
			t.Errorf("Compact returned %v; %d bytes in memory", err, frozen.Kept())
		}
		check(t, db.Close())
	}
}
