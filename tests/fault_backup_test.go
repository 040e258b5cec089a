package tests_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sievekv/sievekv/backup"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/tests/faultfs"
)

// A backup whose disk is full fails with that error and leaves nothing, wherever the disk fills up. The store goes on
// meanwhile and afterwards.
func TestFault_backupFull(t *testing.T) {
	const dir = "elsewhere/copy"
	mem := kvtest.NewDisk()
	must(t, faultfs.MakeDir(mem))
	must(t, mem.MkdirAll("elsewhere", 0o700))
	var room atomic.Int64 // writes of backups that the disk takes
	disk := &faultfs.FS{FS: mem, Before: func(s faultfs.Site, name string) error {
		if s.Op == "write" && strings.HasPrefix(name, dir) && room.Add(-1) < 0 {
			return syscall.ENOSPC
		}
		return nil
	}}
	db := open(t, storeDir, tinyOptions(disk))
	written := 0
	write := func() {
		must(t, db.Write(kv.NoSync, [][]byte{fmt.Append(nil, "key ", written)}, func(w *kv.Writer) error {
			_, err := w.Set(fmt.Append(nil, "key ", written), make([]byte, 1000), kv.SetOptions{})
			return err
		}))
		written++
	}
	for range 1000 { // some of it in tables
		write()
	}
	for full := int64(0); ; full++ {
		room.Store(full)
		ended, writing := make(chan struct{}), sync.WaitGroup{}
		writing.Go(func() {
			for {
				write()
				select {
				case <-ended:
					return
				default:
				}
			}
		})
		err := backup.Make(t.Context(), db, dir, backup.Options{Copy: full%2 == 0})
		close(ended)
		writing.Wait()
		must(t, db.Sync())
		if err == nil {
			if full < 3 {
				t.Errorf("the backup was made with room for %d writes", full)
			}
			break
		}
		if !errors.Is(err, kv.ErrUnfinishedBackup) || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "no space left on device") {
			t.Errorf("room for %d writes: %v", full, err)
		}
		names, err := mem.List("elsewhere")
		must(t, err)
		if len(names) > 0 {
			t.Errorf("room for %d writes: %q is left", full, names)
		}
	}
	must(t, errors.Join(checkStore(db), db.Close()))
	for _, dir := range []string{storeDir, dir} {
		copied := open(t, dir, tinyOptions(mem))
		for i := range 1000 {
			if _, err := copied.Get(fmt.Append(nil, "key ", i)); err != nil {
				t.Fatalf("%s: key %d: %v", dir, i, err)
			}
		}
		must(t, errors.Join(checkStore(copied), copied.Close()))
	}
}
