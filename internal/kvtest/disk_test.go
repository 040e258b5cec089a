package kvtest_test

import (
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/kvtest"
)

// TestDisk_clonedMeanwhile clones a disk all the time while its files change. If a call waited for a lock that it
// holds itself, the test would not end.
func TestDisk_clonedMeanwhile(t *testing.T) {
	const rounds = 20000
	calls := map[string]func(d *kvtest.Disk, i int) error{
		"reuse": func(d *kvtest.Disk, i int) error {
			f, err := d.ReuseForWrite(strconv.Itoa(i), strconv.Itoa(i+1), vfs.WriteCategoryUnspecified)
			return errors.Join(err, f.Close())
		},
		"link": func(d *kvtest.Disk, i int) error {
			return errors.Join(d.Link(strconv.Itoa(i), strconv.Itoa(i+1)), d.Remove(strconv.Itoa(i)))
		},
		"lock": func(d *kvtest.Disk, i int) error {
			l, err := d.Lock("LOCK")
			return errors.Join(err, l.Close())
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := kvtest.NewDisk()
			f, err := d.Create("0", vfs.WriteCategoryUnspecified)
			if err := errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
			var clones sync.WaitGroup
			done := make(chan struct{})
			for range 2 {
				clones.Go(func() {
					for {
						select {
						case <-done:
							return
						default:
							d.CrashClone(vfs.CrashCloneCfg{})
						}
					}
				})
			}
			defer clones.Wait()
			defer close(done)
			for i := range rounds {
				if err := call(d, i); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
