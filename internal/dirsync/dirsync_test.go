package dirsync_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/dirsync"
	"github.com/sievekv/sievekv/internal/kvtest"
)

func TestSync(t *testing.T) {
	if err := dirsync.Sync(t.TempDir()); err != nil {
		t.Error(err)
	}
	if err := dirsync.Sync(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) && runtime.GOOS != "windows" {
		t.Errorf("of no directory: %v", err)
	}
	if runtime.GOOS != "linux" {
		return
	}
	// The file system /proc answers EINVAL.
	if err := dirsync.Strict(vfs.Default, "/proc"); !dirsync.Unsupported(err) {
		t.Errorf("strictly of /proc: %v", err)
	}
	if err := dirsync.Sync("/proc"); err != nil {
		t.Errorf("of /proc: %v", err)
	}
}

func TestIfSupported(t *testing.T) {
	for _, err := range []error{syscall.EINVAL, syscall.ENOTSUP, &os.PathError{Op: "sync", Path: "d", Err: syscall.EINVAL}} {
		if dirsync.IfSupported(err) != nil {
			t.Errorf("%v counts", err)
		}
	}
	for _, err := range []error{syscall.EIO, syscall.ENOSPC, syscall.EROFS, fs.ErrClosed} {
		if dirsync.IfSupported(err) != err {
			t.Errorf("%v does not count", err)
		}
	}
}

// A directory is there after a crash, with its parents.
func TestMake(t *testing.T) {
	disk := kvtest.NewDisk()
	for range 2 {
		if err := dirsync.Make(disk, "a/b/c", dirsync.Strict); err != nil {
			t.Fatal(err)
		}
		if _, err := disk.CrashClone(vfs.CrashCloneCfg{}).Stat("a/b/c"); err != nil {
			t.Error(err)
		}
	}
	broken := errors.New("broken")
	if err := dirsync.Make(disk, "a/d/e", func(vfs.FS, string) error { return broken }); err != broken {
		t.Errorf("with a sync that fails: %v", err)
	}
	if err := dirsync.Make(disk, "a", func(vfs.FS, string) error { return broken }); err != nil {
		t.Errorf("of a directory that is there: %v", err)
	}
}
