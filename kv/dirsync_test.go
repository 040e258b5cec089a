package kv_test

import (
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/backup"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/tests/faultfs"
)

// withoutDirSync returns a file system that cannot sync some directories, as some network file systems.
func withoutDirSync(disk vfs.FS, why error, dirs ...string) vfs.FS {
	return &faultfs.FS{FS: disk, Before: func(s faultfs.Site, name string) error {
		if first, rest, _ := strings.Cut(name, ".partial"); !strings.Contains(rest, "/") { // the directory, and none of its files
			name = first
		}
		if s.Op == "sync" && slices.Contains(dirs, name) {
			return why
		}
		return nil
	}}
}

// A store whose file system cannot sync directories is refused, new or not, and the error says why.
func TestOpen_noDirSync(t *testing.T) {
	options := func(fs vfs.FS) *kv.Options {
		return &kv.Options{FS: fs, BallastSize: -1, Logger: slog.New(slog.DiscardHandler)}
	}
	for _, why := range []error{syscall.EINVAL, syscall.ENOTSUP} {
		for _, exists := range []bool{false, true} {
			disk := vfs.NewMem()
			if exists {
				db, err := kv.Open(faultfs.StoreDir, options(disk))
				if err != nil {
					t.Fatal(err)
				}
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
			}
			db, err := kv.Open(faultfs.StoreDir, options(withoutDirSync(disk, why, "", "/", ".", "var", faultfs.StoreDir)))
			if err == nil {
				t.Errorf("%v, exists %v: no error", why, exists)
				_ = db.Close()
				continue
			}
			if want := "; the file system cannot sync directories, so a crash could take files of a store away: put the store on another"; !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%v, exists %v: %v", why, exists, err)
			}
		}
	}
}

// A backup goes on where directories cannot be synced.
func TestBackup_noDirSync(t *testing.T) {
	for _, why := range []error{syscall.EINVAL, syscall.ENOTSUP} {
		disk := vfs.NewMem()
		fs := withoutDirSync(disk, why, "copies", "copies/one")
		s := openStore(t, &kv.Options{FS: fs, BallastSize: -1})
		if err := disk.MkdirAll("copies", 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Set(kv.NoSync, []byte("k"), []byte("v"), kv.SetOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := backup.Make(t.Context(), s.DB, "copies/one", backup.Options{Check: true}); err != nil {
			t.Errorf("%v: %v", why, err)
		}
		for _, fs := range []vfs.FS{fs, disk} { // there it can be read, and elsewhere written, too
			db, err := kv.Open("copies/one", &kv.Options{FS: fs, BallastSize: -1, MustExist: true, ReadOnly: fs != disk})
			if err != nil {
				t.Errorf("%v: %v", why, err)
				continue
			}
			if v, err := db.Get([]byte("k")); string(v) != "v" || err != nil {
				t.Errorf("%v: %q, %v", why, v, err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
