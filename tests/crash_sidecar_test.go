package tests_test

import (
	"bytes"
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
	"github.com/sievekv/sievekv/tests/faultfs"
)

const sidecar = storeDir + "/DURABLE"

// tornStores returns disks with a store that holds item in key k, closed or not, whose sidecar covers that.
func tornStores(t *testing.T) map[string]*kvtest.Disk {
	t.Helper()
	disk := kvtest.NewDisk()
	must(t, faultfs.MakeDir(disk))
	db := open(t, storeDir, tinyOptions(disk))
	must(t, reserve("k", 100)(db, kv.Always))
	must(t, add("k", "x", true)(db, kv.Always))
	before := readFile(t, disk, sidecar)
	for bytes.Equal(readFile(t, disk, sidecar), before) {
		time.Sleep(10 * time.Millisecond)
	}
	crashed := disk.CrashClone(vfs.CrashCloneCfg{})
	// Closing writes the sidecar again if there is something new.
	must(t, add("k", "y", true)(db, kv.NoSync))
	must(t, db.Close())
	return map[string]*kvtest.Disk{"closed": disk, "crashed": crashed}
}

// copyOf returns a disk with the same files.
func copyOf(disk *kvtest.Disk) *kvtest.Disk {
	return disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(0, 0))})
}

// A log that has lost its end, as far as it was known to be on the disk, is an error of Open, and stays one.
func TestCrash_lostLog(t *testing.T) {
	t.Parallel()
	for name, disk := range tornStores(t) {
		for how, lose := range map[string]func(t *testing.T, disk vfs.FS, log string){
			"removed": func(t *testing.T, disk vfs.FS, log string) { must(t, disk.Remove(log)) },
			"emptied": func(t *testing.T, disk vfs.FS, log string) { writeFile(t, disk, log, nil) },
			"halved": func(t *testing.T, disk vfs.FS, log string) {
				b := readFile(t, disk, log)
				writeFile(t, disk, log, b[:len(b)/2])
			},
			"zeroed": func(t *testing.T, disk vfs.FS, log string) {
				b := readFile(t, disk, log)
				clear(b[len(b)/2:])
				writeFile(t, disk, log, b)
			},
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				disk := copyOf(disk)
				must(t, open(t, storeDir, tinyOptions(copyOf(disk))).Close())
				lose(t, disk, newest(t, disk, storeDir, "", ".log"))
				for range 3 {
					_, err := kv.Open(storeDir, tinyOptions(disk))
					wantError(t, err, kv.ErrCorrupt, storeDir)
				}
			})
		}
	}
}

// A flipped bit in the log of a store that was closed loses nothing unnoticed.
func TestCrash_flippedLog(t *testing.T) {
	t.Parallel()
	for name, disk := range tornStores(t) {
		t.Run(name, func(t *testing.T) {
			log := newest(t, disk, storeDir, "", ".log")
			refused := 0
			size := len(readFile(t, disk, log))
			for bit := 0; bit < 8*size; bit += 1 + rand.IntN(16) {
				disk := copyOf(disk)
				b := readFile(t, disk, log)
				b[bit/8] ^= 1 << (bit % 8)
				writeFile(t, disk, log, b)
				db, err := kv.Open(storeDir, tinyOptions(disk))
				if err != nil {
					refused++
					wantError(t, err, kv.ErrCorrupt)
					continue
				}
				if err := errors.Join(present("k", "x")(db, kv.Always), checkStore(db), db.Close()); err != nil {
					t.Errorf("bit %d of %d: %v", bit, 8*size, err)
				}
			}
			if refused == 0 {
				t.Error("no flipped bit was noticed")
			}
		})
	}
}

func TestCrash_sidecar(t *testing.T) {
	t.Parallel()
	disk := kvtest.NewDisk()
	must(t, faultfs.MakeDir(disk))
	must(t, open(t, storeDir, tinyOptions(disk)).Close())
	whole := readFile(t, disk, sidecar)

	reopen := func(t *testing.T, change func(disk *kvtest.Disk)) error {
		disk := copyOf(disk)
		change(disk)
		db, err := kv.Open(storeDir, tinyOptions(disk))
		if err == nil {
			must(t, db.Close())
			if string(readFile(t, disk, sidecar)) == "" {
				t.Error("no sidecar was written")
			}
		}
		return err
	}
	write := func(b []byte) func(*kvtest.Disk) {
		return func(disk *kvtest.Disk) { writeFile(t, disk, sidecar, b) }
	}
	t.Run("whole", func(t *testing.T) { must(t, reopen(t, write(whole))) })
	t.Run("missing", func(t *testing.T) {
		must(t, reopen(t, func(disk *kvtest.Disk) { must(t, disk.Remove(sidecar)) }))
	})
	t.Run("rest of a temporary file", func(t *testing.T) {
		must(t, reopen(t, func(disk *kvtest.Disk) { writeFile(t, disk, sidecar+".tmp", []byte("SVS")) }))
	})
	t.Run("flipped bits", func(t *testing.T) {
		for bit := range 8 * len(whole) {
			b := []byte(string(whole))
			b[bit/8] ^= 1 << (bit % 8)
			wantError(t, reopen(t, write(b)), kv.ErrCorrupt, "DURABLE")
		}
	})
	t.Run("cut", func(t *testing.T) {
		for n := range whole {
			wantError(t, reopen(t, write(whole[:n])), kv.ErrCorrupt, "DURABLE")
		}
		wantError(t, reopen(t, write(append([]byte(string(whole)), 0))), kv.ErrCorrupt, "DURABLE")
	})
	t.Run("of another store", func(t *testing.T) {
		other := vfs.NewMem()
		must(t, open(t, storeDir, tinyOptions(other)).Close())
		wantError(t, reopen(t, write(readFile(t, other, sidecar))), kv.ErrCorrupt, "DURABLE")
	})
}

// The sidecar is written while the store works. A crash at any of the calls that do so leaves a store that opens: the
// sidecar never says more than what the log has.
func TestCrash_whileSidecarIsWritten(t *testing.T) {
	t.Parallel()
	disk := kvtest.NewDisk()
	must(t, faultfs.MakeDir(disk))
	var mu sync.Mutex
	var crashed []*kvtest.Disk // guarded by mu
	taken := make(map[string]int)
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	writing := false // guarded by mu; the directory is synced for others too
	fs := &faultfs.FS{FS: disk, Before: func(s faultfs.Site, _ string) error {
		mu.Lock()
		defer mu.Unlock()
		writing = s.Class == "DURABLE" || writing && s.Class == "directory"
		if writing {
			taken[s.String()]++
			for _, percent := range []int{0, 50, 100} {
				crashed = append(crashed, disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}))
			}
		}
		return nil
	}}
	db, err := kv.Open(storeDir, tinyOptions(fs))
	must(t, err)
	f := bloomext.New(db, "k").With(kv.NoSync)
	must(t, f.Reserve(small(manyBlocks)))
	rewritten := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return taken["rename DURABLE"] >= 2
	}
	for i := 0; !rewritten(); i++ {
		level := kv.NoSync
		if i%10 == 0 {
			level = kv.Always
		}
		must(t, add("k", fmt.Sprint("item ", i), true)(db, level))
		time.Sleep(time.Millisecond)
	}
	must(t, db.Close())
	t.Logf("%d crashes: %v", len(crashed), taken)
	for _, disk := range crashed {
		db, err := kv.Open(storeDir, tinyOptions(disk))
		must(t, err)
		must(t, errors.Join(checkStore(db), db.Close()))
	}
}
