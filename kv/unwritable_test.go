package kv_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/tests/faultfs"
)

// A store that cannot be written can be opened read-only, and the error of Open says so. Of a store that is not there it
// does not.
func TestOpen_unwritable(t *testing.T) {
	for _, why := range []error{syscall.EROFS, syscall.EACCES, syscall.EPERM} {
		for _, locks := range []bool{false, true} {
			disk := vfs.NewMem()
			db, err := kv.Open("store", &kv.Options{FS: disk})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.Set(kv.Always, []byte("k"), []byte("v"), kv.SetOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			o := &kv.Options{FS: faultfs.Unwritable(disk, why, locks)}
			if _, err = kv.Open("store", o); !errors.Is(err, why) || !strings.HasSuffix(err.Error(), "a store that cannot be written can be read with Options.ReadOnly") {
				t.Errorf("%v, lock %v: %v", why, locks, err)
			}
			if _, err = kv.Open("other", o); !errors.Is(err, why) || strings.Contains(err.Error(), "ReadOnly") {
				t.Errorf("%v, no store: %v", why, err)
			}
			o.ReadOnly, o.FS = true, faultfs.Unwritable(disk, why, true) // a file system of the test has no locks for readers
			if db, err = kv.Open("store", o); err != nil {
				t.Fatalf("%v, read-only: %v", why, err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
