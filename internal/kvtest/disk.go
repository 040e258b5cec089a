package kvtest

import (
	"io"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A Disk is a file system in memory for Options.FS, which a test can crash at any moment, also while a store works on
// it. It is Pebble's MemFS without a fault of Pebble 2.1.7: three methods take a lock for reading twice. A CrashClone
// that waits for the lock between the two then never gets it, and neither does anybody else.
type Disk struct {
	*vfs.MemFS
	twice sync.RWMutex // held for reading around the three methods, and for writing around CrashClone
}

// NewDisk returns an empty disk.
func NewDisk() *Disk {
	return &Disk{MemFS: vfs.NewCrashableMem()}
}

// CrashClone returns a disk with what may be left after a crash at this moment. It has everything that was synced. Of
// the rest, cfg tells how much.
func (d *Disk) CrashClone(cfg vfs.CrashCloneCfg) *Disk {
	d.twice.Lock()
	defer d.twice.Unlock()
	return &Disk{MemFS: d.MemFS.CrashClone(cfg)}
}

// ReuseForWrite implements vfs.FS.
func (d *Disk) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	d.twice.RLock()
	defer d.twice.RUnlock()
	return d.MemFS.ReuseForWrite(oldname, newname, category)
}

// Link implements vfs.FS.
func (d *Disk) Link(oldname, newname string) error {
	d.twice.RLock()
	defer d.twice.RUnlock()
	return d.MemFS.Link(oldname, newname)
}

// Lock implements vfs.FS.
func (d *Disk) Lock(name string) (io.Closer, error) {
	d.twice.RLock()
	defer d.twice.RUnlock()
	return d.MemFS.Lock(name)
}
