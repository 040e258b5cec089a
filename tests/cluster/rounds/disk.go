package rounds

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/tests/faultfs"
)

// disk is a file system in memory for a member's directory. It knows what was synced, so that power can fail; it can be slow, or full.
// What is left of it goes into the directory when the process ends.
type disk struct {
	*faultfs.FS
	mem    *vfs.MemFS
	dir    string       // the real one
	power  sync.RWMutex // a call holds it shared; taking it alone, for good, cuts the power
	slow   atomic.Int64 // how long a sync takes
	noByte atomic.Bool  // writes find no room
}

// newDisk reads a directory.
func newDisk(dir string) (*disk, error) {
	d := &disk{mem: vfs.NewCrashableMem(), dir: dir}
	d.FS = &faultfs.FS{FS: d.mem, Before: d.before, Around: d.around}
	d.setFree(roomy)
	if err := faultfs.MakeDir(d.mem); err != nil {
		return nil, err
	}
	if _, err := vfs.Clone(vfs.Default, d.mem, dir, faultfs.StoreDir, vfs.CloneSync); err != nil {
		return nil, err
	}
	return d, faultfs.MakeDir(d.mem) // its entries are synced
}

const (
	minFree = 64 << 20        // with less room a store takes no writes
	roomy   = 1 << 30         // free bytes of a disk with room
	tight   = minFree - 1<<20 // of one that is full, except for a reserve
)

// setFree sets how much room the store is told there is.
func (d *disk) setFree(bytes uint64) {
	d.mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: bytes, TotalBytes: 2 * roomy, UsedBytes: 2*roomy - bytes})
}

func (d *disk) before(s faultfs.Site, _ string) error {
	switch s.Op {
	case "sync":
		time.Sleep(time.Duration(d.slow.Load()))
	case "write", "create", "preallocate":
		if d.noByte.Load() {
			return syscall.ENOSPC
		}
	}
	return nil
}

// around makes a call, unless the power has failed: then the call never returns.
func (d *disk) around(_ faultfs.Site, call func() error) error {
	d.power.RLock()
	defer d.power.RUnlock()
	return call()
}

// everything is the percentage of what was not synced that a disk keeps when a process is killed and the system goes on.
const everything = 100

// cutPower ends all calls, and writes into the real directory what a crash leaves of log and store, with some of what was not synced in
// per cent. The process must end then.
func (d *disk) cutPower(log, store int, seed uint64) error {
	d.power.Lock()
	rng := rand.New(rand.NewPCG(seed, 46))
	crash := func(percent int) vfs.FS {
		return d.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
	}
	return d.save(crash(log), crash(store))
}

// close writes everything into the real directory.
func (d *disk) close() error {
	d.power.Lock()
	return d.save(d.mem, d.mem)
}

const logDir = "raft"

// save replaces the real directory.
func (d *disk) save(log, store vfs.FS) error {
	if err := os.RemoveAll(d.dir); err != nil {
		return err
	}
	inStore := path.Join(faultfs.StoreDir, logDir)
	_, err := vfs.Clone(store, vfs.Default, faultfs.StoreDir, d.dir, vfs.CloneSkip(func(name string) bool { return name == inStore }))
	if err != nil {
		return fmt.Errorf("the store: %w", err)
	}
	_, e := vfs.Clone(log, vfs.Default, inStore, path.Join(d.dir, logDir))
	return errors.Join(err, e)
}
